package webtoken

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/memo"
)

// parsePEM is the first key in a text in PEM. why says why there is none.
func parsePEM(text []byte, private bool) (key any, why string) {
	why = "there is none"
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, why
		}
		text = rest
		isPrivate := strings.HasSuffix(block.Type, "PRIVATE KEY")
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			why = "this one is encrypted, so decrypt it with: openssl pkey"
			continue
		case isPrivate && !private:
			why = "this one is private"
			continue
		case !isPrivate && private:
			why = "this one is not private"
			continue
		}
		key, err := parseBlock(block)
		if err != nil {
			return nil, "this one can't be read"
		}
		if key != nil {
			return key, ""
		}
	}
}

// parseBlock is the key in a block of PEM, or nil if the block has none.
func parseBlock(block *pem.Block) (key any, err error) {
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return c.PublicKey, nil
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	}
	return nil, nil
}

const maxKeys = 256

// jwtKeys are keys from messages.
var jwtKeys = memo.Map[keyID, jwtKey]{Most: maxKeys}

type keyID struct {
	text    [sha256.Size]byte
	kind    string
	signing bool
}
