package http

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// told returns the events of a stream, one per line.
func told(r io.Reader, limit int) (all []string, retry time.Duration) {
	e := newEvents(r, limit, "", func(d time.Duration) { retry = d })
	for {
		rec, err := e.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				all = append(all, err.Error())
			}
			return all, retry
		}
		meta := rec.Meta(engine.Meta{})
		kind, _ := meta.Get("event")
		line := fmt.Sprintf("%s %q", kind, rec.Body)
		if id, ok := meta.Get("event_id"); ok {
			line += " " + id.(string)
		}
		if rec.Err != nil {
			line += fmt.Sprintf(" %s %d", rec.Err.Class, rec.Size)
		}
		all = append(all, line)
	}
}

func TestEvents(t *testing.T) {
	long := strings.Repeat("x", 100)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"one", "data: a\n\n", []string{`message "a"`}},
		{"a type and an id", "event: e\nid: 7\ndata: a\n\n", []string{`e "a" 7`}},
		{"an id holds until there is another", "id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []string{`message "a" 7`, `message "b" 7`,
			`message "c"`}},
		{"a type does not", "event: e\ndata: a\n\ndata: b\n\n", []string{`e "a"`, `message "b"`}},
		{"lines", "data: a\ndata:b\ndata\ndata:  c\n\n", []string{`message "a\nb\n\n c"`}},
		{"an empty line of data is an event", "data\n\ndata:\n\n", []string{`message ""`, `message ""`}},
		{"without data there is none", "event: e\n\nid: 1\n\n: comment\n\ndata: a\n\n", []string{`message "a" 1`}},
		{"all kinds of line ends", "data: a\r\n\r\ndata: b\r\rdata: c\n\r\ndata: d\r\n\n", []string{`message "a"`, `message "b"`, `message "c"`,
			`message "d"`}},
		{"a byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{`message "a"`}},
		{"what is not known", "data: a\nfoo: b\n:data: c\ndatax: d\n\n", []string{`message "a"`}},
		{"what is cut off is none", "data: a\n\ndata: b\n", []string{`message "a"`}},
		{"what is cut off in a line is none", "data: a\n\ndata: b", []string{`message "a"`}},
		{"an id that can't be sent back", "id: 7\ndata: a\n\nid: 8\x00\ndata: b\n\n", []string{`message "a" 7`, `message "b" 7`}},
		{"too long", "data: " + long + "\nid: 1\n\ndata: a\n\n", []string{`message "xxxxxxxxxxxxxxxx" 1 decode 100`, `message "a" 1`}},
		{"too long in all", strings.Repeat("data: 123\n", 10) + "\ndata: a\n\n", []string{`message "123\n123\n123\n123\n" decode 39`,
			`message "a"`}},
		{"just fits", "data: 0123456789\ndata: 12345\n\n", []string{`message "0123456789\n12345"`}},
		{"much too long", "data: " + strings.Repeat(long, 1000) + "\n\n: " + strings.Repeat(long, 1000) + "\ndata: a\n\n",
			[]string{`message "xxxxxxxxxxxxxxxx" decode 100000`, `message "a"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := told(strings.NewReader(tt.text), 16)
			equal(t, got, tt.want)
			got, _ = told(iotest.OneByteReader(strings.NewReader(tt.text)), 16)
			equal(t, got, tt.want)
		})
	}
}

func TestRetry(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"retry: 250\n": 250 * time.Millisecond, "retry: x\n": 0, "retry: -1\n": 0, "retry: +1\n": 0, "retry\n": 0,
		"retry: 99999999999999999999\n": 0,
	} {
		if _, got := told(strings.NewReader(text), 16); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\nid: 1\n\n", "\xef\xbb\xbfevent: x\r\ndata\r\rdata:b\n\n", ": c\nretry: 7\n\nid:\x00\n"} {
		f.Add(s, 8)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 1 + limit&0xff
		whole, pause := told(strings.NewReader(text), limit)
		parts, again := told(iotest.OneByteReader(strings.NewReader(text)), limit)
		if fmt.Sprintf("%q", whole) != fmt.Sprintf("%q", parts) || pause != again {
			t.Errorf("got %q at once and %q byte by byte", whole, parts)
		}
		e := newEvents(strings.NewReader(text), limit, "", func(time.Duration) {})
		for {
			rec, err := e.Next()
			if err != nil {
				break
			}
			if len(rec.Body) > limit || !sendable([]byte(e.id)) {
				t.Errorf("%d bytes with a limit of %d, id %q", len(rec.Body), limit, e.id)
			}
		}
	})
}

func TestNextLink(t *testing.T) {
	tests := []struct{ header, want string }{
		{`<a>; rel="next"`, "a"},
		{`<a>;rel=next`, "a"},
		{`<a>; REL=Next`, "a"},
		{`<a>; rel="prev", <b?x=1,2>; title="x; rel=next"; rel="last next"`, "b?x=1,2"},
		{`<a>; rel="prev"; rel="next"`, ""}, // the first counts
		{`<a>; title="\"<b>; rel=next"; rel=prev`, ""},
		{`<a>; foo; rel = "next"`, "a"},
		{`<a>, <b>; rel=next`, "b"},
		{`<a`, ""}, {`<a>; rel="next`, "a"}, {`a; rel=next`, ""}, {`<a>;`, ""}, {`<a>;;`, ""}, {``, ""},
	}
	for _, tt := range tests {
		if got := nextLink([]string{`<first>; rel=first`, tt.header}); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.header, got, tt.want)
		}
	}
}

func FuzzNextLink(f *testing.F) {
	f.Add(`<a>; rel="next last"; title="\"x", <b>;rel=prev;;`)
	f.Fuzz(func(t *testing.T, text string) {
		if got := nextLink([]string{text}); !strings.Contains(text, "<"+got+">") && got != "" {
			t.Errorf("%q is not in it", got)
		}
	})
}

func TestSameOrigin(t *testing.T) {
	tests := []struct{ page, next, want string }{
		{"https://a/x?y=1", "?z=2", "https://a/x?z=2"},
		{"https://a/x", "/z#f", "https://a/z"},
		{"https://a/x", "https://A:443/z", ""},
		{"https://a/x", "https://a:443/z", "https://a:443/z"},
		{"https://a:8443/x", "http://a:8443/z", "https://a:8443/z"},
		{"https://a/x", "http://a/z", "https://a/z"},
		{"http://a/x", "https://a/z", ""},
		{"https://a/x", "//b/z", ""},
		{"https://a/x", "https://a:1/z", ""},
		{"https://a/x", "https://u:p@a/z", "https://a/z"},
		{"https://a/x", "https://a@b/z", ""},
		{"https://a/x", "javascript:x", ""},
		{"https://a/x", "http://%zz/", ""},
		{"http://[::1]:80/x", "http://[::1]/z", "http://[::1]/z"},
	}
	for _, tt := range tests {
		got, err := sameOrigin(parsed(t, tt.page), tt.next)
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%s on %s: got %q and %v, want %q", tt.next, tt.page, got, err, tt.want)
		}
	}
}
