package httpx

import (
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
)

// EndUnclear ends the connection behind a request without a known length. Such a request may also have said one, which
// the standard library drops unseen: a proxy in front may believe that one, and take what follows for another request
// (RFC 9112, section 6.1).
func EndUnclear(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// Below reports whether a URL has a path, or one below it if that ends with a slash. Forms in which a proxy in front may
// see another path are not below: dot segments and empty ones, also where they are encoded, and slashes in the path that
// are encoded.
func Below(u *url.URL, path string) bool {
	if !Plain(u.Path) {
		return false
	}
	raw := u.EscapedPath()
	if strings.HasSuffix(path, "/") { // as many of its slashes are the path's
		end, slashes := 0, strings.Count(path, "/")
		for ; end < len(raw) && slashes > 0; end++ {
			if raw[end] == '/' {
				slashes--
			}
		}
		raw = raw[:end]
	}
	text, err := url.PathUnescape(raw)
	return err == nil && text == path && strings.Count(raw, "/") == strings.Count(path, "/")
}

// Plain reports whether a path has only one form: no empty segment but the last, none of dots, and no backslash, which
// some take for a slash.
func Plain(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.ContainsRune(path, '\\') {
		return false
	}
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		s, _, params := strings.Cut(s, ";") // parameters of a segment, in old specifications and some servers
		switch {
		case s == "." || s == "..", s == "" && (params || i < len(segments)-1):
			return false
		}
	}
	return true
}

// ErrorLog takes what a server of the standard library logs: connections that broke, or were never of HTTP, which are of
// interest to who looks for them, and panics, which are faults of flowd.
func ErrorLog(l *slog.Logger) *log.Logger { return log.New(errorLog{l}, "", 0) }

type errorLog struct{ log *slog.Logger }

func (e errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if first, stack, panicked := strings.Cut(text, "\n"); strings.HasPrefix(text, "http: panic") && panicked {
		e.log.Error("a request made flowd panic: report this as a bug", "panic", first, "stack", stack)
	} else {
		e.log.Debug(text)
	}
	return len(line), nil
}
