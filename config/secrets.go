package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/schema"
)

// secrets finds passwords, tokens and keys, wherever they come from, and masks them everywhere. It warns of those
// that the file itself contains.
func (l *loader) secrets(f *file) {
	for i, key := range f.root.Keys {
		if key.Text != "tests" { // their messages are made up
			l.secretsIn(f, f.root.Items[i], key.Text, key.Text, false)
		}
	}
}

// secretsIn searches a value under a key, and everything below it. code says that these are expressions.
func (l *loader) secretsIn(f *file, n *schema.Node, key, path string, code bool) {
	switch n.Kind {
	case schema.MapNode:
		concealPair(f.decoder, n)
		for i, k := range n.Keys {
			l.secretsIn(f, n.Items[i], k.Text, schema.Join(path, k.Text), code || slices.Contains(ofExpressions, key))
		}
		return
	case schema.ListNode:
		for i, item := range n.Items {
			l.secretsIn(f, item, key, path+"["+strconv.Itoa(i)+"]", code)
		}
		return
	case schema.TextNode, schema.IntNode, schema.FloatNode:
	default:
		return
	}
	code = code || slices.Contains(ofExpressions, key)
	conceal(f.decoder, n, key, code)
	if secretOf(key, n.Text, code) == "" || n.Origin != "" {
		return
	}
	l.report(schema.Problem{Pos: n.Pos, Path: path, Code: "literal-secret", Warning: true,
		Message: "the file contains a secret", Remedy: "write ${file:/run/secrets/NAME} or ${NAME} instead"})
}

// conceal masks the secrets in a value: its own text, and the values of placeholders.
func conceal(d *schema.Decoder, n *schema.Node, key string, code bool) {
	p, secrets := secretPattern(), d.Secrets()
	if secret := secretOf(key, n.Text, code); secret != "" {
		secrets.Add(secret)
	}
	var text strings.Builder
	for _, piece := range d.Glance(n) {
		text.WriteString(piece.Text)
		if !piece.Placeholder {
			continue
		}
		name := placeholderName(n.Text[piece.Offset:])
		if p.isName(key) || p.header.MatchString(key) || p.isName(name) {
			secrets.Add(piece.Text)
		}
	}
	for _, url := range []*regexp.Regexp{p.url, p.oddURL} {
		for _, found := range url.FindAllString(text.String(), -1) {
			secrets.AddURL(found)
		}
	}
	for _, secretIn := range []*regexp.Regexp{p.query, p.scheme} {
		for _, m := range secretIn.FindAllStringSubmatch(text.String(), -1) {
			if secret := bareText(m[1]); secret != "" {
				secrets.Add(secret)
			}
		}
	}
}

// concealPair masks a name and the password next to it in the form that basic authentication sends.
func concealPair(d *schema.Decoder, n *schema.Node) {
	text := func(keys ...string) string {
		var b strings.Builder
		for _, key := range keys {
			if item := n.Lookup(key); item != nil && item.Kind != schema.MapNode && item.Kind != schema.ListNode {
				for _, piece := range d.Glance(item) {
					b.WriteString(piece.Text)
				}
				break
			}
		}
		return b.String()
	}
	if user, password := text("user", "username"), bareText(text("password")); user != "" && password != "" {
		d.Secrets().AddPair(user, password)
	}
}

// placeholderName returns the name in the placeholder that a text begins with.
func placeholderName(text string) string {
	text = strings.TrimPrefix(text, "${")
	if end := strings.IndexAny(text, ":}"); end >= 0 {
		text = text[:end]
	}
	return text
}

// isName reports whether a name indicates a secret.
func (p *secretPatterns) isName(name string) bool {
	return p.name.MatchString(name) && !p.notName.MatchString(name)
}

// ofExpressions are keys whose values, or values below them, are expressions.
var ofExpressions = []string{"set", "map", "meta", "rename", "aggregate", "fields", "labels", "log", "when", "filter",
	"match", "body", "key"}

// secretPatterns find secrets. oddURL matches malformed URLs with a password.
type secretPatterns struct{ name, notName, header, url, oddURL, query, scheme, text *regexp.Regexp }

var secretPattern = sync.OnceValue(func() secretPatterns {
	return secretPatterns{
		name: regexp.MustCompile(`(?i)^(.*[_-])?(password|passwd|passphrase|secret|token|bearer|api[_-]?key|credential)$|_key$`),
		notName: regexp.MustCompile(
			`(?i)(^|[_-])(routing|order|partition|batch|sort|group|primary|foreign|message|dedupe|cache|object|public)[_-]key$`),
		header: regexp.MustCompile(`(?i)^(proxy-)?authorization$|^cookie$|^x-(.*-)?(token|key|secret)$`),
		url:    regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@`),
		oddURL: regexp.MustCompile("[a-zA-Z][a-zA-Z0-9+.-]*://[^/:@\"'`\r\n]*:([^/\"'`\r\n]+)@"),
		query:  regexp.MustCompile(`(?i)[?&](?:(?:access_|auth_)?token|api_?key|secret|password|sig)=([^&\s"']+)`),
		scheme: regexp.MustCompile(`(?i)^["']?(?:Bearer|Basic|Token)\s+([^\s"']{4,})["']?$`),
		text:   regexp.MustCompile("^\\s*(?:\"([^\"]*)\"|'([^']*)'|`([^`]*)`)\\s*$"),
	}
})

// secretOf returns the part of a value that is a secret, or "". Placeholders and expressions are not secrets.
func secretOf(key, text string, code bool) string {
	p := secretPattern()
	for _, found := range []*regexp.Regexp{p.url, p.oddURL, p.query, p.scheme} {
		if m := found.FindStringSubmatch(text); m != nil {
			return bareText(m[1])
		}
	}
	named := p.name.MatchString(key) || p.header.MatchString(key)
	if !named || p.notName.MatchString(key) {
		return ""
	}
	if code {
		m := p.text.FindStringSubmatch(text)
		if m == nil {
			return ""
		}
		text = m[1] + m[2] + m[3]
	}
	return bareText(text)
}

// bareText returns text, or "" if it contains a placeholder or an expression, is masked, or is the default password
// of RabbitMQ.
func bareText(text string) string {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "${") || strings.Contains(text, "$(") || text == "guest" ||
		strings.Trim(text, "*x.…") == "" {
		return ""
	}
	return text
}
