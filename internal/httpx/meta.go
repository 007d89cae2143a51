package httpx

import (
	"net/http"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
)

// left are headers that never become metadata: those with credentials, since
// metadata travels into dead letters and logs, and those about the connection or
// the body as it was sent.
var left = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Cookie": true,
	"Accept-Encoding": true, "Connection": true, "Content-Encoding": true, "Content-Length": true, "Expect": true,
	"Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// Meta is the metadata of a request. Names of headers have no underscore, since
// one with an underscore is left out; so a client can't pose as ours.
func Meta(r *http.Request) engine.Meta {
	m := engine.Meta{}.
		With("http_method", r.Method).
		With("http_path", text(r.URL.Path)).
		With("http_remote", r.RemoteAddr)
	if r.URL.RawQuery != "" {
		m = m.With("http_query", text(r.URL.RawQuery))
	}
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		if !left[name] && !strings.Contains(name, "_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		m = m.With(strings.ToLower(name), text(strings.Join(r.Header[name], ", ")))
	}
	return m.Own()
}

// text makes valid UTF-8 of what a client sent.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
