package httpx

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
)

// left are headers that never become metadata: credentials, since metadata gets into dead letters and logs, and
// headers about the connection or the encoding of the body.
var left = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Cookie": true,
	"Accept-Encoding": true, "Connection": true, "Content-Encoding": true, "Content-Length": true, "Expect": true,
	"Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// isTrace reports whether a header says which trace a request belongs to. These headers travel on with the message: outputs send
// them as headers, unlike the other headers of a request.
func isTrace(name string) bool {
	return slices.ContainsFunc(engine.TraceContext[:], func(t string) bool { return strings.EqualFold(t, name) })
}

// becomes reports whether a header becomes metadata. Headers with an underscore do not, so that a client can't
// imitate flowd's own metadata, whose names have one.
func becomes(name string) bool { return !left[name] && !strings.Contains(name, "_") }

// Metas makes the metadata of the requests on one connection. Most requests have the same headers as the one before
// and share its metadata. It is safe for concurrent use.
type Metas struct{ last atomic.Pointer[told] }

// maxKept bounds the metadata that a connection keeps, in bytes.
const maxKept = 4 << 10

// told is a request's headers with the metadata made from them.
type told struct {
	method, path, query, remote string
	names, values               []string // of headers, as sent
	meta                        engine.Meta
}

// Of returns the metadata of a request.
func (c *Metas) Of(r *http.Request) engine.Meta {
	if t := c.last.Load(); t != nil && t.again(r) {
		return t.meta
	}
	t, size := tell(r)
	if size <= maxKept {
		c.last.Store(t)
	}
	return t.meta
}

// again reports whether a request has the same headers.
func (t *told) again(r *http.Request) bool {
	if r.Method != t.method || r.URL.Path != t.path || r.URL.RawQuery != t.query || r.RemoteAddr != t.remote {
		return false
	}
	n := 0
	for name, values := range r.Header {
		switch i := slices.Index(t.names, name); {
		case i >= 0 && len(values) == 1 && values[0] == t.values[i]:
			n++
		case i >= 0 || becomes(name):
			return false
		}
	}
	return n == len(t.names)
}

// tell makes the metadata of a request. size is roughly how many bytes it holds.
func tell(r *http.Request) (t *told, size int) {
	t = &told{method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, remote: r.RemoteAddr}
	t.names = make([]string, 0, len(r.Header))
	for name := range r.Header {
		if becomes(name) {
			t.names = append(t.names, name)
		}
	}
	slices.Sort(t.names)
	t.values = make([]string, len(t.names))
	names, values := make([]string, 0, len(t.names)+4), make([]any, 0, len(t.names)+4)
	size = len(r.RequestURI) // the path may be a small part of this string
	add := func(name, value string) {
		size += 64 + len(name) + len(value)
		names, values = append(names, name), append(values, value)
	}
	add("http_method", r.Method)
	add("http_path", r.URL.Path)
	add("http_remote", r.RemoteAddr)
	if r.URL.RawQuery != "" {
		add("http_query", r.URL.RawQuery)
	}
	for i, name := range t.names {
		t.values[i] = strings.Join(r.Header[name], ", ")
		if !isTrace(name) {
			add(strings.ToLower(name), t.values[i])
		}
	}
	own := len(names)
	for i, name := range t.names {
		if isTrace(name) {
			add(strings.ToLower(name), t.values[i])
		}
	}
	t.meta = engine.MetaOf(names, values, own)
	return t, size
}
