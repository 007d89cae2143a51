package postgrescdc

import (
	"crypto/x509"
	"encoding/pem"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgtest.Own(t), numbers)
	authority, server := kafkatest.Authority(t)
	key, err := x509.MarshalPKCS8PrivateKey(server.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{"server.key": {Type: "PRIVATE KEY", Bytes: key},
		"server.crt": {Type: "CERTIFICATE", Bytes: server.Certificates[0].Certificate[0]}} {
		d.exec(t, `COPY (SELECT unnest(string_to_array('`+string(pem.EncodeToMemory(b))+`', E'\n'))) TO PROGRAM 'umask 077; cat > `+name+`'`)
	}
	d.exec(t, `ALTER SYSTEM SET ssl = on`, `SELECT pg_reload_conf()`)
	until(t, "TLS", func() bool { return d.exec(t, `SHOW ssl`) == "on" })
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := d.config()
	cfg.TLS = &tlsconf.Client{}
	if err := opened(t, cfg); engine.ErrorOf(err, "?").Class != engine.Auth || !strings.Contains(err.Error(), "name the authority") {
		t.Errorf("an authority that is not trusted: %v", err)
	}
	cfg.TLS = &tlsconf.Client{CA: ca, ServerName: "elsewhere"}
	if err := opened(t, cfg); engine.ErrorOf(err, "?").Class != engine.Auth || !strings.Contains(err.Error(), "server_name") {
		t.Errorf("another name: %v", err)
	}
	cfg.TLS = &tlsconf.Client{CA: ca}
	cfg.DSN = edited(t, d.url, func(u *url.URL) { u.RawQuery = "sslmode=disable" }) // which `tls` overrules
	r := start(t, cfg, &enginetest.Sink{})
	r.ready()
	d.insert(t, 1, 500)
	r.has(250)
	if got := d.exec(t,
		`SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.application_name LIKE 'flowd %'`); got != "t" {
		t.Errorf("all connections are encrypted: %q", got)
	}
	d.cut(t)
	once(t, r.has(500), 500)
}
