package expr

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/schema"
)

// seeds has expressions that together use the whole language.
var seeds = []string{
	`status >= 500`, `status == "503" or ok and not none`, `name startsWith "A" && name contains "n"`,
	`text in ["503", nil]`,
	`user.tags[0] ?? missing`, `-status * 2.5 ** 2 % 3`, `items[-1].qty / 0`, `filter(items, .qty > i)`,
	`sum(map(list, # * #index))`,
	`reduce(list, #acc + #, 10)`, `sortBy(items, .sku, "desc")`, `groupBy(items, .qty)`, `let a = user; a.name + "x"`,
	`{a: [1, name], (key): 2}.a[0]`, `name[1:] + word[:2]`, `get(this, "items[0].sku")`, `toJSON(fromJSON("[1, 2.0]"))`,
	`1..3 == [1, 2, 3]`, `name matches pattern ? 1 : 2`, `if ok { 1 } else { "a" }`, `big > max and ratio < 1`,
	`any(items, any(list, # > 1))`, `name | upper() | len()`, `max + 1`, `date("2026-01-02") + duration("1h")`,
	`split(replace(name, "n", "m"), "")`, `1 < i < 3`, `this?.user?.["odd name"]`, "`raw` + 'it''s' + \"\\u00e9\"",
	`{c: this, a: [user, 1.50], b: none ?? items, d: ok ? "x" : name}`, `len(name) * 2 - -i / ratio % 3`,
	`one(items, .qty > 2) ? find(items, .qty > 2).sku : findIndex(list, # == 2)`,
	`whole == 2 and whole in [2]`, `user == {name: "ann"}`, `user[key] != list[whole]`, `hash([1, 1.0, nil])`,
	`uniq(mixed)`, `walk(this, #key == "name" ? "***" : #)`, `walk(items, {k: #key, i: #index, v: #})`,
	`walk_keys(this, upper(#))`, `walk_keys(items, # == "sku" ? name : #)`,
	`walk(user, try(upper(#), # == 1))`, `walk(list, #index > 1 ? #path : #)`, `map_values(user, [#key, #])`,
	`merge(user, {name: 1}) | without("tags") | pick("name")`,
	`truncate_time(parse_time(date ?? name, "%Y-%m-%d", "Europe/Zurich"), "month").day + i`,
	`format_time(add_date(from_unix(status, "ms"), i, i), "02 Jan" + empty) < format_duration(duration("PT1H"))`,
	`random_int(i, count) >= 1 and len(ulid()) == 26`,
	`snowflake(count) > 0 ? len(ksuid()) : whole`,
	`re_find(name, "n+") != nil and re_replace(word, "l(.)", "$1") != re_find(word, pattern)`,
	`re_groups(name, "(?P<a>A)(.*)").a | pad_left(status, "-") | printf("%5s %d", i)`,
	`parse_url(name).query ?? strip_html(html_escape(word)) | slug()`,
	`to_hex(sha256(name)) + to_base64url(hmac("sha256", word, text))`,
	`crc32(name) % 8 == crc32c(word) % 8`,
	`from_hex(from_base32("GYYQ====")) ?? decrypt_aes_gcm(from_base64url(text), word)`,
	`jwt_verify(jwt_sign(user, "key", "HS256"), "key", ["HS256"], {issuer: name, leeway: duration("1m")})`,
}

func FuzzCompile(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	for _, s := range []string{"(", "a.", "#", "$(", "\"\\", "/*", "a ? b :", "let", "[:]", "::", "..", "{a", "\xff",
		"not in", "1e999", "0x", "a?.[", "if {", "|", "b\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		start := time.Now()
		_, err := Compile(src)
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("got a %T, want an *Error: %v", err, err)
		}
		if e != nil {
			lines := strings.Count(e.Error(), "\n") + 1
			if e.Msg == "" || e.Offset < 0 || e.Offset > len(src) || lines > 3 ||
				strings.Contains(e.Msg, "runtime error") {
				t.Errorf("got an odd error at %d:\n%s", e.Offset, e)
			}
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// FuzzEval compares shortcuts with the normal evaluation, for any expression that compiles.
func FuzzEval(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, exprtest.Sample)
		f.Add(s, `{"status": "503", "items": [1, {"qty": 1e400}], "name": null, "list": {"a": 1}, "user": []}`)
	}
	f.Fuzz(func(t *testing.T, src, payload string) {
		if strings.Contains(src, "now") || strings.Contains(src, "uuid") {
			return // the results differ with each evaluation
		}
		exprtest.Agree(t, src, exprtest.NewMessage(payload))
	})
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"", "a", "$(name)", "$$(", "$(", "a$(len(\")\"))b$(1)", "$(`)`)", "$(a /* ) */)",
		"$($(a))"} {
		f.Add(s, "value")
	}
	f.Fuzz(func(t *testing.T, src, value string) {
		tpl, err := CompileTemplate(src)
		if err == nil {
			_, _ = tpl.Text(exprtest.NewMessage(exprtest.Sample))
			if !strings.Contains(src, "$(") {
				if text, ok := tpl.Const(); !ok || text != src {
					t.Errorf("%q: Const() = %q, %v", src, text, ok)
				}
			}
		}
		// The value of a placeholder is never code, wherever the placeholder is.
		pieces := []schema.Piece{{Text: "a/"}, {Text: value, Offset: 2, Placeholder: true},
			{Text: "/$(name)", Offset: 4}}
		compiled, errs := lang.ParseTemplate(pieces, &codetext.Origin{Text: "a/${X}/$(name)"}, nil)
		if len(errs) > 0 {
			if len(value) < lang.MaxSource-100 {
				t.Fatal(errs)
			}
			return
		}
		placed := Template{compiled}
		if got, err := placed.Text(exprtest.NewMessage(exprtest.Sample)); err != nil || got != "a/"+value+"/Ann" {
			t.Errorf("got %q, %v, want the value as it is", got, err)
		}
	})
}

// FuzzPlaceholder inserts a value into code. The result must be that value.
func FuzzPlaceholder(f *testing.F) {
	for _, s := range []string{"", "a", `"`, `'`, "`", `\`, "\n", `") + x("`, "1", "-5", "1e5", "true", "null", "$(a)",
		"//", "/*", "#", "é", "\x00", "\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if !utf8.ValidString(value) || len(value) > 1000 {
			return
		}
		for _, quotes := range []string{`"`, `'`, "`"} {
			c := &codetext.Coder{}
			c.Add(quotes, 0)
			c.AddPlaceholder(schema.Piece{Text: value, Offset: 1, Placeholder: true})
			c.Add(quotes, 5)
			p, err := lang.Compile(string(c.Code), &codetext.Origin{Text: quotes + "${X}" + quotes, Runs: c.Runs}, nil)
			if err != nil {
				t.Fatalf("in %s: %q: %v", quotes, c.Code, err)
			}
			e := Expr{p}
			if got, err := e.Eval(exprtest.NewMessage(`{}`)); got != value || err != nil {
				t.Errorf("in %s: got %q, %v, want %q", quotes, got, err, value)
			}
		}
		c := &codetext.Coder{}
		c.AddPlaceholder(schema.Piece{Text: value, Placeholder: true})
		p, err := lang.Compile(string(c.Code), &codetext.Origin{Text: "${X}", Runs: c.Runs}, nil)
		if err == nil && !p.Const {
			t.Errorf("%q became code: %s", value, c.Code)
		}
	})
}
