package expr

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var tokens = builtins{
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
		func(f *frame, s *site, args []any) any { return f.token(s, args[0].(string)).header }},
}

func init() {
	family(func() {
		tokens.declare("hashes and encryption", false) // they read the clock, or are random
		functions["jwt_header"].pure = true
		functions["jwt_sign"].compiled = func(s *site, _ *node, args []node) { s.jwtKey(args, true) }
		functions["jwt_verify"].compiled = func(s *site, _ *node, args []node) {
			if !args[2].konst {
				fail(args[2].offset, `%s() needs algorithms that are written here, such as "RS256": a message can't choose them`,
					s.name)
			}
			s.jwtKey(args, false)
		}
	})
}

// jwtKey prepares a key that is known at load.
func (s *site) jwtKey(args []node, signing bool) {
	if methods, ok := s.ready(2).([]jwt.SigningMethod); ok && args[1].konst {
		s.prepare(1, len(args), jwtKeyOf(s.argument(args[1]), methods, value.ViewBytes(args[1].value), signing))
	}
}

func jwtSign(f *frame, s *site, args []any) any {
	methods, ok := s.ready(2).([]jwt.SigningMethod)
	if !ok {
		methods = methodsOf(s, args[2])
	}
	method, key := methods[0], f.jwtKey(s, methods, args[1], true)
	header := map[string]any{"typ": "JWT"}
	if len(args) == 4 {
		more := args[3].(map[string]any)
		f.madeObject(s.offset, len(more))
		maps.Copy(header, more)
	}
	for _, name := range []string{"alg", "crit"} {
		if _, there := header[name]; there {
			s.fail("%s(): the field %s of the header can't be set", s.name, name)
		}
	}
	header["alg"] = method.Alg()
	out := f.segment(s, nil, header)
	out = f.segment(s, append(out, '.'), f.numericDates(s, args[0].(map[string]any)))
	f.step(s.offset, key.cost+len(out)>>5)
	signature, err := method.Sign(string(out), key.key)
	if err != nil {
		s.fail("%s(): this key can't sign with %s", s.name, method.Alg())
	}
	return string(base64.RawURLEncoding.AppendEncode(append(out, '.'), signature))
}

// segment appends a part of a token.
func (f *frame) segment(s *site, dst []byte, v any) []byte {
	f.encode(s.offset, v)
	text := appendJSON(s, nil, v)
	f.alloc(s.offset, 3*base64.RawURLEncoding.EncodedLen(len(text))) // dst may grow, and is signed as text
	return base64.RawURLEncoding.AppendEncode(dst, text)
}

// numericDates are claims with times as JWT has them.
func (f *frame) numericDates(s *site, claims map[string]any) map[string]any {
	f.madeObject(s.offset, len(claims))
	made := maps.Clone(claims)
	for name, v := range claims {
		if t, ok := v.(time.Time); ok {
			made[name] = int(t.Unix())
		}
	}
	for _, name := range []string{"exp", "nbf", "iat"} {
		if v, there := made[name]; there && value.KindOf(v)&value.Number == 0 {
			s.failFor(`write now() + duration("1h") for in an hour`,
				"%s() needs a time as %s, not %s", s.name, name, s.left(v))
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

// strictBase64 refuses what several texts would encode alike, but for line breaks.
var strictBase64 = base64.RawURLEncoding.Strict()

func (f *frame) token(s *site, text string) token {
	f.alloc(s.offset, 3*len(text)) // decoded, copied to be verified, and decoded as JSON
	parts := strings.SplitN(text, ".", 4)
	if len(parts) != 3 || strings.ContainsAny(text, "\r\n") {
		s.noToken(text)
	}
	header, err := strictBase64.DecodeString(parts[0])
	signature, err2 := strictBase64.DecodeString(parts[2])
	if err != nil || err2 != nil {
		s.noToken(text)
	}
	v, err := f.decoded(s.offset, header)
	fields, ok := v.(map[string]any)
	if err != nil || !ok {
		s.noToken(text)
	}
	return token{fields, text[:len(text)-len(parts[2])-1], parts[1], signature}
}

// noToken ends the evaluation. Nothing of the text is shown: it may be one, nearly.
func (s *site) noToken(text string) {
	remedy := ""
	if strings.HasPrefix(text, "Bearer ") {
		remedy = `trim_prefix(x, "Bearer ") gives the token alone`
	}
	s.failFor(remedy, "%s(): the text is not a JSON Web Token", s.name)
}

func jwtVerify(f *frame, s *site, args []any) any {
	t := f.token(s, args[0].(string))
	methods := s.ready(2).([]jwt.SigningMethod)
	key := f.jwtKey(s, methods, args[1], false)
	at := slices.IndexFunc(methods, func(m jwt.SigningMethod) bool { return m.Alg() == t.header["alg"] })
	if at < 0 || !key.fits(methods[at]) {
		s.fail("%s(): the algorithm of the token is not one that is accepted here with this key", s.name)
	}
	if _, extended := t.header["crit"]; extended {
		s.fail("%s(): the token has extensions that have to be understood (crit), which are not supported", s.name)
	}
	f.step(s.offset, key.cost+len(t.signed)>>5)
	if methods[at].Verify(t.signed, t.signature, key.key) != nil {
		s.fail("%s(): the signature of the token is not of this key", s.name)
	}
	text, err := strictBase64.DecodeString(t.claims)
	if err != nil {
		s.noToken("")
	}
	v, err := f.decoded(s.offset, text)
	claims, ok := v.(map[string]any)
	if err != nil || !ok {
		s.fail("%s(): the claims of the token are not a JSON object", s.name)
	}
	if len(args) < 4 {
		jwtChecks{}.check(s, claims)
	} else if checks, ok := s.ready(3).(jwtChecks); ok {
		checks.check(s, claims)
	} else {
		jwtChecksOf(s, args[3]).check(s, claims)
	}
	return claims
}
