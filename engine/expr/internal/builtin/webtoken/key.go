package webtoken

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// jwtNames are the algorithms that tokens may have. The algorithm "none" is not among them.
var jwtNames = []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
	"ES256", "ES384", "ES512", "EdDSA"}

// The roles of algorithms and of keys. prepareKey prepares a key, as it has to fit the algorithm.
var (
	_ = lang.Role("jwt_algorithm", value.Text, func(s *lang.Site, v any) any { return methodsOf(s, v) })
	_ = lang.Role("jwt_algorithms", value.Text|value.List, func(s *lang.Site, v any) any { return methodsOf(s, v) })
	_ = lang.Role("jwt_key", value.Text|value.Bytes, func(*lang.Site, any) any { return nil })
)

// methodsOf are algorithms by their names. They must take the same kind of key, lest a public key pass for a secret.
func methodsOf(s *lang.Site, v any) (methods []jwt.SigningMethod) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, v := range list {
		name, _ := v.(string)
		if !slices.Contains(jwtNames, name) {
			s.Fail("%s() knows the algorithms %s, not %s", s.Name, strings.Join(jwtNames, ", "), s.Show(v))
		}
		methods = append(methods, jwt.GetSigningMethod(name))
		if first := methods[0]; keyKind(first) != keyKind(methods[len(methods)-1]) {
			s.Fail("%s(): %s and %s take different kinds of keys, so they can't be accepted together",
				s.Name, first.Alg(), name)
		}
	}
	if len(methods) == 0 {
		s.Fail("%s() needs an algorithm", s.Name)
	}
	return methods
}

// The kinds of keys.
const (
	secretKey  = "secret"
	rsaKey     = "RSA"
	ecKey      = "EC"
	ed25519Key = "Ed25519"
)

func keyKind(m jwt.SigningMethod) string {
	switch m.(type) {
	case *jwt.SigningMethodHMAC:
		return secretKey
	case *jwt.SigningMethodECDSA:
		return ecKey
	case *jwt.SigningMethodEd25519:
		return ed25519Key
	}
	return rsaKey
}

// jwtKey is a key to sign or verify with.
type jwtKey struct {
	key  any
	kind string
	bits int
	cost int // of a signature, in steps
}

// fits says whether a key of the right kind goes with an algorithm.
func (k jwtKey) fits(m jwt.SigningMethod) bool {
	ec, ok := m.(*jwt.SigningMethodECDSA)
	return !ok || ec.CurveBits == k.bits
}

// Bounds of keys. JWT does not allow RSA keys of less than 2048 bits.
const (
	maxPEM     = 16 << 10 // bytes
	minRSABits = 2048
	maxRSABits = 8192
)

// keyAt is the key of a call. A constant key is prepared at load. Keys from messages take long to read if they are in PEM, so some
// are kept.
func keyAt(f *lang.Frame, s *lang.Site, methods []jwt.SigningMethod, v any, signing bool) jwtKey {
	if key, ok := s.Prepared(1).(jwtKey); ok {
		return key
	}
	text := f.ChargedBytes(s, v)
	kind := keyKind(methods[0])
	if kind == secretKey || len(text) > maxPEM {
		return jwtKeyOf(s, methods, text, signing)
	}
	id := keyID{sha256.Sum256(text), kind, signing}
	key, ok := jwtKeys.Get(id)
	if !ok {
		f.Step(s.Offset, 10_000+len(text)*8)
		key = jwtKeyOf(s, methods, text, signing)
		jwtKeys.Put(id, key)
	}
	key.mustFit(s, methods)
	return key
}

func jwtKeyOf(s *lang.Site, methods []jwt.SigningMethod, text []byte, signing bool) jwtKey {
	alg, kind := methods[0].Alg(), keyKind(methods[0])
	if kind == secretKey {
		return secretOf(s, alg, text)
	}
	what := "a public key or a certificate"
	if signing {
		what = "a private key"
	}
	if len(text) > maxPEM {
		s.Fail("%s() needs %s in PEM of at most 16 KiB", s.Name, what)
	}
	parsed, why := parsePEM(text, signing)
	key := classify(parsed)
	switch {
	case why != "":
		s.FailWith("${file:/path} reads a key with its line breaks",
			"%s() needs %s in PEM for %s: %s", s.Name, what, alg, why)
	case key.kind != kind:
		s.Fail("%s() needs a key of %s for %s, not of %s", s.Name, kind, alg, key.kind)
	case kind == rsaKey && (key.bits < minRSABits || key.bits > maxRSABits):
		s.Fail("%s() needs an RSA key of %d to %d bits, not %d", s.Name, minRSABits, maxRSABits, key.bits)
	}
	key.mustFit(s, methods)
	return key
}

func secretOf(s *lang.Site, alg string, text []byte) jwtKey {
	if len(text) == 0 {
		s.Fail("%s() needs a secret for %s, not an empty text", s.Name, alg)
	}
	if bytes.Contains(text, []byte("-----BEGIN ")) {
		s.Fail("%s() needs a secret for %s, not a key in PEM: whoever has that could sign", s.Name, alg)
	}
	return jwtKey{key: text, kind: secretKey, cost: 20}
}

// mustFit ends the evaluation unless the key goes with one of the algorithms.
func (k jwtKey) mustFit(s *lang.Site, methods []jwt.SigningMethod) {
	if !slices.ContainsFunc(methods, k.fits) {
		s.Fail("%s() needs a key of another curve for %s: this one has %d bits", s.Name, methods[0].Alg(), k.bits)
	}
}

// classify says which kind of key it is, and how many steps a signature costs.
func classify(key any) jwtKey {
	switch k := key.(type) {
	case *rsa.PublicKey:
		bits := k.N.BitLen()
		return jwtKey{k, rsaKey, bits, 100 * (bits >> 10) * (bits >> 10)}
	case *rsa.PrivateKey:
		bits := k.N.BitLen()
		return jwtKey{k, rsaKey, bits, 2000 * (bits >> 10) * (bits >> 10) * (bits >> 10)}
	case *ecdsa.PublicKey:
		return ecOf(k, k.Curve.Params().BitSize)
	case *ecdsa.PrivateKey:
		return ecOf(k, k.Curve.Params().BitSize)
	case ed25519.PublicKey, ed25519.PrivateKey:
		return jwtKey{k, ed25519Key, 256, 1000}
	}
	return jwtKey{kind: "another kind"}
}

func ecOf(key any, bits int) jwtKey {
	if bits > 256 { // these curves have no assembly code
		return jwtKey{key, ecKey, bits, 40_000}
	}
	return jwtKey{key, ecKey, bits, 2000}
}
