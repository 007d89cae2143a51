package http

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
)

// checkURL says what is wrong with the literal part of a URL, or "".
func checkURL(t *expr.Template) string {
	if t.IsZero() {
		return ""
	}
	text, constant := t.Const()
	if !constant {
		text = t.Prefix()
	}
	scheme, rest, _ := strings.Cut(text, "://")
	if scheme != "http" && scheme != "https" {
		return "must begin with http:// or https://"
	}
	host := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		host = rest[:i]
	} else if !constant {
		return "data must not choose the host: the slash behind the host has to stand in front of the first $( )"
	}
	if host == "" {
		return "has no host"
	}
	if _, err := url.Parse(scheme + "://" + host); err != nil {
		return fmt.Sprintf("%q is no host", host)
	}
	return ""
}

// guard checks URLs that have data in them.
type guard struct {
	constant bool
	prefix   string
	special  [3]int // how many of specials the configuration writes
}

// specials divide a URL. Data may not bring any of its own.
const specials = "?#&"

func newGuard(t *expr.Template) guard {
	g := guard{prefix: t.Prefix()}
	if _, g.constant = t.Const(); g.constant {
		return g
	}
	// Placeholders have their values in the prefix; behind it, the source has to do.
	tail := ""
	if i := strings.Index(t.String(), "$("); i >= 0 {
		tail = literal(t.String()[i:])
	}
	for i := range specials {
		c := specials[i : i+1]
		g.special[i] = strings.Count(g.prefix, c) + strings.Count(tail, c)
	}
	return g
}

// literal is a template's source without its expressions.
func literal(src string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(src, "$(")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		src = after[expression(after):]
	}
}

// expression is the length of an expression and the parenthesis that ends it.
func expression(src string) int {
	depth, quote := 1, byte(0)
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case quote != 0 && c == '\\' && quote != '`':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(src)
}

// check says why data must not make such a URL.
func (g *guard) check(text string) error {
	if g.constant {
		return nil
	}
	for i := range specials {
		if strings.Count(text, specials[i:i+1]) != g.special[i] {
			return fmt.Errorf("url %q: data brings a %q into it, which would change what is asked for", text, specials[i:i+1])
		}
	}
	if strings.IndexByte(text, '\\') >= 0 {
		return fmt.Errorf("url %q has a backslash in it", text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == ".." || part == "." {
			return fmt.Errorf("url %q leads out of its folder", text)
		}
	}
	return nil
}

// shown is a URL as errors show it: without what may be secret in it.
func shown(u *url.URL) string {
	v := *u
	v.User, v.RawQuery, v.Fragment = nil, "", ""
	return v.String()
}

func validJSON(body []byte) error {
	var d doc.Doc
	d.Reset(body, nil)
	return engine.WithClass(engine.Decode, d.Valid())
}

// oneLine takes the line feeds out of a JSON document.
func oneLine(body []byte) ([]byte, error) {
	if err := validJSON(body); err != nil {
		return nil, engine.Errorf(engine.Rejected, "a payload of several lines that is no JSON can't be sent with batch lines: %w", err)
	}
	var out bytes.Buffer
	err := json.Compact(&out, body)
	return out.Bytes(), err
}

// isToken says whether a text can be a header's name.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}
