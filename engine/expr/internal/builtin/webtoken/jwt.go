// Package webtoken has the functions for JSON Web Tokens. Keys are read in key.go and pem.go, claims are checked in checks.go.
package webtoken

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Declare declares the functions of JSON Web Tokens.
func Declare() {
	tokens.Declare("hashes and encryption", false) // they read the clock, or make random signatures
	lang.Lookup("jwt_header").Pure = true
	lang.Lookup("jwt_sign").Shortcuts = func(s *lang.Site, _ *lang.Node, args []lang.Node) { prepareKey(s, args, true) }
	lang.Lookup("jwt_verify").Shortcuts = func(s *lang.Site, _ *lang.Node, args []lang.Node) {
		if !args[2].Const {
			s.Argument(args[2]).Fail(`%s() needs algorithms that are written here, such as "RS256": a message can't choose them`,
				s.Name)
		}
		prepareKey(s, args, false)
	}
}

var tokens = lang.Builtins{
	{"jwt_sign(object, jwt_key, jwt_algorithm, [object]) text",
		"A JSON Web Token of these claims; times among them become seconds since 1970. The algorithm is HS256, RS256, PS256 or ES256, each " +
			"also with 384 or 512, or EdDSA. HS needs a secret as the key, the others a private key in PEM. The last argument gives more header " +
			"fields, such as kid.",
		`jwt_sign({sub: "ann"}, "secret", "HS256") → "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhbm4ifQ.PjR3fgnevdXvvFDIexpV052PaeBybdsf` +
			`UE102L3fkg4"`,
		jwtSign},
	{"jwt_verify(text, jwt_key, jwt_algorithms, [jwt_checks]) object",
		`The claims of a JSON Web Token. Fails unless its signature matches this key and this algorithm, or one of a list, which are written ` +
			`here and never taken from a message; also fails if it has expired (exp) or is not yet valid (nbf). HS needs a secret as the key, ` +
			`the others a public key or a certificate in PEM. The last argument is what else to check: {issuer: text, audience: text}, each of ` +
			`which may be a list of alternatives, and {leeway: duration("30s")}, by which clocks may differ.`,
		`jwt_verify(jwt_sign({sub: "ann"}, "secret", "HS256"), "secret", "HS256") → {sub: "ann"}
jwt_verify(jwt_sign({exp: 1}, "secret", "HS256"), "secret", ["HS256", "HS512"]) → error: jwt_verify(): the token has expired`,
		jwtVerify},
	{"jwt_header(text) object",
		"The header of a JSON Web Token, without verifying it: it may tell which key to verify it with.",
		`jwt_header(jwt_sign({sub: "ann"}, "secret", "HS256", {kid: "1"})).kid → "1"`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return parseToken(f, s, args[0].(string)).header }},
}

// prepareKey prepares a constant key.
func prepareKey(s *lang.Site, args []lang.Node, signing bool) {
	if methods, ok := s.Prepared(2).([]jwt.SigningMethod); ok && args[1].Const {
		s.SetPrepared(1, len(args), jwtKeyOf(s.Argument(args[1]), methods, value.ViewBytes(args[1].Value), signing))
	}
}

func jwtSign(f *lang.Frame, s *lang.Site, args []any) any {
	methods, ok := s.Prepared(2).([]jwt.SigningMethod)
	if !ok {
		methods = methodsOf(s, args[2])
	}
	method, key := methods[0], keyAt(f, s, methods, args[1], true)
	header := map[string]any{"typ": "JWT"}
	if len(args) == 4 {
		more := args[3].(map[string]any)
		f.ChargeObject(s.Offset, len(more))
		maps.Copy(header, more)
	}
	for _, name := range []string{"alg", "crit"} {
		if _, there := header[name]; there {
			s.Fail("%s(): the field %s of the header can't be set", s.Name, name)
		}
	}
	header["alg"] = method.Alg()
	out := segment(f, s, nil, header)
	out = segment(f, s, append(out, '.'), numericDates(f, s, args[0].(map[string]any)))
	f.Step(s.Offset, key.cost+len(out)>>5)
	signature, err := method.Sign(string(out), key.key)
	if err != nil {
		s.Fail("%s(): this key can't sign with %s", s.Name, method.Alg())
	}
	return string(base64.RawURLEncoding.AppendEncode(append(out, '.'), signature))
}

// segment appends a part of a token.
func segment(f *lang.Frame, s *lang.Site, dst []byte, v any) []byte {
	f.ChargeText(s.Offset, v)
	text := lang.AppendJSON(s, nil, v)
	f.Alloc(s.Offset, 3*base64.RawURLEncoding.EncodedLen(len(text))) // dst may grow, and is signed as text
	return base64.RawURLEncoding.AppendEncode(dst, text)
}

// numericDates are claims whose times are seconds since 1970.
func numericDates(f *lang.Frame, s *lang.Site, claims map[string]any) map[string]any {
	f.ChargeObject(s.Offset, len(claims))
	made := maps.Clone(claims)
	for name, v := range claims {
		if t, ok := v.(time.Time); ok {
			made[name] = int(t.Unix())
		}
	}
	for _, name := range []string{"exp", "nbf", "iat"} {
		if v, there := made[name]; there && value.KindOf(v)&value.Number == 0 {
			s.FailWith(`write now() + duration("1h") for in an hour`,
				"%s() needs a time as %s, not %s", s.Name, name, s.Show(v))
		}
	}
	return made
}

// token is a token in its parts.
type token struct {
	header    map[string]any
	signed    string // the header and the claims, encoded
	claims    string // encoded
	signature []byte
}

// strictBase64 accepts one text for each sequence of bytes, apart from line breaks.
var strictBase64 = base64.RawURLEncoding.Strict()

func parseToken(f *lang.Frame, s *lang.Site, text string) token {
	f.Alloc(s.Offset, 3*len(text)) // decoded, copied to be verified, and decoded as JSON
	parts := strings.SplitN(text, ".", 4)
	if len(parts) != 3 || strings.ContainsAny(text, "\r\n") {
		failToken(s, text)
	}
	header, err := strictBase64.DecodeString(parts[0])
	signature, err2 := strictBase64.DecodeString(parts[2])
	if err != nil || err2 != nil {
		failToken(s, text)
	}
	v, err := f.TryDecode(s.Offset, header)
	fields, ok := v.(map[string]any)
	if err != nil || !ok {
		failToken(s, text)
	}
	return token{fields, text[:len(text)-len(parts[2])-1], parts[1], signature}
}

// failToken ends the evaluation because text is not a token. It shows nothing of the text, which may be nearly a token.
func failToken(s *lang.Site, text string) {
	remedy := ""
	if strings.HasPrefix(text, "Bearer ") {
		remedy = `trim_prefix(x, "Bearer ") gives the token alone`
	}
	s.FailWith(remedy, "%s(): the text is not a JSON Web Token", s.Name)
}

func jwtVerify(f *lang.Frame, s *lang.Site, args []any) any {
	t := parseToken(f, s, args[0].(string))
	methods := s.Prepared(2).([]jwt.SigningMethod)
	key := keyAt(f, s, methods, args[1], false)
	at := slices.IndexFunc(methods, func(m jwt.SigningMethod) bool { return m.Alg() == t.header["alg"] })
	if at < 0 || !key.fits(methods[at]) {
		s.Fail("%s(): the algorithm of the token is not one that is accepted here with this key", s.Name)
	}
	if _, extended := t.header["crit"]; extended {
		s.Fail("%s(): the token has extensions that have to be understood (crit), which are not supported", s.Name)
	}
	f.Step(s.Offset, key.cost+len(t.signed)>>5)
	if methods[at].Verify(t.signed, t.signature, key.key) != nil {
		s.Fail("%s(): the signature of the token is not of this key", s.Name)
	}
	text, err := strictBase64.DecodeString(t.claims)
	if err != nil {
		failToken(s, "")
	}
	v, err := f.TryDecode(s.Offset, text)
	claims, ok := v.(map[string]any)
	if err != nil || !ok {
		s.Fail("%s(): the claims of the token are not a JSON object", s.Name)
	}
	if len(args) < 4 {
		jwtChecks{}.check(s, claims)
	} else if checks, ok := s.Prepared(3).(jwtChecks); ok {
		checks.check(s, claims)
	} else {
		jwtChecksOf(s, args[3]).check(s, claims)
	}
	return claims
}
