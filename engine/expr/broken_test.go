package expr

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

// Words of the parser and lexer of expr, which errors must not contain.
var internals = regexp.MustCompile(
	`\b(Bracket|Operator|Number|Identifier|String|Bytes|EOF)\b(\(|$)|EOF|strconv|parsing|token|literal|identifier|runtime error|compilation`)

func TestNoMessageShowsTheParser(t *testing.T) {
	check := func(src string) {
		_, err := Compile(src)
		var e *Error
		if errors.As(err, &e) && internals.MatchString(e.Short()) && !internals.MatchString(src) {
			t.Errorf("%q: %s", src, e.Short())
		}
	}
	for _, src := range []string{"{", "{1", "{-", "{\"a\nb\" \"c\nd\"}", "0x", "0b", "0o9", "1e", "1e999", "a.0x", "1a",
		"/* a", "a b\nc", "{a b}", "{..}", "if a", "#", "a ?? b + 1",
		"filter(a, ", "map()", "99999999999999999999", "-99999999999999999999", "0xffffffffffffffffff", "`a", "'\\u12'",
		"b'\\400'", "let a", "let = 1", "let a = 1 b", "a?.[", "::", "a::b", "not", "in", ";", "a;"} {
		check(src)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const alphabet = "(){}[]\"'`.,:;?|#$&*+-/<>=!~^%@\\ \nab019xeE_é"
	all := []rune(alphabet)
	for range 4_000 {
		src := []rune(seeds[rng.IntN(len(seeds))])
		for range 1 + rng.IntN(3) {
			i := rng.IntN(len(src) + 1)
			switch rng.IntN(3) {
			case 0:
				src = append(src[:i:i], src[min(len(src), i+1+rng.IntN(4)):]...)
			case 1:
				src = append(src[:i:i], append([]rune{all[rng.IntN(len(all))]}, src[i:]...)...)
			default:
				src = src[:i]
			}
		}
		check(string(src))
	}
}

// Words of other languages, with the remedy, and a valid use of what it suggests.
func TestHintsForWordsOfOtherLanguages(t *testing.T) {
	for src, want := range map[string]struct{ hint, use string }{
		`raise("a")`: {"throw(why)", ``},
		`deleted()`:  {"`unset: [field]`", ``},
		`content()`:  {"raw()", ``},
		`strftime(a)`: {`format_time(time, "%Y-%m-%d %H:%M:%S")`,
			`format_time(parse_time("2026-01-02"), "%Y-%m-%d %H:%M:%S") == "2026-01-02 00:00:00"`},
		`file("x")`:                  {"${file:/path}", ``},
		`assign(a, b)`:               {"merge(a, b)", `merge({a: 1, b: 1}, {b: 2}) == {a: 1, b: 2}`},
		`fold(a, b)`:                 {"reduce(list, …, start)", `reduce([1, 2], #acc + #, 0) == 3`},
		`a =~ "x"`:                   {`text matches "…"`, `"ax" matches "x"`},
		`range(1, 2)`:                {"1..n", `1..3 == [1, 2, 3]`},
		`regex_replace(a, "b", "c")`: {`re_replace(text, pattern, replacement)`, `re_replace("ab", "b", "c") == "ac"`},
		`ts_strptime(a, "%Y")`: {`parse_time(text, "%Y-%m-%d %H:%M:%S")`,
			`unix(parse_time("1970-01-02 00:00:00", "%Y-%m-%d %H:%M:%S")) == 86400`},
		`date_trunc("day", a)`:   {`truncate_time(time, "day")`, `truncate_time(parse_time("2026-01-02"), "day") != nil`},
		`ts_unix_nano(a)`:        {`unix(time, "ns")`, `unix(parse_time("1970-01-01T00:00:01Z"), "ns") == 1000000000`},
		`addDays(a, 1)`:          {`add_date(time, 0, 0, 1)`, `add_date(parse_time("2026-01-02"), 0, 0, 1).day == 3`},
		`fromTimestamp(a)`:       {`from_unix(n)`, `from_unix(0).year == 1970`},
		`get_hostname()`:         {"hostname()", `len(hostname()) > 0`},
		`get_env_var("A")`:       {`env("NAME")`, ``},
		`uuid_v4()`:              {"uuid()", `len(uuid()) == 36`},
		`nanoid()`:               {"ksuid()", `len(ksuid()) == 27`},
		`randint(1, 2)`:          {"random_int(1, 6)", `random_int(1, 6) < 7`},
		`snowflake_id()`:         {"snowflake(node)", `snowflake(1) > 0`},
		`variable("a")`:          {`vars("name")`, ``},
		`unescape_url_query(a)`:  {`url_decode(text)`, `url_decode("a%20b") == "a b"`},
		`parse_regex(a, "b")`:    {`re_groups(text, pattern)`, `re_groups("ab", "(?P<x>b)").x == "b"`},
		`sprintf("%d", a)`:       {`printf(format, values…)`, `printf("%d", 5) == "5"`},
		`zfill(a, 5)`:            {`pad_left(text, 5, "0")`, `pad_left("42", 5, "0") == "00042"`},
		`contains_any(a, ["b"])`: {`any(["a", "b"], text contains #)`, `any(["x", "n"], this.name contains #)`},
		`hexdigest(a)`:           {"to_hex(sha256(x))", `to_hex(sha256("")) startsWith "e3b0"`},
		`hmac_sha256(a)`:         {`hmac("sha256", key, x)`, `len(hmac("sha256", "key", "x")) == 32`},
		`encodeBase64(a)`:        {"to_base64(x)", `to_base64("a") == "YQ=="`},
		`hex2bin(a)`:             {"from_hex(x)", `from_hex("61") == "a"`},
		`encrypt_aes(a)`:         {"encrypt_aes_gcm(x, key)", `len(encrypt_aes_gcm("x", "0123456789abcdef")) == 29`},
		`parse_jwt_hs256(a, "k")`: {`jwt_verify(token, secret, "HS256")`,
			`jwt_verify(jwt_sign({a: 1}, "k", "HS256"), "k", "HS256") == {a: 1}`},
		`compare_digest(a, b)`: {"constant_time_equal(a, b)", `constant_time_equal("a", "a")`},
		`uuid5(a)`:             {"uuid_v5(namespace, name)", `len(uuid_v5("dns", "a")) == 36`},
	} {
		_, err := Compile(src)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Remedy, want.hint) {
			t.Errorf("%s: got %v, want a hint at %s", src, err, want.hint)
		}
		if want.use == "" {
			continue
		}
		use := MustCond(want.use)
		if ok, err := use.Test(exprtest.NewMessage(exprtest.Sample)); !ok || err != nil {
			t.Errorf("%s: %v, %v", want.use, ok, err)
		}
	}
}
