package tlsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// pair makes a self-signed certificate in two files and gives the key's text, too.
func pair(t *testing.T) (cert, key, keyText string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func TestServer(t *testing.T) {
	cert, key, keyText := pair(t)
	tests := []struct {
		name, cert, key, err string
	}{
		{"key in a file", cert, key, ""},
		{"key as text", cert, keyText, ""},
		{"no such certificate", "/nope.pem", key, "tls.cert: open /nope.pem"},
		{"no such key", cert, "secret that is no path", "tls.key: no such file or directory"},
		{"not a certificate", key, key, "tls.cert " + key},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conf, err := (&Server{Cert: tt.cert, Key: schema.NewSecret(tt.key)}).Config()
			switch {
			case tt.err == "" && (err != nil || len(conf.Certificates) != 1):
				t.Errorf("got %v", err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("got %v, want %q in it", err, tt.err)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
	if conf, err := (&Server{}).Config(); conf != nil || err != nil {
		t.Errorf("without a certificate: got %v, %v, want no TLS", conf, err)
	}
}

func TestClient(t *testing.T) {
	cert, key, _ := pair(t)
	conf, err := (&Client{CA: cert, Cert: cert, Key: schema.NewSecret(key), ServerName: "n"}).Config()
	if err != nil || conf.RootCAs == nil || len(conf.Certificates) != 1 || conf.ServerName != "n" || conf.InsecureSkipVerify {
		t.Errorf("got %+v, %v", conf, err)
	}
	if _, err = (&Client{CA: key}).Config(); err == nil || !strings.Contains(err.Error(), "has no PEM certificate in it") {
		t.Errorf("got %v", err)
	}
}
