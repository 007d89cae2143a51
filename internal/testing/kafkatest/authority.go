package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Authority is a new certificate authority, as PEM, and how brokers at 127.0.0.1 listen with a certificate of it. It is
// what RootCAs trusts.
func Authority(t testing.TB) (ca []byte, conf *tls.Config) {
	t.Helper()
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: from,
		NotAfter: to, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootKey, rootDER := issue(t, root, root, nil)
	key, der := issue(t, &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: to,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}},
		root, rootKey)
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return ca, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// issue makes a certificate, which is its own parent where by is nil.
func issue(t testing.TB, c, parent *x509.Certificate, by *ecdsa.PrivateKey) (key *ecdsa.PrivateKey, der []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by); err != nil {
		t.Fatal(err)
	}
	return key, der
}
