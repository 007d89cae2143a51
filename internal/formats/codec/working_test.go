package codec

import (
	"bytes"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Trees of many nodes in few bytes: what Working says about them is charged to the bytes
// that may be in flight.
func TestWorkingIsHonest(t *testing.T) {
	repeat := func(open, s, end string) string { return open + strings.Repeat(s, (64<<10)/len(s)) + end }
	some := func(n int, separator, end string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strconv.FormatInt(int64(i), 36) + end + separator)
		}
		return strings.TrimSuffix(b.String(), separator)
	}
	names := func(separator, end string) string { return some(12_000, separator, end) }
	tests := []struct {
		name    string
		codec   Expanding
		payload string
	}{
		{"flow sequence", new(YAML), repeat("[", "a,", "a]")},
		{"empty lists", new(YAML), repeat("[", "[],", "a]")},
		{"mappings", new(YAML), repeat("[", "{a},", "a]")},
		{"pairs", new(YAML), repeat("[", "a: ,", "a]")},
		{"lines", new(YAML), repeat("", "- a\n", "")},
		{"empty items", new(YAML), repeat("", "-\n", "")},
		{"elements", new(XML), repeat("<r>", "<a/>", "</r>")},
		{"elements with an end", new(XML), repeat("<r>", "<a></a>", "</r>")},
		{"attributes", new(XML), "<r a" + names(" a", "=''") + "/>"},
		{"labels", new(LTSV), repeat("", "a:\t", "")},
		{"different labels", new(LTSV), names("\t", ":1")},
		{"fields", new(Form), repeat("", "a&", "")},
		{"different fields", new(Form), names("&", "")},
		{"escapes", new(Form), repeat("", "%41", "")},
		{"keys", new(INI), repeat("", "a\n", "")},
		{"different keys", new(INI), names("\n", "")},
		{"different sections", new(INI), "[" + strings.ReplaceAll(names("\n", "]"), "\n", "\n[")},
		{"sections of a key", new(INI), "[" + strings.ReplaceAll(names("\n", "]"), "\n", "\na\n[")},
		{"extensions", new(CEF), repeat("CEF:0|||||||", "a= ", "")},
		{"different extensions", new(CEF), "CEF:0|||||||" + names(" ", "=")},
		{"toml keys", new(TOML), some(2500, "\n", "=1")},
		{"toml tables", new(TOML), "[" + strings.ReplaceAll(some(2500, "\n", "]"), "\n", "\n[")},
		{"toml lists of tables", new(TOML), strings.Repeat("[[a]]\n", 2500)},
		{"toml lists", new(TOML), repeat("a=[", "[],", "]")},
		{"toml numbers", new(TOML), repeat("a=[", "1,", "]")},
		{"toml inline tables", new(TOML), "a=[" + strings.Repeat("{a=1},", 2500) + "]"},
		{"toml parts of keys", new(TOML), some(1200, "\n", ".a.a.a.a.a.a=1")},
		{"text", new(XML), repeat("<r>", "text &amp; ", "</r>")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := tt.codec.DecodeWithin(nil, []byte(tt.payload), MaxSize); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			// Of all that is made, half is in use at once, or less.
			made, says := int(after.TotalAlloc-before.TotalAlloc), tt.codec.Working([]byte(tt.payload))
			if made/2 > says {
				t.Errorf("%d KiB were made, %d KiB said", made>>10, says>>10)
			}
		})
	}
}

// A limit that is raised until the result fits changes nothing of the result.
func FuzzWithin(f *testing.F) {
	for i, s := range []string{"a,b\n1,2\n", strings.Repeat("h", 3000) + "\n1\n2\n", "a: &a [x, x]\nb: [*a, *a, *a]",
		"&a [*a]", "[" + strings.Repeat("[", 600), "<a b='c'>d</a>", "<!DOCTYPE a [<!ENTITY b 'bbbb'>]><a>&b;</a>"} {
		f.Add(i, []byte(s))
	}
	f.Add(3, []byte("\xdc\x00\x20"+strings.Repeat("\xc2", 32)))
	f.Add(4, []byte("\x98\x20"+strings.Repeat("\xc4\x82\x18\x64\x01", 32)))
	f.Fuzz(func(t *testing.T, i int, payload []byte) {
		codec := []Expanding{new(CSV), new(YAML), new(XML), new(MsgPack), new(CBOR), new(LTSV), new(Form), new(INI),
			new(TOML), new(CEF)}[uint(i)%10]
		want, wantErr := codec.DecodeWithin(nil, payload, MaxSize)
		if codec.Working(payload) < 0 {
			t.Fatal("it takes less than no memory")
		}
		for limit := 16; ; limit *= 4 {
			got, err := codec.DecodeWithin(nil, payload, limit)
			if errors.Is(err, ErrLimit) && limit < MaxSize {
				continue
			}
			if !bytes.Equal(got, want) && wantErr == nil || (err == nil) != (wantErr == nil) {
				t.Fatalf("within %d: %q and %v, want %q and %v", limit, got, err, want, wantErr)
			}
			return
		}
	})
}
