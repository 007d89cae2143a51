// Package web has the functions for URLs, queries and HTML.
package web

import (
	"bytes"
	"html"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Declare declares the functions of URLs and HTML.
func Declare() {
	web.Declare("text", true)
	lang.Lookup("parse_query").HoldsBytes, lang.Lookup("parse_url").HoldsBytes = true, true // % may encode any bytes
}

var web = lang.Builtins{
	{"url_encode(text|number|big|bool|bytes) text",
		"The value as one part of a URL: a segment of the path, or the value of a parameter.",
		`url_encode("a b/c?") → "a%20b%2Fc%3F"`,
		func(f *lang.Frame, s *lang.Site, args []any) any { return urlEncode(f, s, args[0]) }},
	{"url_decode(text) text|bytes",
		"What a part of a URL encodes: text, or bytes if it is not text. A plus sign stays one; parse_query() turns it" +
			" into a space.",
		`url_decode("a%20b%2Fc+d") → "a b/c+d"
url_decode("5%") → error: url_decode(): text "5%" has a % without two hexadecimal digits`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			text, err := url.PathUnescape(args[0].(string))
			if err != nil {
				s.Fail("%s(): %s has a %% without two hexadecimal digits", s.Name, s.Show(args[0]))
			}
			return value.StringOrBytes(text)
		}},
	{"parse_url(text) object",
		"The parts of a URL: scheme, user, password, host, port, path, query, fragment; those it lacks are left out. The path" +
			" is as written; the query is what parse_query() gives, and the rest is decoded.",
		`parse_url("https://ann@example.com:8443/a%20b?x=1#top") → ` +
			`{scheme: "https", user: "ann", host: "example.com", port: 8443, path: "/a%20b", query: {x: "1"}, fragment: "top"}
parse_url("https://example.com").port ?? 443 → 443`,
		parseURL},
	{"parse_query(text) object",
		"The parameters of a URL's query, or of a form, decoded: text, or bytes if it is not text; one that is" +
			" repeated is a list. A ? at the beginning is skipped.",
		`parse_query("?name=Ann+Lee&tag=a&tag=b&empty") → {name: "Ann Lee", tag: ["a", "b"], empty: ""}`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return parseQuery(f, s, strings.TrimPrefix(args[0].(string), "?"))
		}},
	{"build_query(object) text",
		"The query of a URL with these parameters, sorted by name. A list gives its parameter once for each element.",
		`build_query({q: "a&b c", page: 2, tag: ["x", "y"]}) → "page=2&q=a%26b%20c&tag=x&tag=y"`,
		buildQuery},
	{"html_escape(text) text",
		`The text with <, >, &, ' and " as character references, for use in HTML.`,
		`html_escape("<b>R&D</b>") → "&lt;b&gt;R&amp;D&lt;/b&gt;"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			text, more := args[0].(string), 0
			for i := range len(text) {
				if strings.IndexByte(`<>&'"`, text[i]) >= 0 {
					more += len("&#34;") - 1
				}
			}
			f.CheckRoom(s.Offset, len(text)+more)
			return html.EscapeString(text)
		}},
	{"html_unescape(text) text",
		"The text with character references, such as &lt; and &#233;, replaced by the characters.",
		`html_unescape("caf&eacute; &#38; bar") → "café & bar"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			f.CheckRoom(s.Offset, 2*len(args[0].(string)))
			return html.UnescapeString(args[0].(string))
		}},
	{"strip_html(text) text",
		"The text of an HTML document: without tags, comments, scripts and styles, with character references replaced. A" +
			" block, such as a paragraph, and a line break end a line; white space at both ends is removed.",
		`strip_html("<p>Tom &amp; <b>Ann</b></p><p>Hi</p>") → "Tom & Ann\nHi"`,
		stripHTML},
}

func urlEncode(f *lang.Frame, s *lang.Site, v any) string {
	if text, ok := v.(string); ok {
		f.CheckRoom(s.Offset, 3*len(text))
	}
	text := string(lang.AppendPayload(s, nil, v))
	f.CheckRoom(s.Offset, 4*len(text))
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

func parseURL(f *lang.Frame, s *lang.Site, args []any) any {
	text := args[0].(string)
	f.Alloc(s.Offset, 4*len(text))
	u, err := url.Parse(text)
	if err != nil {
		s.Fail("%s(): %s is not a URL", s.Name, s.Show(text))
	}
	parts := map[string]any{}
	set := func(name, part string) {
		if part != "" {
			parts[name] = value.StringOrBytes(part)
		}
	}
	if port := u.Port(); port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			s.Fail("%s(): %s has a port beyond 65535", s.Name, s.Show(text))
		}
		parts["port"] = int(n)
	}
	set("scheme", u.Scheme)
	set("host", u.Hostname())
	set("path", u.EscapedPath())
	set("path", u.Opaque) // of mailto:ann@example.com
	set("fragment", u.Fragment)
	set("user", u.User.Username())
	if password, ok := u.User.Password(); ok {
		parts["password"] = value.StringOrBytes(password)
	}
	if u.RawQuery != "" {
		query := parseQuery(f, s, u.RawQuery)
		f.ChargeMade(s.Offset, query)
		parts["query"] = query
	}
	return parts
}

func parseQuery(f *lang.Frame, s *lang.Site, text string) map[string]any {
	f.CheckRoom(s.Offset, (strings.Count(text, "&")+1)*(doc.KeySize+lang.ElementSize)+doc.ObjectSize)
	f.Alloc(s.Offset, len(text)) // at most, for the decoded text
	params := map[string]any{}
	for param := range strings.SplitSeq(text, "&") {
		if param == "" {
			continue
		}
		name, content, _ := strings.Cut(param, "=")
		name, err := url.QueryUnescape(name)
		if err == nil {
			content, err = url.QueryUnescape(content)
		}
		if err != nil {
			s.Fail("%s(): %s has a %% without two hexadecimal digits", s.Name, s.Show(param))
		}
		if !utf8.ValidString(name) {
			s.Fail("%s(): the name in %s is not text in UTF-8", s.Name, s.Show(param))
		}
		switch was := params[name].(type) {
		case nil:
			params[name] = value.StringOrBytes(content)
		case []any:
			params[name] = append(was, value.StringOrBytes(content))
			f.Alloc(s.Offset, 2*lang.ElementSize)
		default:
			params[name] = []any{was, value.StringOrBytes(content)}
			f.Alloc(s.Offset, 3*lang.ElementSize)
		}
	}
	return params
}

func buildQuery(f *lang.Frame, s *lang.Site, args []any) any {
	params := args[0].(map[string]any)
	f.ChargeText(s.Offset, params)
	var b bytes.Buffer
	add := func(name string, v any) {
		switch value.KindOf(v) {
		case value.Text, value.Int, value.Float, value.Big, value.Bool, value.Bytes:
		default:
			s.FailWith("filter_values(x, # != nil) leaves out what is missing",
				"%s() needs texts, numbers, true/false or lists of them, but %q is %s", s.Name, value.Clip(name), s.Show(v))
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		key, value := urlEncode(f, s, name), urlEncode(f, s, v)
		f.CheckRoom(s.Offset, 2*(b.Len()+len(key)+len(value)))
		b.WriteString(key + "=" + value)
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		list, ok := params[name].([]any)
		if !ok {
			add(name, params[name])
		}
		f.Step(s.Offset, len(list)*(1+len(name)>>4))
		for _, v := range list {
			add(name, v)
		}
	}
	return b.String()
}
