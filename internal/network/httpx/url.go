package httpx

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// checkURL returns what is wrong with the literal part of a URL, or "". It does not show parts that may be a
// password.
func checkURL(t *expr.Template) (why, remedy string) {
	remedy = "write a URL such as http://host/path/$(id)"
	if t.IsZero() {
		return "", ""
	}
	text, constant := t.Const()
	if !constant {
		text = t.Prefix()
	}
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme != "http" && scheme != "https" {
		return "must begin with http:// or https://", remedy
	}
	host := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host = rest[:i]
	} else if !constant {
		return "data must not choose the host: the slash after the host must come before the first $( )", remedy
	}
	if host == "" {
		return "has no host", remedy
	}
	if _, err := url.Parse(scheme + "://" + host); err != nil {
		if strings.Contains(rest, "@") {
			return "has a user, password or host that is not valid",
				"in user and password, write a blank as %20, and / : @ ? # % as %2F %3A %40 %3F %23 %25"
		}
		return fmt.Sprintf("%q is not a valid host", host), remedy
	}
	return "", ""
}

// guard makes URLs from a template, and checks those that contain data.
type guard struct {
	template *expr.Template
	constant bool
	prefix   string
	special  [3]int // how many of each of specials the configuration contains
}

// specials divide a URL. Data must not contain any.
const specials = "?#&"

func newGuard(t *expr.Template) guard {
	g := guard{template: t, prefix: t.Prefix()}
	if _, g.constant = t.Const(); g.constant {
		return g
	}
	written := t.Literal()
	for i := range specials {
		g.special[i] = strings.Count(written, specials[i:i+1])
	}
	return g
}

// url returns the URL for a message.
func (g *guard) url(src expr.Source) (string, error) {
	text, err := g.template.Text(src)
	if err != nil {
		return "", err
	}
	if g.constant {
		return text, nil
	}
	u, err := g.check(text)
	if err != nil {
		return "", engine.Errorf(engine.Rejected, "url %s: %w", g.shown(), err)
	}
	u.RawQuery = sendable(u.RawQuery)
	return u.String(), nil
}

// check returns why data must not make this URL. It does not show the URL, whose query may contain a secret.
func (g *guard) check(text string) (*url.URL, error) {
	for i := range specials {
		if c := specials[i : i+1]; strings.Count(text, c) != g.special[i] {
			return nil, fmt.Errorf("data contains %q, which would change the request (write $(url_encode(…)))", c)
		}
	}
	if strings.IndexByte(text, '\\') >= 0 {
		return nil, errors.New("data contains a backslash (write $(url_encode(…)))")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, cause(err)
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == ".." || part == "." {
			return nil, errors.New("data leads out of its folder")
		}
	}
	return u, nil
}

// shown returns the literal beginning of the URL.
func (g *guard) shown() string {
	text, _, _ := strings.Cut(g.prefix, "?")
	u, err := url.Parse(text)
	if err != nil {
		return "…"
	}
	return Shown(u) + "…"
}

// sendable escapes characters that a request line can't contain.
func sendable(query string) string {
	odd := func(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '<' || c == '>' }
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; odd(c) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Shown returns a URL for errors, without parts that may be secret.
func Shown(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.Fragment = nil, "", ""
	return v.String()
}
