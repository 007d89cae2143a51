// Package tlsconf is the TLS section of the configuration of network
// components: [Client] for those that call, [Server] for those that listen.
package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/flowd-io/flowd/schema"
)

// Client configures the calling side of TLS. The zero Client trusts what the
// system trusts.
type Client struct {
	CA         string        `yaml:"ca" doc:"PEM file of the certificates to trust instead of the system's."`
	Cert       string        `yaml:"cert" doc:"PEM file of the certificate to show, with key."`
	Key        schema.Secret `yaml:"key" doc:"PEM file of its private key, or the key itself."`
	ServerName string        `yaml:"server_name" doc:"Name that the server's certificate must have, instead of its host's."`
	SkipVerify bool          `yaml:"skip_verify" doc:"Trust any certificate: for tests only, it lets anyone listen in."`
}

// CheckConfig reports what can't work.
func (c *Client) CheckConfig(report func(path, message, remedy string)) {
	checkPair(c.Cert, c.Key, report)
}

// Config reads the files and makes a configuration.
func (c *Client) Config() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.SkipVerify} // #nosec G402 -- the user asked for it by name
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("tls.ca: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca: %s has no PEM certificate in it", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := load(c.Cert, c.Key)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// Server configures the listening side of TLS. The zero Server listens without.
type Server struct {
	Cert string        `yaml:"cert" doc:"PEM file of the certificate, with those between it and its root."`
	Key  schema.Secret `yaml:"key" doc:"PEM file of its private key, or the key itself."`
}

// CheckConfig reports what can't work.
func (s *Server) CheckConfig(report func(path, message, remedy string)) {
	checkPair(s.Cert, s.Key, report)
}

// Config reads the files and makes a configuration; nil without TLS.
func (s *Server) Config() (*tls.Config, error) {
	if s.Cert == "" {
		return nil, nil
	}
	pair, err := load(s.Cert, s.Key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, nil
}

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
	if len(keyPEM) == 0 || keyPEM[0] != '-' {
		if keyPEM, err = os.ReadFile(key.Reveal()); err != nil {
			// The error's text has the name that was tried, which could be a key.
			var at *os.PathError
			if errors.As(err, &at) {
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
