// Package tlsconf is the TLS section in the configuration of network components: [Client] for those that call,
// [Server] for those that listen.
package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/flowd-io/flowd/schema"
)

// Client configures TLS for the calling side. The zero Client trusts the system's certificates.
type Client struct {
	CA         string        `yaml:"ca" doc:"PEM file with the certificates to trust instead of the system's."`
	Cert       string        `yaml:"cert" doc:"PEM file with the certificate to present, with key."`
	Key        schema.Secret `yaml:"key" doc:"PEM file with its private key, or the key itself."`
	ServerName string        `yaml:"server_name" doc:"Name to expect in the server's certificate, instead of its host name."`
	SkipVerify bool          `yaml:"skip_verify" doc:"Trust any certificate. For tests only: it lets anyone listen in."`
}

// ConfigFiles returns the files that are read.
func (c Client) ConfigFiles() []string { return append(pairFiles(c.Cert, c.Key), c.CA) }

// ConfigFiles returns the files that are read.
func (s Server) ConfigFiles() []string { return append(pairFiles(s.Cert, s.Key), s.ClientCA) }

// pairFiles returns the files of a pair. The configuration may contain the key itself.
func pairFiles(cert string, key schema.Secret) []string {
	if isKey(key.Reveal()) {
		return []string{cert}
	}
	return []string{cert, key.Reveal()}
}

// CheckConfig reports settings that can't work.
func (c *Client) CheckConfig(report func(path, message, remedy string)) {
	checkPair(c.Cert, c.Key, report)
}

// OfFlags returns the configuration of a command with the flags --ca, --cert and --key, each a file or "". Errors
// name the flags.
func OfFlags(ca, cert, key string) (*tls.Config, error) {
	if (cert == "") != (key == "") {
		return nil, errors.New("--cert and --key belong together (give both)")
	}
	conf, err := (&Client{CA: ca, Cert: cert, Key: schema.NewSecret(key)}).Config()
	if err != nil {
		text := strings.Replace(err.Error(), " with tls.key:", " with --key:", 1)
		return nil, errors.New("--" + strings.TrimPrefix(text, "tls."))
	}
	return conf, nil
}

// Config reads the files and makes a configuration. At a handshake, it reads the certificate again if its files have
// changed. An unusable certificate does not replace a valid one.
func (c *Client) Config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName,
		InsecureSkipVerify: c.SkipVerify} // #nosec G402 -- the user asked for it by name
	var err error
	if c.CA != "" {
		if conf.RootCAs, err = pool("tls.ca", c.CA); err != nil {
			return nil, err
		}
	}
	if c.Cert != "" {
		pair, err := watchPair(c.Cert, c.Key, nil)
		if err != nil {
			return nil, err
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			shown, err := pair.now()
			if err != nil && inForce(shown, time.Now()) == nil {
				err = nil
			}
			return shown, err
		}
	}
	return conf, nil
}

// Server configures TLS for the listening side. The zero Server listens without TLS.
type Server struct {
	Cert     string        `yaml:"cert" doc:"PEM file with the certificate and its intermediates. It is read again when it, or key, has changed."`
	Key      schema.Secret `yaml:"key" doc:"PEM file with its private key, or the key itself."`
	ClientCA string        `yaml:"client_ca" doc:"PEM file with certificate authorities: clients must present a certificate signed by one of them. It is read again when it has changed."`
}

// CheckConfig reports settings that can't work.
func (s *Server) CheckConfig(report func(path, message, remedy string)) {
	checkPair(s.Cert, s.Key, report)
	if s.ClientCA != "" && s.Cert == "" {
		report("client_ca", "clients can present certificates only with TLS", "set cert and key, too")
	}
}

// Config reads the files and makes a configuration, or nil without TLS. At a handshake, it reads changed files again.
// Unusable files never replace usable ones, and are logged once per cause.
func (s *Server) Config(log *slog.Logger) (*tls.Config, error) {
	if s.Cert == "" {
		return nil, nil
	}
	pair, err := watchPair(s.Cert, s.Key, log)
	if err != nil {
		return nil, err
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			shown, _ := pair.now() // an unusable file has been logged
			return shown, nil
		}}
	if s.ClientCA != "" {
		trusted, err := watch("the authorities of clients", log,
			func() (*x509.CertPool, error) { return pool("tls.client_ca", s.ClientCA) }, s.ClientCA)
		if err != nil {
			return nil, err
		}
		// A pool in the configuration could not change. So the certificate is checked here, also for resumed
		// connections.
		conf.ClientAuth = tls.RequireAnyClientCert
		conf.VerifyConnection = func(c tls.ConnectionState) error {
			pool, _ := trusted.now()
			return verified(c.PeerCertificates, pool)
		}
	}
	return conf, nil
}

// Shown returns the current certificate of a listener with a configuration from [Server.Config].
func Shown(conf *tls.Config) *x509.Certificate {
	pair, _ := conf.GetCertificate(nil)
	return pair.Leaf
}

func watchPair(cert string, key schema.Secret, log *slog.Logger) (*watched[*tls.Certificate], error) {
	first := true
	return watch("the certificate", log, func() (*tls.Certificate, error) {
		pair, err := load(cert, key)
		if err == nil && !first { // an unusable one is no reason to replace another
			err = inForce(&pair, time.Now())
		}
		first = false
		return &pair, err
	}, pairFiles(cert, key)...)
}

func pool(name, file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: %s contains no PEM certificate", name, file)
	}
	return p, nil
}

// isKey reports whether text is a key, not the name of its file.
func isKey(text string) bool { return text != "" && text[0] == '-' }

func checkPair(cert string, key schema.Secret, report func(path, message, remedy string)) {
	switch {
	case cert == "" && !key.IsZero():
		report("key", "a key needs its certificate", "set cert, too")
	case cert != "" && key.IsZero():
		report("cert", "a certificate needs its key", "set key, too")
	}
}

func load(cert string, key schema.Secret) (tls.Certificate, error) {
	certPEM, err := os.ReadFile(cert)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls.cert: %w", err)
	}
	keyPEM := []byte(key.Reveal())
	if !isKey(key.Reveal()) {
		if keyPEM, err = os.ReadFile(key.Reveal()); err != nil {
			// The error's text contains the file name, which could be a key.
			if at, ok := errors.AsType[*os.PathError](err); ok {
				err = at.Err
			}
			return tls.Certificate{}, fmt.Errorf("tls.key: %w", err)
		}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tls.cert %s with tls.key: %w", cert, err)
	}
	return pair, nil
}
