package httpx

import (
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
)

// EndUnclear ends the connection after a request without a known length. Such a request may also have a
// Content-Length, which the standard library silently drops: a proxy in front may trust it, and read the rest of the
// body as another request (RFC 9112, section 6.1).
func EndUnclear(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
}

// Below reports whether a URL has a path, or is below it if path ends with a slash. It rejects forms that a proxy in
// front may read as another path: dot segments, empty segments and encoded slashes.
func Below(u *url.URL, path string) bool {
	if !Plain(u.Path) {
		return false
	}
	raw := u.EscapedPath()
	if strings.HasSuffix(path, "/") { // compares as many slashes as path has
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

// Plain reports whether a path has only one form: no empty segment but the last, no dot segments, and no backslash,
// which some programs take for a slash.
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

// ErrorLog receives the log of a server of the standard library: at debug level connections that broke or did not
// speak HTTP, and as errors panics, which are bugs in flowd.
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
