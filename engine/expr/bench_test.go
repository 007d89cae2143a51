package expr

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

const event = `{"time":"2026-11-20T20:00:00Z","status":503,"path":"/api/v1/orders","duration":0.25,"user":{"name":"ann",` +
	`"plan":"enterprise"},` +
	`"items":[{"sku":"a","qty":2},{"sku":"b","qty":5}],"tags":["x","y"],"total":42,"rate":1.5,"ok":true}`

func BenchmarkTest(b *testing.B) {
	m := exprtest.NewMessage(event)
	for _, src := range []string{
		`status >= 500`,
		`status >= 500 and path startsWith "/api"`,
		`user.plan == "enterprise"`,
		`user.plan in ["enterprise", "team"]`,
		`(missing ?? 3) > 2`,
		`total * rate > 10`,
		`path matches "^/api/v[0-9]+/"`,
		`re_find(path, "^/api/v[0-9]+/") != nil`,
		`re_find(path, "v[0-9]+") == "v1"`,
		`any(items, .qty > 4)`,
	} {
		b.Run(src, func(b *testing.B) {
			c := MustCond(src)
			b.ReportAllocs()
			for b.Loop() {
				if ok, err := c.Test(m); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
	}
	b.Run("lookup alone", func(b *testing.B) {
		p := doc.MakePath("status")
		b.ReportAllocs()
		for b.Loop() {
			m.Doc.Raw(p)
		}
	})
}

// By hand: a loop that searches the document for the field and matches it.
func BenchmarkTestByHand(b *testing.B) {
	m, re, p := exprtest.NewMessage(event), regexp.MustCompile("^/api/v[0-9]+/"), doc.MakePath("path")
	b.ReportAllocs()
	for b.Loop() {
		raw, ok, err := m.Doc.Raw(p)
		if !ok || err != nil || !re.Match(raw[1:len(raw)-1]) {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkEval(b *testing.B) {
	m := exprtest.NewMessage(event)
	for _, src := range []string{`total * rate`, `upper(user.name)`, `user.name`, `sum(items, .qty)`,
		`{a: total, b: user.name}`, `re_replace(path, "[0-9]+", "N")`, `re_replace(path, "/v([0-9]+)/", "/$1/")`,
		`re_replace(path, "POST", "")`, `re_find_all(path, "[a-z]+")`, `re_groups(path, "/(?P<version>v[0-9]+)/(?P<kind>[a-z]+)")`,
		`printf("%05d %s", total, user.name)`, `user.name + "|" + string(total)`, `title(user.name)`, `unaccent("ann")`,
		`slug(path)`, `pad_left(user.name, 8, ".")`, `truncate(path, 10, "…")`, `words(path)`, `strip_html(path)`,
		`parse_url(path)`, `url_encode(path)`, `url_decode(path)`} {
		b.Run(src, func(b *testing.B) {
			e := MustCompile(src)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Eval(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendKey(b *testing.B) {
	m, e := exprtest.NewMessage(event), MustCompile(`user.plan`)
	var key []byte
	b.ReportAllocs()
	for b.Loop() {
		key, _, _ = e.AppendKey(key[:0], m)
	}
}

func BenchmarkTemplate(b *testing.B) {
	m, t := exprtest.NewMessage(event), MustTemplate(`logs/$(user.plan)/$(total + 1).ndjson`)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out, _ = t.Append(out[:0], m)
	}
}

func BenchmarkFailure(b *testing.B) {
	m, c := exprtest.NewMessage(event), MustCond(`status == "503"`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Test(m); err == nil {
			b.Fatal("no error")
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		MustCond(`status >= 500 and path startsWith "/api"`)
	}
}

// BenchmarkEncode compares a step `set` with hashes with a loop written by hand for that field.
func BenchmarkEncode(b *testing.B) {
	m := exprtest.NewMessage(event)
	for _, src := range []string{`to_hex(sha256(path))`, `to_hex(sha256(path + ""))`, `to_hex(hmac("sha256", "key", path))`,
		`to_base64(md5(path))`, `crc32(path)`, `decrypt_aes_gcm(encrypt_aes_gcm(path, "0123456789abcdef"), "0123456789abcdef")`,
		`jwt_verify(jwt_sign(user, "key", "HS256"), "key", "HS256")`} {
		b.Run(src, func(b *testing.B) {
			e := MustCompile(src)
			b.ReportAllocs()
			for b.Loop() {
				if err := e.Encode(m, func(any) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("sha256 by hand", func(b *testing.B) {
		p, out := doc.MakePath("path"), []byte(nil)
		b.ReportAllocs()
		for b.Loop() {
			raw, _, _ := m.Doc.Raw(p)
			sum := sha256.Sum256(raw[1 : len(raw)-1])
			out = append(hex.AppendEncode(append(out[:0], '"'), sum[:]), '"')
		}
	})
}
