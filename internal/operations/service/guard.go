package service

import (
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"

	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
)

// guard rejects requests that a page in a browser on this machine could send: requests with a host name that others
// may have pointed here (DNS rebinding), and requests on behalf of another site. It never allows another origin.
type guard struct {
	names  func(host string) bool // trusted in addition to localhost
	anyIP  bool                   // trust any IP address, too: no name was looked up for it
	scheme string
	token  token
}

func (g *guard) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpx.EndUnclear(w, r)
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		switch {
		case !g.trusted(r.Host):
			refuse(w, http.StatusMisdirectedRequest,
				"the Host header names a host that flowd does not answer for (use localhost, 127.0.0.1 or the host of service.listen)")
		case g.foreign(r):
			refuse(w, http.StatusForbidden, "the request comes from another site (send it without Origin)")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// survive answers a request whose handler panics. The process continues.
func survive(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("an admin request made flowd panic: report this as a bug", "path", shorten(r.URL.Path),
					"panic", p, "stack", string(debug.Stack()))
				refuse(w, http.StatusInternalServerError,
					"internal error (flowd's log has the details; report it as a bug)")
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// trusted reports whether a Host header can't come from a name that others control.
func (g *guard) trusted(hostport string) bool {
	host := hostOf(hostport)
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.anyIP || ip.Unmap().IsLoopback() || g.names(host)
	}
	return strings.EqualFold(host, "localhost") || host != "" && g.names(host)
}

// foreign reports whether a browser sent the request for a page of another origin.
func (g *guard) foreign(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		if !strings.EqualFold(origin, g.scheme+"://"+r.Host) {
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // none: typed into the address bar
		return false
	}
	return true
}

// tokenOnly requires the token.
func (g *guard) tokenOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.token.shown(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized,
				"the token is missing or wrong (send Authorization: Bearer TOKEN; the log names its file at the start)")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// trustedNames returns the configured host, and the names in the certificate.
func trustedNames(listen string, conf *tls.Config) func(string) bool {
	configured := hostOf(listen)
	return func(host string) bool {
		return configured != "" && strings.EqualFold(host, configured) || conf != nil &&
			tlsconf.Shown(conf).VerifyHostname(host) == nil
	}
}

// hostOf returns the host in host:port, [host]:port or host.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

type refusal struct {
	Error    string    `json:"error"`
	Problems []Problem `json:"problems,omitempty"` // of a pipeline
}

func refuse(w http.ResponseWriter, status int, why string) { respond(w, status, refusal{Error: why}) }

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that is gone gets no answer.
	_ = json.NewEncoder(w).Encode(body)
}
