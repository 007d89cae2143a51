package nats

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
)

// A server is trusted if its authority is configured. If the server has no TLS, the error says so.
func TestTLS(t *testing.T) {
	ca, conf := kafkatest.Authority(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca)
	s := natstest.Start(t, func(o *server.Options) {
		o.TLSConfig = &tls.Config{Certificates: conf.Certificates, MinVersion: tls.VersionTLS12}
		o.TLSTimeout = 60
	}, client.Secure(&tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}))
	o := opened(t, s, fmt.Sprintf(`"subject": "a", "tls": {"ca": %q}`, file))
	if fates := written(t, o, "x"); fates[0] != "safe" {
		t.Error(fates)
	}
	plain := natstest.Start(t, nil)
	for _, tt := range []struct {
		s          *natstest.Server
		more, want string
	}{
		{s, `, "tls": {}`, "name the authority in `tls: {ca: FILE}`"},
		{s, fmt.Sprintf(`, "tls": {"ca": %q, "server_name": "other"}`, file), "set `tls: {server_name: …}`"},
		{plain, `, "tls": {}`, "the server does not support TLS: write nats:// and remove `tls`"},
	} {
		bad := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"nats": {"url": %q, "subject": "a"%s}}`, tt.s.URL, tt.more))
		err := bad.(engine.Opener).Open(t.Context())
		if engine.ErrorOf(err, "").Class != engine.Auth || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.more, err)
		}
	}
}
