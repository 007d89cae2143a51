package webtoken_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

// Tokens of RFC 7515, A.1 and A.3, which were valid until 2011, with their common claims.
const (
	rfcClaims = `eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ`
	rfcHS256  = `eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.` + rfcClaims + `.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk`
	rfcSecret = `AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow`
	rfcES256  = `eyJhbGciOiJFUzI1NiJ9.` + rfcClaims +
		`.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q`
)

// TestTokensOfTheRFC runs in the year 2000, in which the clock of testing/synctest starts.
func TestTokensOfTheRFC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := exprtest.NewMessage(fmt.Sprintf(`{"hs": %q, "es": %q, "secret": %q, "pem": %s}`, rfcHS256, rfcES256, rfcSecret,
			doc.AppendString(nil, rfcECKey(t))))
		want := `{"exp":1300819380,"http://example.com/is_root":true,"iss":"joe"}`
		sources := []string{
			`to_json(jwt_verify(hs, from_base64url("` + rfcSecret + `"), "HS256"))`,
			`to_json(jwt_verify(hs, from_base64url(secret), ["HS512", "HS256"], {issuer: ["ann", "joe"]}))`,
			`to_json(jwt_verify(es, pem, "ES256", {issuer: "joe"}))`,
			`to_json(jwt_verify(es, bytes(pem), ["ES384", "ES256"]))`,
		}
		for _, src := range sources {
			if got, err := exprtest.EvalBoth(t, src, m); got != want || err != nil {
				t.Errorf("%s: got %v, %v, want %s", src, got, err, want)
			}
		}
		time.Sleep(time.Until(time.Unix(1300819380, 0)) - time.Millisecond)
		if got, err := exprtest.EvalBoth(t, sources[0], m); got != want || err != nil {
			t.Errorf("just before the end: got %v, %v", got, err)
		}
		time.Sleep(time.Millisecond)
		for _, src := range sources {
			if _, err := exprtest.EvalBoth(t, src, m); exprtest.Short(err) != "jwt_verify(): the token has expired" {
				t.Errorf("%s: got %v, want that the token has expired", src, err)
			}
		}
	})
}

// The library verifies tokens that each algorithm signs, and each algorithm verifies tokens of the library. Claims stay exact.
func TestTokensAreThoseOfTheLibrary(t *testing.T) {
	const claims = `{"big":18446744073709551616,"id":9007199254740993,"list":[1.5,null,{"a":"é<"}],"sub":"ann"}`
	for _, alg := range []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
		"EdDSA"} {
		private, public, key := keysFor(t, alg)
		method := jwt.GetSigningMethod(alg)
		raw := doc.Text(claims)
		token := jwt.NewWithClaims(method, jwt.MapClaims{"id": 9007199254740993, "sub": "ann"})
		theirs, err := token.SignedString(key.private)
		if err != nil {
			t.Fatal(err)
		}
		payload, _ := doc.Append(nil, map[string]any{"claims": &raw, "theirs": theirs, "private": private, "public": public})
		m := exprtest.NewMessage(string(payload))
		for _, src := range []string{
			`to_json(jwt_verify(jwt_sign(claims, private, "<ALG>"), public, "<ALG>")) == to_json(claims)`,
			fmt.Sprintf(`to_json(jwt_verify(jwt_sign(claims, %q, "<ALG>", {kid: "1"}), %q, ["<ALG>"])) == to_json(claims)`,
				private, public),
			`let t = jwt_sign(claims, private, "<ALG>", {kid: "1"}); jwt_header(t) == {alg: "<ALG>", kid: "1", typ: "JWT"}`,
			`jwt_verify(theirs, public, "<ALG>") == {id: 9007199254740993, sub: "ann"}`,
			`jwt_header(theirs) == {alg: "<ALG>", typ: "JWT"}`,
		} {
			src = strings.ReplaceAll(src, "<ALG>", alg)
			if got, err := exprtest.EvalBoth(t, src, m); got != true || err != nil {
				t.Errorf("%s: got %v, %v", src, got, err)
			}
		}
		e := expr.MustCompile(strings.ReplaceAll(`jwt_sign({sub: "ann"}, private, "<ALG>")`, "<ALG>", alg))
		ours, err := e.Eval(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jwt.Parse(ours.(string), func(*jwt.Token) (any, error) { return key.public, nil },
			jwt.WithValidMethods([]string{alg})); err != nil {
			t.Errorf("%s: the library says of %v: %v", alg, ours, err)
		}
	}
}

// Attacks with tokens, and invalid tokens.
func TestTokensThatAreRefused(t *testing.T) {
	segment := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	_, public, rsaKeys := keysFor(t, "RS256")
	_, p384, _ := keysFor(t, "ES384")
	good := signed(t, "HS256", []byte("secret"), `{"alg":"HS256"}`, `{"sub":"ann"}`)
	parts := strings.Split(good, ".")
	const accepted = `the algorithm of the token is not one that is accepted here with this key`
	const none = `the text is not a JSON Web Token`
	const signature = `the signature of the token is not of this key`
	tests := []struct{ name, token, call, want string }{
		{"what it is with", good, `"secret", "HS256"`, ""},
		{"nothing", "", `"secret", "HS256"`, none},
		{"a word", "word", `"secret", "HS256"`, none},
		{"two parts", parts[0] + "." + parts[1], `"secret", "HS256"`, none},
		{"four parts", good + ".", `"secret", "HS256"`, none},
		{"points", "..", `"secret", "HS256"`, none},
		{"with its scheme", "Bearer " + good, `"secret", "HS256"`,
			none + ` (trim_prefix(x, "Bearer ") gives the token alone)`},
		{"a line break in it", good[:len(good)-2] + "\n" + good[len(good)-2:], `"secret", "HS256"`, none},
		{"padding", good + "=", `"secret", "HS256"`, none},
		{"another last bit", good[:len(good)-1] + string(good[len(good)-1]+1), `"secret", "HS256"`, none},
		{"a header that is a list", segment(`["HS256"]`) + ".e30.AA", `"secret", "HS256"`, none},
		{"a header that is broken", segment(`{"alg":`) + ".e30.AA", `"secret", "HS256"`, none},
		{"no algorithm", segment(`{}`) + "." + parts[1] + "." + parts[2], `"secret", "HS256"`, accepted},
		{"none", segment(`{"alg":"none"}`) + "." + parts[1] + ".", `"secret", "HS256"`, accepted},
		{"None", segment(`{"alg":"None"}`) + "." + parts[1] + ".", `"secret", "HS256"`, accepted},
		{"an algorithm that is a number", segment(`{"alg":256}`) + "." + parts[1] + ".", `"secret", "HS256"`, accepted},
		{"another algorithm of the same key", signed(t, "HS512", []byte("secret"), `{"alg":"HS512"}`, `{}`),
			`"secret", "HS256"`, accepted},
		{"a public key as secret", signed(t, "HS256", []byte(public), `{"alg":"HS256"}`, `{}`), `public, "RS256"`, accepted},
		{"a public key as secret, with another header", signed(t, "HS256", []byte(public), `{"alg":"RS256"}`, `{}`),
			`public, "RS256"`, signature},
		{"an algorithm of another curve", signed(t, "HS256", []byte("x"), `{"alg":"ES256"}`, `{}`),
			`p384, ["ES256", "ES384"]`, accepted},
		{"another secret", good, `"Secret", "HS256"`, signature},
		{"other claims", parts[0] + "." + segment(`{"sub":"eve"}`) + "." + parts[2], `"secret", "HS256"`, signature},
		{"another header", segment(`{"alg":"HS256", "typ":"JWT"}`) + "." + parts[1] + "." + parts[2], `"secret", "HS256"`,
			signature},
		{"no signature", parts[0] + "." + parts[1] + ".", `"secret", "HS256"`, signature},
		{"a part of the signature", parts[0] + "." + parts[1] + "." + parts[2][:40], `"secret", "HS256"`, signature},
		{"extensions", signed(t, "HS256", []byte("secret"), `{"alg":"HS256","crit":["b64"],"b64":false}`, `{}`),
			`"secret", "HS256"`,
			`the token has extensions that have to be understood (crit), which are not supported`},
		{"a key of its own", signed(t, "RS256", rsaKeys.other, `{"alg":"RS256","jwk":{"kty":"RSA"},"x5c":["AA=="]}`, `{}`),
			`public, "RS256"`, signature},
		{"claims that are a text", signed(t, "HS256", []byte("secret"), `{"alg":"HS256"}`, `"ann"`), `"secret", "HS256"`,
			`the claims of the token are not a JSON object`},
		{"claims that are broken", signed(t, "HS256", []byte("secret"), `{"alg":"HS256"}`, `{"a":01}`), `"secret", "HS256"`,
			`the claims of the token are not a JSON object`},
	}
	for _, tt := range tests {
		payload, _ := doc.Append(nil, map[string]any{"token": tt.token, "public": public, "p384": p384})
		_, err := exprtest.EvalBoth(t, "jwt_verify(token, "+tt.call+")", exprtest.NewMessage(string(payload)))
		if want := "jwt_verify(): " + tt.want; exprtest.Short(err) != want && (tt.want != "" || err != nil) {
			t.Errorf("%s: got %q, want %q", tt.name, exprtest.Short(err), want)
		}
	}
}

// Claims are checked at the start of the year 2000: 946684800.
func TestClaims(t *testing.T) {
	const expired, early = "the token has expired", "the token is not valid yet"
	const issuer, audience = "the token is from another issuer", "the token is for another audience"
	tests := []struct{ claims, checks, want string }{
		{`{"exp": 946684801}`, ``, ""},
		{`{"exp": 946684800}`, ``, expired},
		{`{"exp": 946684800.5}`, ``, ""},
		{`{"exp": 946684799.5}`, ``, expired},
		{`{"exp": 0}`, ``, expired},
		{`{"exp": -1}`, ``, expired},
		{`{"exp": 1e300}`, ``, ""},
		{`{"exp": 99999999999999999999}`, ``, ""},
		{`{"exp": -99999999999999999999}`, ``, expired},
		{`{"exp": 946684790}`, `{leeway: duration("10s")}`, expired},
		{`{"exp": 946684790}`, `{leeway: duration("11s")}`, ""},
		{`{"exp": "946684801"}`, ``, "the claim exp of the token is not a number"},
		{`{"exp": null}`, ``, "the claim exp of the token is not a number"},
		{`{"nbf": 946684800}`, ``, ""},
		{`{"nbf": 946684801}`, ``, early},
		{`{"nbf": 946684801}`, `{leeway: duration("1s")}`, ""},
		{`{"nbf": [1]}`, ``, "the claim nbf of the token is not a number"},
		{`{"iat": 946684801}`, ``, ""},
		{`{"iss": "a"}`, `{issuer: "a"}`, ""},
		{`{"iss": "a"}`, `{issuer: ["b", "a"]}`, ""},
		{`{"iss": "a"}`, `{issuer: "b"}`, issuer},
		{`{"iss": ["a"]}`, `{issuer: "a"}`, issuer},
		{`{}`, `{issuer: ""}`, issuer},
		{`{"aud": "a"}`, `{audience: "a"}`, ""},
		{`{"aud": ["b", "a"]}`, `{audience: ["a", "c"]}`, ""},
		{`{"aud": ["b", "a"]}`, `{audience: "c"}`, audience},
		{`{"aud": []}`, `{audience: "a"}`, audience},
		{`{"aud": [1, "a"]}`, `{audience: "a"}`, audience},
		{`{}`, `{audience: "a"}`, audience},
		{`{"iss": "a"}`, `{issuer: "a", audience: "a"}`, audience},
	}
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range tests {
			token := signed(t, "HS256", []byte("secret"), `{"alg":"HS256"}`, tt.claims)
			checks := ""
			if tt.checks != "" {
				checks = ", " + tt.checks
			}
			for _, src := range []string{`jwt_verify(token, "secret", "HS256"` + checks + `)`,
				strings.ReplaceAll(`jwt_verify(token, "secret", "HS256"`+checks+`)`, `"a"`, `a`)} { // checks from the message
				_, err := exprtest.EvalBoth(t, src, exprtest.NewMessage(fmt.Sprintf(`{"token": %q, "a": "a"}`, token)))
				if want := "jwt_verify(): " + tt.want; exprtest.Short(err) != want && (tt.want != "" || err != nil) {
					t.Errorf("%s of %s: got %q, want %q", src, tt.claims, exprtest.Short(err), want)
				}
			}
		}
		src := `jwt_verify(jwt_sign({exp: now() + duration("1h"), nbf: now(), at: date("2026-01-02")}, "k", "HS256"),
			"k", "HS256")`
		v, err := exprtest.EvalBoth(t, "to_json("+src+")", exprtest.NewMessage(`{}`))
		if want := `{"at":1767312000,"exp":946688400,"nbf":946684800}`; v != want || err != nil {
			t.Errorf("%s: got %v, %v, want %s", src, v, err, want)
		}
	})
}

func TestTokensAreWithinTheirBudget(t *testing.T) {
	exprtest.Unraced(t)
	const memory, steps = "engine.limits.expression.memory", "engine.limits.expression.steps"
	private, public, _ := keysFor(t, "PS512")
	payload, _ := doc.Append(nil, map[string]any{"long": strings.Repeat("x", 1<<20), "public": public, "private": private,
		"deep":  strings.Repeat("W10", 1<<18) + ".e30.AA",
		"token": signed(t, "HS256", []byte("k"), `{"alg":"HS256"}`, `{"l":[`+strings.Repeat("[],", 400_000)+`0]}`)})
	exprtest.CheckBudgets(t, exprtest.NewMessage(string(payload)), exprtest.Budgets{
		{`map(1..1000, jwt_sign({}, private, "PS512"))`, steps},
		{`let t = jwt_sign({}, private, "PS512"); count(1..100000, jwt_verify(t, public, "PS512") == nil)`, steps},
		{`map(1..100000, try(jwt_verify("e30.e30.AA", long, "RS256"), 0))`, steps},
		{`map(1..1000, try(jwt_verify("e30.e30.AA", public + string(#), "PS512"), 0))`, steps},
		{`map(1..10000, try(jwt_sign({}, long[:9999] + string(#), "RS256"), 0))`, steps},
		{`map(1..9, jwt_sign({a: long}, "k", "HS256"))`, memory},
		{`jwt_verify(token, "k", "HS256")`, memory},
		{`jwt_header(deep)`, "not a JSON Web Token"},
		{`map(1..9, jwt_header(long + ".e30.AA"))`, "not a JSON Web Token"},
	})
}

// FuzzJWT verifies any text. Only tokens that the library accepts as well are accepted, and others get one of our errors.
func FuzzJWT(f *testing.F) {
	for _, s := range []string{"", "..", "a.b.c", rfcHS256, rfcES256, "eyJhbGciOiJub25lIn0.e30."} {
		f.Add(s, `{"alg":"HS256"}`, `{"exp": 1e10, "aud": ["a"]}`)
	}
	f.Add("", `{"alg":"HS256","crit":["exp"]}`, `{"exp": "1"}`)
	f.Add("", `{"alg":"HS256","alg":"none"}`, `{"nbf": 5, "iss": 1}`)
	e := expr.MustCompile(`jwt_verify(token, "secret", ["HS256", "HS384"], {leeway: duration("0s")})`)
	f.Fuzz(func(t *testing.T, text, header, claims string) {
		for _, text := range []string{text, signed(t, "HS256", []byte("secret"), header, claims)} {
			v, err := e.Eval(exprtest.NewMessage(fmt.Sprintf(`{"token": %s}`, doc.AppendString(nil, text))))
			if err != nil {
				if strings.Contains(err.Error(), "runtime error") || !strings.HasPrefix(err.Error(), "jwt_verify(") {
					t.Fatal(err)
				}
				continue
			}
			_, err = jwt.Parse(text, func(*jwt.Token) (any, error) { return []byte("secret"), nil },
				jwt.WithValidMethods([]string{"HS256", "HS384"}), jwt.WithJSONNumber(), jwt.WithoutClaimsValidation())
			if _, ok := v.(map[string]any); !ok || err != nil {
				t.Errorf("%q is accepted as %v, but the library says %v", text, v, err)
			}
		}
	})
}
