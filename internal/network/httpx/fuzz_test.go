package httpx

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// Data in a URL changes neither the host nor what precedes the data.
func FuzzURL(f *testing.F) {
	for _, data := range []string{"7", "../../admin", "%2e%2e/admin", "@evil.example", "//evil.example", "?admin=1",
		"#", "a b", "\r\nHost: evil", "\\evil", "é", "%", "\x00"} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data string) {
		for _, source := range []string{"http://a.example/x/$(raw())", "http://a.example/x?q=$(raw())&key=1",
			"http://a.example:8080/x/$(raw())/y", "http://a.example/x?q=$(url_encode(raw()))"} {
			template, err := expr.CompileTemplate(source)
			if err != nil {
				t.Fatal(err)
			}
			g := newGuard(&template)
			b := engine.NewBatch(1)
			text, err := g.url(b.Add([]byte(data)))
			if err != nil {
				continue
			}
			u, err := url.Parse(text)
			want, _ := url.Parse(strings.SplitN(source, "$(", 2)[0])
			switch {
			case err != nil:
				t.Fatalf("%q: %v", text, err)
			case u.Scheme != want.Scheme || u.Host != want.Host || u.User != nil || u.Fragment != "":
				t.Fatalf("%q is not at %s", text, want)
			case !strings.HasPrefix(u.Path, want.Path):
				t.Fatalf("%q is not below %s", text, want.Path)
			case strings.Contains(source, "key=1") && u.Query().Get("key") != "1":
				t.Fatalf("%q: the key is gone", text)
			}
			if _, err := http.NewRequest(http.MethodGet, text, nil); err != nil ||
				strings.ContainsAny(text, "\r\n\x00 ") {
				t.Fatalf("%q can't be asked for: %v", text, err)
			}
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, text := range []string{"", "3", "-3", "99999999999999999999", "Sun, 06 Nov 1994 08:49:37 GMT",
		"Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d := RetryAfter(text, time.Unix(0, 0)); d < 0 || d > maxWaiting {
			t.Fatal(fmt.Sprint(d))
		}
	})
}
