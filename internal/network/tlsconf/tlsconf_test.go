package tlsconf

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	var der []byte
	der, a.key = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) issue(c *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.n++
	c.SerialNumber = big.NewInt(a.n)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by); err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// text is the authority's own certificate.
func (a *authority) text() string { return encoded("CERTIFICATE", a.cert.Raw) }

// pair is a certificate for a name, valid from now on for some time, and its key.
func (a *authority) pair(name string, valid time.Duration) (cert, key string) {
	a.t.Helper()
	der, private := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: time.Now().Add(min(0, 2*valid)),
		NotAfter:    time.Now().Add(valid),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return encoded("CERTIFICATE", der), encoded("PRIVATE KEY", text)
}

func encoded(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// folder is where certificates are. A file is replaced by another file, as most renewals of
// certificates do.
type folder struct {
	t   *testing.T
	dir string
}

func (f folder) at(name string) string { return filepath.Join(f.dir, name) }

func (f folder) put(name, text string) string {
	f.t.Helper()
	if err := os.WriteFile(f.at(name+".new"), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.at(name+".new"), f.at(name)); err != nil {
		f.t.Fatal(err)
	}
	return f.at(name)
}

func (f folder) putPair(name, cert, key string) (certFile, keyFile string) {
	return f.put(name+".pem", cert), f.put(name+".key", key)
}

// meet has a client and a server shake hands, and exchange a byte. It gives the name in
// the certificate that the server showed.
func meet(client, server *tls.Config) (shown string, err error) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		return "", err
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		s, err := l.Accept()
		if err == nil {
			_, err = s.Write([]byte("x"))
			_, _ = s.Read(make([]byte, 1)) // until the client has gone
			s.Close()
		}
		served <- err
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
		shown = c.ConnectionState().PeerCertificates[0].Subject.CommonName
		c.Close()
	}
	if refused := <-served; refused != nil && !errors.Is(refused, io.EOF) &&
		!strings.Contains(refused.Error(), "remote error") {
		err = refused // which says more than the alert
	}
	return shown, err
}

// trusting is a client that trusts an authority, for a server of a name.
func trusting(a *authority, name string) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, ServerName: name}
}

func TestServer(t *testing.T) {
	a, f := newAuthority(t, "a"), folder{t, t.TempDir()}
	certText, keyText := a.pair("here", time.Hour)
	cert, key := f.putPair("here", certText, keyText)
	tests := []struct {
		name, cert, key, clientCA, err string
	}{
		{"key in a file", cert, key, "", ""},
		{"key as text", cert, keyText, "", ""},
		{"no such certificate", "/nope.pem", key, "", "tls.cert: open /nope.pem"},
		{"no such key", cert, "secret that is no path", "", "tls.key: no such file or directory"},
		{"not a certificate", key, key, "", "tls.cert " + key},
		{"no such authorities", cert, key, "/nope.pem", "tls.client_ca: open /nope.pem"},
		{"not authorities", cert, key, key, "tls.client_ca: " + key + " contains no PEM certificate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conf, err := (&Server{Cert: tt.cert, Key: schema.NewSecret(tt.key), ClientCA: tt.clientCA}).Config(nil)
			switch {
			case tt.err == "" && (err != nil || Shown(conf).Subject.CommonName != "here"):
				t.Errorf("got %v", err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("got %v, want %q in it", err, tt.err)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
	if conf, err := (&Server{}).Config(nil); conf != nil || err != nil {
		t.Errorf("without a certificate: got %v, %v, want no TLS", conf, err)
	}
}

func TestClient(t *testing.T) {
	a, f := newAuthority(t, "a"), folder{t, t.TempDir()}
	certText, keyText := a.pair("me", time.Hour)
	cert, key := f.putPair("me", certText, keyText)
	conf, err := (&Client{CA: cert, Cert: cert, Key: schema.NewSecret(key), ServerName: "n"}).Config()
	if err != nil || conf.RootCAs == nil || conf.GetClientCertificate == nil || conf.ServerName != "n" ||
		conf.InsecureSkipVerify {
		t.Errorf("got %+v, %v", conf, err)
	}
	if _, err = (&Client{CA: key}).Config(); err == nil ||
		!strings.Contains(err.Error(), "contains no PEM certificate") {
		t.Errorf("got %v", err)
	}
}

func TestARenewedCertificateIsShownToNewConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, f := newAuthority(t, "a"), folder{t, t.TempDir()}
		var log bytes.Buffer
		first, firstKey := a.pair("here", time.Hour)
		cert, key := f.putPair("here", first, firstKey)
		conf, err := (&Server{Cert: cert, Key: schema.NewSecret(key)}).Config(slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		want := func(name, said string) {
			t.Helper()
			time.Sleep(pause)
			for range 3 { // more of them say nothing more
				if shown, err := meet(trusting(a, name), conf); err != nil {
					t.Errorf("%s: got %q, %v", name, shown, err)
				}
			}
			lines := strings.Count(log.String(), "\n")
			if said == "" && lines > 0 || said != "" && (lines != 1 || !strings.Contains(log.String(), said)) {
				t.Errorf("log:\n%swant one line with %q", &log, said)
			}
			log.Reset()
		}
		want("here", "")
		second, secondKey := a.pair("renewed", time.Hour)
		f.put("here.pem", second)
		want("here", "private key does not match public key")
		f.put("here.key", secondKey)
		want("renewed", "was read again")
		f.put("here.key", "nonsense")
		want("renewed", "level=ERROR")
		if err := os.Remove(cert); err != nil {
			t.Fatal(err)
		}
		want("renewed", "no such file")
		f.putPair("here", second, secondKey)
		want("renewed", "was read again")
		f.putPair("here", first, firstKey)
		time.Sleep(2 * time.Hour)
		log.Reset()
		if _, err := meet(trusting(a, "renewed"), conf); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("an expired one: got %v", err)
		}
		if !strings.Contains(log.String(), "the certificate has expired at") {
			t.Errorf("log: %s", &log)
		}
		log.Reset()
		f.putPair("here", first, firstKey)
		third, thirdKey := a.pair("third", time.Hour)
		f.putPair("here", third, thirdKey)
		want("third", "was read again")
	})
}

func TestClientsMeetTheRightServerAlone(t *testing.T) {
	a, b, f := newAuthority(t, "a"), newAuthority(t, "b"), folder{t, t.TempDir()}
	server := func(by *authority, name string, valid time.Duration) *tls.Config {
		t.Helper()
		certText, keyText := by.pair(name, valid)
		cert, key := f.putPair(name, certText, keyText)
		conf, err := (&Server{Cert: cert, Key: schema.NewSecret(key)}).Config(nil)
		if err != nil {
			t.Fatal(err)
		}
		return conf
	}
	old := server(a, "here", time.Hour)
	old.MaxVersion, old.MinVersion = tls.VersionTLS11, tls.VersionTLS10
	tests := []struct {
		name   string
		server *tls.Config
		err    string
	}{
		{"the right one", server(a, "here", time.Hour), ""},
		{"another name", server(a, "there", time.Hour), "certificate is valid for there, not here"},
		{"one that has expired", server(a, "here", -time.Hour), "certificate has expired"},
		{"another authority", server(b, "here", time.Hour), "unknown authority"},
		{"an old version of TLS", old, "unsupported versions"},
	}
	ca := f.put("ca.pem", a.text())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conf, err := (&Client{CA: ca, ServerName: "here"}).Config()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := meet(conf, tt.server); (err == nil) != (tt.err == "") || err != nil &&
				!strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
		})
	}
}

func TestClientsShowACertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, f := newAuthority(t, "a"), newAuthority(t, "b"), folder{t, t.TempDir()}
		certText, keyText := a.pair("here", 24*time.Hour)
		cert, key := f.putPair("here", certText, keyText)
		var log bytes.Buffer
		server, err := (&Server{Cert: cert, Key: schema.NewSecret(key),
			ClientCA: f.put("clients.pem", a.text())}).Config(slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ca := f.put("ca.pem", a.text())
		client := func(by *authority, valid time.Duration) *tls.Config {
			t.Helper()
			certText, keyText := by.pair("me", valid)
			cert, key := f.putPair("me", certText, keyText)
			conf, err := (&Client{CA: ca, ServerName: "here", Cert: cert, Key: schema.NewSecret(key)}).Config()
			if err != nil {
				t.Fatal(err)
			}
			conf.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			return conf
		}
		refused := func(conf *tls.Config, want string) {
			t.Helper()
			if _, err := meet(conf, server); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		welcome := func(conf *tls.Config) {
			t.Helper()
			for range 2 { // the second resumes
				if _, err := meet(conf, server); err != nil {
					t.Error(err)
				}
			}
		}
		refused(trusting(a, "here"), "didn't provide a certificate")
		refused(client(b, time.Hour), "unknown authority")
		refused(client(a, -time.Hour), "expired")
		known := client(a, time.Hour)
		welcome(known)

		f.put("clients.pem", b.text()) // the authority is another now
		time.Sleep(pause)
		refused(known, "unknown authority")
		stranger := client(b, time.Hour)
		welcome(stranger)
		f.put("clients.pem", "nonsense")
		time.Sleep(pause)
		welcome(stranger)
		if !strings.Contains(log.String(), "level=ERROR") ||
			!strings.Contains(log.String(), "contains no PEM certificate") {
			t.Errorf("log: %s", &log)
		}

		f.put("clients.pem", b.text())
		renewed, renewedKey := b.pair("renewed", 3*time.Hour)
		time.Sleep(2 * time.Hour)
		refused(stranger, "expired")
		f.putPair("me", renewed, renewedKey)
		time.Sleep(pause)
		welcome(stranger)
		f.put("me.key", "nonsense")
		time.Sleep(pause)
		welcome(stranger)
		time.Sleep(3 * time.Hour)
		refused(stranger, "tls.key")
	})
}
