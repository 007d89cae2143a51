package webtoken_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/webtoken"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

// pair is a private key of package crypto and its public key; other is another private key.
type pair struct{ private, public, other any }

var rsaPairs = sync.OnceValue(func() [2]*rsa.PrivateKey {
	var keys [2]*rsa.PrivateKey
	for i := range keys {
		keys[i] = mustKey(rsa.GenerateKey(rand.Reader, 2048))
	}
	return keys
})

// keysFor returns keys for an algorithm: as expressions accept them, and as the library does.
func keysFor(t testing.TB, alg string) (private, public string, p pair) {
	t.Helper()
	var signer crypto.Signer
	switch alg[:2] {
	case "HS":
		return "a secret", "a secret", pair{[]byte("a secret"), []byte("a secret"), []byte("another")}
	case "ES":
		curve := map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}[alg]
		signer = mustKey(ecdsa.GenerateKey(curve, rand.Reader))
	case "Ed":
		signer = ed25519.NewKeyFromSeed([]byte("a seed of as many as 32 bytes, so"[:32]))
	default:
		signer = rsaPairs()[0]
		p.other = rsaPairs()[1]
	}
	p.private, p.public = signer, signer.Public()
	return inPEM("PRIVATE KEY", mustKey(x509.MarshalPKCS8PrivateKey(signer))),
		inPEM("PUBLIC KEY", mustKey(x509.MarshalPKIXPublicKey(signer.Public()))), p
}

func inPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// rfcECKey is the key of RFC 7515, A.3, as PEM.
func rfcECKey(t *testing.T) string {
	t.Helper()
	x, y := "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
	point := append([]byte{4}, mustKey(base64.RawURLEncoding.DecodeString(x))...)
	point = append(point, mustKey(base64.RawURLEncoding.DecodeString(y))...)
	key := mustKey(ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point))
	return inPEM("PUBLIC KEY", mustKey(x509.MarshalPKIXPublicKey(key)))
}

// signed returns a token with any header and claims.
func signed(t testing.TB, alg string, key any, header, claims string) string {
	t.Helper()
	segment := base64.RawURLEncoding.EncodeToString
	text := segment([]byte(header)) + "." + segment([]byte(claims))
	signature, err := jwt.GetSigningMethod(alg).Sign(text, key)
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + segment(signature)
}

// certificate returns a certificate for a key.
func certificate(t *testing.T, key crypto.Signer) string {
	t.Helper()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<31, 0)}
	return inPEM("CERTIFICATE", mustKey(x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)))
}

// Keys are read in all formats in which OpenSSL and others write them.
func TestFormsOfKeys(t *testing.T) {
	rsaKey, ecKey := rsaPairs()[0], mustKey(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	pkcs1 := inPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))
	sec1 := inPEM("EC PRIVATE KEY", mustKey(x509.MarshalECPrivateKey(ecKey)))
	parameters := inPEM("EC PARAMETERS", []byte("\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07"))
	rsaPublic, ecPublic := inPEM("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&rsaKey.PublicKey)),
		inPEM("PUBLIC KEY", mustKey(x509.MarshalPKIXPublicKey(&ecKey.PublicKey)))
	for _, tt := range []struct{ name, private, public, alg string }{
		{"PKCS #1", pkcs1, rsaPublic, "RS256"},
		{"a certificate", pkcs1, certificate(t, rsaKey), "PS384"},
		{"SEC 1", sec1, ecPublic, "ES256"},
		{"parameters in front", parameters + sec1, parameters + ecPublic, "ES256"},
		{"both in one text, with words", "key:\n" + sec1 + ecPublic, "Here is\n" + sec1 + certificate(t, ecKey), "ES256"},
		{"line ends of Windows", strings.ReplaceAll(sec1, "\n", "\r\n"), strings.ReplaceAll(ecPublic, "\n", "\r\n"), "ES256"},
	} {
		payload, _ := doc.Append(nil, map[string]any{"private": tt.private, "public": tt.public})
		for _, src := range []string{
			fmt.Sprintf(`jwt_verify(jwt_sign({a: 1}, private, %q), public, %q)`, tt.alg, tt.alg),
			fmt.Sprintf(`jwt_verify(jwt_sign({a: 1}, %q, %q), %q, %q)`, tt.private, tt.alg, tt.public, tt.alg),
		} {
			if v, err := exprtest.EvalBoth(t, "("+src+").a", exprtest.NewMessage(string(payload))); v != 1 || err != nil {
				t.Errorf("%s: got %v, %v", tt.name, v, err)
			}
		}
	}
	exprtest.OpenSSL(t, nil, "version") // skips the rest without OpenSSL
	theirs := string(exprtest.OpenSSL(t, nil, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"))
	public := string(exprtest.OpenSSL(t, []byte(theirs), "pkey", "-pubout"))
	src := fmt.Sprintf(`jwt_verify(jwt_sign({a: 1}, %q, "ES384"), %q, "ES384").a`, theirs, public)
	if v, err := exprtest.EvalBoth(t, src, exprtest.NewMessage(`{}`)); v != 1 || err != nil {
		t.Errorf("keys of openssl: got %v, %v", v, err)
	}
}

// Constant keys and algorithms fail at load, with the caret at the argument; those of a message fail at the call.
func TestKeysThatAreRefused(t *testing.T) {
	const remedy = ` (${file:/path} reads a key with its line breaks)`
	const known = `knows the algorithms HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA, not `
	private, public, _ := keysFor(t, "RS256")
	ecPrivate, ecPublic, _ := keysFor(t, "ES384")
	small := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(3), 1022), E: 65537}
	large := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(3), 8192), E: 65537}
	kept, _ := doc.Append(nil, map[string]any{"private": ecPrivate, "public": ecPublic})
	_, err := exprtest.EvalBoth(t, `jwt_verify(jwt_sign({}, private, "ES384"), public, "ES384")`, exprtest.NewMessage(string(kept)))
	if err != nil {
		t.Error(err) // below, keys that are kept have to fit, too
	}
	for _, tt := range []struct{ call, key, want string }{
		{`jwt_verify(token, KEY, "RS256")`, "secret",
			`jwt_verify() needs a public key or a certificate in PEM for RS256: there is none` + remedy},
		{`jwt_verify(token, KEY, "RS256")`, "",
			`jwt_verify() needs a public key or a certificate in PEM for RS256: there is none` + remedy},
		{`jwt_verify(token, KEY, "RS256")`, strings.ReplaceAll(public, "\n", `\n`),
			`jwt_verify() needs a public key or a certificate in PEM for RS256: there is none` + remedy},
		{`jwt_verify(token, KEY, "RS256")`, private,
			`jwt_verify() needs a public key or a certificate in PEM for RS256: this one is private` + remedy},
		{`jwt_verify(token, KEY, "RS256")`, ecPublic, `jwt_verify() needs a key of RSA for RS256, not of EC`},
		{`jwt_verify(token, KEY, "EdDSA")`, ecPublic, `jwt_verify() needs a key of Ed25519 for EdDSA, not of EC`},
		{`jwt_verify(token, KEY, "ES512")`, ecPublic,
			`jwt_verify() needs a key of another curve for ES512: this one has 384 bits`},
		{`jwt_verify(token, KEY, ["HS256", "HS512"])`, public,
			`jwt_verify() needs a secret for HS256, not a key in PEM: whoever has that could sign`},
		{`jwt_verify(token, KEY, "HS256")`, "", `jwt_verify() needs a secret for HS256, not an empty text`},
		{`jwt_verify(token, KEY, "PS256")`, inPEM("PUBLIC KEY", mustKey(x509.MarshalPKIXPublicKey(small))),
			`jwt_verify() needs an RSA key of 2048 to 8192 bits, not 1024`},
		{`jwt_verify(token, KEY, "RS256")`, inPEM("PUBLIC KEY", mustKey(x509.MarshalPKIXPublicKey(large))),
			`jwt_verify() needs an RSA key of 2048 to 8192 bits, not 8194`},
		{`jwt_verify(token, KEY, "RS256")`, public + strings.Repeat(" ", 16<<10),
			`jwt_verify() needs a public key or a certificate in PEM of at most 16 KiB`},
		{`jwt_verify(token, KEY, "RS256")`, inPEM("PUBLIC KEY", []byte("no DER")),
			`jwt_verify() needs a public key or a certificate in PEM for RS256: this one can't be read` + remedy},
		{`jwt_verify(token, KEY, "RS256")`, inPEM("CERTIFICATE REQUEST", []byte("x")),
			`jwt_verify() needs a public key or a certificate in PEM for RS256: there is none` + remedy},
		{`jwt_sign(this, KEY, "RS256")`, public,
			`jwt_sign() needs a private key in PEM for RS256: this one is not private` + remedy},
		{`jwt_sign(this, KEY, "RS256")`, ecPrivate, `jwt_sign() needs a key of RSA for RS256, not of EC`},
		{`jwt_sign(this, KEY, "ES256")`, ecPrivate,
			`jwt_sign() needs a key of another curve for ES256: this one has 384 bits`},
		{`jwt_sign(this, KEY, "ES256")`, inPEM("ENCRYPTED PRIVATE KEY", []byte("x")),
			`jwt_sign() needs a private key in PEM for ES256: this one is encrypted, so decrypt it with: openssl pkey` + remedy},
	} {
		payload, _ := doc.Append(nil, map[string]any{"key": tt.key, "token": "e30.e30.AA"})
		quoted := fmt.Sprintf("%q", tt.key)
		exprtest.CheckFailures(t, exprtest.NewMessage(string(payload)), exprtest.Failures{
			{strings.ReplaceAll(tt.call, "KEY", quoted), tt.want, quoted},
			{strings.ReplaceAll(tt.call, "KEY", "key"), tt.want, "jwt_"},
		})
	}
	exprtest.CheckFailures(t, exprtest.NewMessage(exprtest.Sample), exprtest.Failures{
		{`jwt_verify(name, "k", "none")`, `jwt_verify() ` + known + `text "none"`, `"none"`},
		{`jwt_verify(name, "k", ["HS256", "none"])`, `jwt_verify() ` + known + `text "none"`, `[`},
		{`jwt_verify(name, "k", [])`, `jwt_verify() needs an algorithm`, `[`},
		{`jwt_verify(name, "k", [256])`, `jwt_verify() ` + known + `number 256`, `[`},
		{`jwt_verify(name, key, ["RS256", "HS256"])`,
			`jwt_verify(): RS256 and HS256 take different kinds of keys, so they can't be accepted together`, `[`},
		{`jwt_verify(name, "k", text)`,
			`jwt_verify() needs algorithms that are written here, such as "RS256": a message can't choose them`, `text`},
		{`jwt_verify(name, "k", jwt_header(name).alg)`,
			`jwt_verify() needs algorithms that are written here, such as "RS256": a message can't choose them`, `alg)`},
		{`try(jwt_verify(name, "k", [text]), 0)`,
			`jwt_verify() needs algorithms that are written here, such as "RS256": a message can't choose them`, `[`},
		{`try(jwt_verify(name, "", ["HS256"]), 0)`, `jwt_verify() needs a secret for HS256, not an empty text`, `""`},
		{`try(jwt_verify(name, "k", ["HS256"], {aud: "a"}), 0)`,
			`jwt_verify() checks issuer and audience, with a leeway, not aud`, `{`},
		{`jwt_verify(name, "k", "HS256", {issuer: 5})`,
			`jwt_verify() needs a text or a list of texts as issuer, not number 5`, `{`},
		{`jwt_verify(name, "k", "HS256", {audience: []})`,
			`jwt_verify() needs a text or a list of texts as audience, not a list`, `{`},
		{`jwt_verify(name, "k", "HS256", {leeway: 30})`,
			`jwt_verify() needs a duration as leeway, such as duration("30s"), not number 30`, `{`},
		{`jwt_verify(name, "k", "HS256", {leeway: duration("-1s")})`,
			`jwt_verify() needs a duration as leeway, such as duration("30s"), not duration -1s`, `{`},
		{`jwt_verify("e30.e30.AA", "k", "HS256", {issuer: missing})`,
			`jwt_verify(): the algorithm of the token is not one that is accepted here with this key`, `jwt`},
		{`jwt_verify(jwt_sign({}, "k", "HS256"), "k", "HS256", {issuer: missing})`,
			`jwt_verify() needs a text or a list of texts as issuer, not nothing`, `jwt`},
		{`jwt_sign(user, "k", name)`, `jwt_sign() ` + known + `text "Ann"`, `jwt_sign`},
		{`jwt_sign(user, "k", ["HS256"])`, `jwt_sign() needs text, not a list`, `jwt_sign`},
		{`jwt_sign({exp: duration("1h")}, "k", "HS256")`,
			`jwt_sign() needs a time as exp, not duration 1h0m0s (write now() + duration("1h") for in an hour)`, `jwt_sign`},
		{`jwt_sign({nbf: missing}, "k", "HS256")`,
			`jwt_sign() needs a time as nbf, not nothing (write now() + duration("1h") for in an hour)`, `jwt_sign`},
		{`jwt_sign({}, "k", "HS256", {alg: "none"})`, `jwt_sign(): the field alg of the header can't be set`, `jwt_sign`},
		{`jwt_sign({}, "k", "HS256", {crit: nil})`, `jwt_sign(): the field crit of the header can't be set`, `jwt_sign`},
		{`jwt_header(name)`, `jwt_header(): the text is not a JSON Web Token`, `jwt_header`},
	})
}

// FuzzPEM reads any text as a key.
func FuzzPEM(f *testing.F) {
	for _, alg := range []string{"ES256", "EdDSA", "RS256"} {
		private, public, _ := keysFor(f, alg)
		f.Add(private, true)
		f.Add(public, false)
		f.Add(private+public, false)
	}
	f.Add("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n", true)
	f.Fuzz(func(t *testing.T, text string, private bool) {
		if len(text) > 16<<10 {
			return
		}
		start := time.Now()
		key, why := webtoken.ParsePEM([]byte(text), private)
		if (key == nil) != (why != "") {
			t.Errorf("got the key %v and %q", key, why)
		}
		if _, ok := key.(crypto.Signer); ok != (private && key != nil) && webtoken.Bits(key) > 0 {
			t.Errorf("got a %T, asked for a private key: %v", key, private)
		}
		if took := time.Since(start); took > exprtest.Patience {
			t.Errorf("took %v", took)
		}
	})
}

func mustKey[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
