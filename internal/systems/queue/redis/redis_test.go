package redis

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]target{
		"redis://h":                        {network: "tcp", address: "h:6379"},
		"redis://u:p%40@h:1/3":             {network: "tcp", address: "h:1", user: "u", password: "p@", db: 3},
		"rediss://:secret@[::1]:6380":      {network: "tcp", address: "[::1]:6380", password: "secret", tls: true},
		"unix:///run/redis.sock?db=2":      {network: "unix", address: "/run/redis.sock", db: 2},
		"redis://default:x@h.example:99/0": {network: "tcp", address: "h.example:99", user: "default", password: "x"},
	} {
		if got, wrong := parse(text); got != want || wrong.message != "" {
			t.Errorf("%s: got %+v, %+v", text, got, wrong)
		}
	}
	for _, text := range []string{"", "h:1", "http://h", "redis://", "redis://h:x", "redis://h:70000", "redis://h/a", "redis://h?a=b",
		"unix://h/run", "unix:///run?x=1", "redis://h/-1", "redis://a,b"} {
		if got, wrong := parse(text); wrong.message == "" || wrong.remedy == "" {
			t.Errorf("%s is accepted as %+v", text, got)
		}
	}
}

func TestSiblingKeysAreInTheSameSlot(t *testing.T) {
	for key, want := range map[string]string{"a": "{a}:x", "a{b}c": "a{b}c~:x", "{a}": "{a}~:x"} {
		if got := SiblingKey(key, ":x"); got != want || Tag(got) != Tag(key) {
			t.Errorf("%s: got %s, want %s", key, got, want)
		}
	}
	for _, key := range []string{"a", "a{b}c", "x:processing:y", "{x}"} {
		name := Processing(key, "me")
		if got, ok := processedList(name); got != key || !ok {
			t.Errorf("%s: got %s", name, got)
		}
	}
	for _, key := range []string{"a", "a:processing:b", "{a}:processing"} {
		if _, ok := processedList(key); ok {
			t.Errorf("%s is mistaken for a list of elements in flight", key)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"redis://u:p@h:1/2", "unix:///a?db=1", "rediss://[::1]:1", "redis://h?a", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, wrong := parse(text)
		if wrong.message != "" {
			if u, err := url.Parse(text); err == nil && u.User != nil && len(u.User.String()) > 8 &&
				strings.Contains(wrong.message+wrong.remedy, u.User.String()) {
				t.Errorf("%q is part of %v", text, wrong)
			}
			return
		}
		if p.address == "" || p.db < 0 || p.network != "tcp" && p.network != "unix" {
			t.Errorf("%q became %+v", text, p)
		}
	})
}

// An answer is a list of entries or an error, and the document of an entry has the values of its fields.
func FuzzEntries(f *testing.F) {
	for _, s := range []string{`[["1-1",["a","b"]]]`, `[["1-1",null],null]`, `[["1-1",["a","b","a","c"]]]`, `[1]`, `[[1,[]]]`,
		`[["1",["a"]]]`, `{}`, `[["1-1",["\u0000","\"\\"]]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var answer any
		if json.Unmarshal(text, &answer) != nil {
			return
		}
		all, err := Entries(answer)
		if err != nil {
			return
		}
		for _, e := range all {
			_ = e.Time()
			body, err := e.Payload("")
			if err != nil {
				continue
			}
			var d doc.Doc
			d.Reset(body, nil)
			v, err := d.Value()
			if err != nil {
				t.Fatalf("%q became %q: %v", text, body, err)
			}
			object := v.(map[string]any)
			for i := 0; i < len(e.Fields); i += 2 {
				got := object[e.Fields[i]]
				several, is := got.([]any)
				if got != e.Fields[i+1] && (!is || !hasValue(several, e.Fields[i+1])) {
					t.Errorf("field %q is %v in %q", e.Fields[i], got, body)
				}
			}
		}
	})
}

func hasValue(all []any, text string) bool {
	for _, v := range all {
		if v == text {
			return true
		}
	}
	return false
}
