package expr

import (
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
)

const event = `{"time":"2026-11-20T20:00:00Z","status":503,"path":"/api/v1/orders","duration":0.25,"user":{"name":"ann","plan":"enterprise"},` +
	`"items":[{"sku":"a","qty":2},{"sku":"b","qty":5}],"tags":["x","y"],"total":42,"rate":1.5,"ok":true}`

func BenchmarkTest(b *testing.B) {
	m := msg(event)
	for _, src := range []string{
		`status >= 500`,
		`status >= 500 and path startsWith "/api"`,
		`user.plan == "enterprise"`,
		`user.plan in ["enterprise", "team"]`,
		`(missing ?? 3) > 2`,
		`total * rate > 10`,
		`path matches "^/api/v[0-9]+/"`,
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
			m.d.Raw(p)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	m := msg(event)
	for _, src := range []string{`total * rate`, `upper(user.name)`, `user.name`, `sum(items, .qty)`,
		`{a: total, b: user.name}`} {
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
	m, e := msg(event), MustCompile(`user.plan`)
	var key []byte
	b.ReportAllocs()
	for b.Loop() {
		key, _, _ = e.AppendKey(key[:0], m)
	}
}

func BenchmarkTemplate(b *testing.B) {
	m, t := msg(event), MustTemplate(`logs/$(user.plan)/$(total + 1).ndjson`)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out, _ = t.Append(out[:0], m)
	}
}

func BenchmarkFailure(b *testing.B) {
	m, c := msg(event), MustCond(`status == "503"`)
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
