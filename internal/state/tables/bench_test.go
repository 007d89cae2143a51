package tables

import (
	"fmt"
	"strings"
	"testing"
)

// articles are records of CSV, with a header line.
func articles(n int) string {
	var b strings.Builder
	b.WriteString("sku,name,price,currency,stock\n")
	for i := range n {
		fmt.Fprintf(&b, "sku-%07d,Article number %d,%d.%02d,EUR,%d\n", i, i, i%1000, i%100, i%17)
	}
	return b.String()
}

// BenchmarkLookup is a lookup in a table whose rows are kept as values, and in one that stays text.
func BenchmarkLookup(b *testing.B) {
	made := table(b, `{"file": "x.csv", "key": "sku", "numbers": true}`, "x.csv", articles(10_000))
	keys := make([]any, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("sku-%07d", i)
	}
	for _, of := range []struct {
		name  string
		spent int64
	}{{"values", 0}, {"text", maxMade}} {
		b.Run(of.name, func(b *testing.B) {
			r := made.now.Load().content.(*rows)
			for i := range r.made {
				r.made[i].Store(nil)
			}
			r.spent.Store(of.spent)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if v, err := made.Lookup(keys[i%len(keys) : i%len(keys)+1]...); v == nil || err != nil {
					b.Fatal(v, err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	data := []byte(articles(100_000))
	c := &Config{MaxSize: 1 << 30, Key: []string{"sku"}, Numbers: true}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := parse(c, "csv", data); err != nil {
			b.Fatal(err)
		}
	}
}
