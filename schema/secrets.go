package schema

import (
	"cmp"
	"encoding/base64"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Secrets are texts that must be masked. Code that shows text to people, or sends an error's text with a message,
// passes it through [Secrets.Mask] before it cuts or quotes it. A nil *Secrets is empty. All methods are safe for
// concurrent use.
type Secrets struct {
	outer *Secrets // its secrets are masked, too

	mu      sync.RWMutex // guards the fields below
	known   map[string]bool
	needles []needle // append-only, so readers need no lock
}

// needle is one form in which a secret may appear.
type needle struct {
	text   string
	base64 bool             // mask the whole word around it
	values []*regexp.Regexp // of a short secret: contexts in which it is a value; text alone is not searched
}

// shortSecret is the length from which a secret is masked everywhere. A shorter one occurs in ordinary text, and
// masking half of the letters would reveal it. It is masked only where it must be a value.
const shortSecret = 4

// maxEncoded bounds the secrets that are searched for in base64, in bytes.
const maxEncoded = 4 << 10

// With returns these secrets and more, without changing s.
func (s *Secrets) With(texts ...string) *Secrets {
	w := &Secrets{outer: s}
	for _, text := range texts {
		w.Add(text)
	}
	return w
}

// Add adds a secret, as UTF-8, and its parts: the password in a URL, the token after a word such as Bearer, and the
// lines of a longer text.
func (s *Secrets) Add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(text)
}

// AddPair adds a name and a password in the form of basic authentication.
func (s *Secrets) AddPair(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pair(user, password)
}

// AddURL adds the password in a URL.
func (s *Secrets) AddURL(text string) {
	if user, password, ok := userinfo(text); ok {
		s.AddPair(user, password)
	}
}

func (s *Secrets) add(text string) {
	text = strings.TrimSpace(text)
	if s.known[text] || public(text) || !utf8.ValidString(text) {
		return
	}
	if s.known == nil {
		s.known = map[string]bool{}
	}
	s.known[text] = true
	if len(text) < shortSecret {
		s.put(needle{text: text, values: valuesOf(text)})
		return
	}
	s.put(needle{text: text})
	if strings.Contains(text, " ") {
		s.put(needle{text: strings.ReplaceAll(text, " ", "+")}) // as in a query
	}
	if len(text) <= maxEncoded {
		for _, form := range inBase64(text) {
			s.put(needle{text: form, base64: true})
		}
	}
	s.parts(text)
}

// public reports whether a text is not a secret even if it is configured as one: RabbitMQ's default password, words
// that mean nothing, and placeholders.
func public(text string) bool {
	return slices.Contains([]string{"guest", "none", "null", "nil", "true", "false"}, text) ||
		strings.Trim(text, "*x.…") == ""
}

var schemed = regexp.MustCompile(`^[A-Za-z]+ +(\S+)$`)

// parts adds the secrets inside another one.
func (s *Secrets) parts(text string) {
	if user, password, ok := userinfo(text); ok {
		s.pair(user, password)
	} else if m := schemed.FindStringSubmatch(text); m != nil { // Bearer x
		s.add(m[1])
	} else if basic, err := base64.StdEncoding.DecodeString(text); err == nil && utf8.Valid(basic) {
		if user, password, ok := strings.Cut(string(basic), ":"); ok {
			s.pair(user, password)
		}
	}
	if strings.Contains(text, "\n") {
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.TrimSpace(line); len(line) >= 2*shortSecret && !strings.HasPrefix(line, "-----") {
				s.add(line)
			}
		}
	}
}

// pair adds a name and a password in their combined form.
func (s *Secrets) pair(user, password string) {
	s.add(password)
	both := user + ":" + password
	if public(password) || password == "" || s.known[both] {
		return
	}
	s.known[both] = true
	s.put(needle{text: both})
	s.put(needle{text: base64.RawStdEncoding.EncodeToString([]byte(both)), base64: true})
	s.put(needle{text: base64.RawURLEncoding.EncodeToString([]byte(both)), base64: true})
}

func (s *Secrets) put(n needle) { s.needles = append(s.needles, n) }

// userinfo returns the name and the password in a URL.
func userinfo(text string) (user, password string, ok bool) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found || strings.ContainsAny(scheme, " \t\n/") {
		return "", "", false
	}
	rest, _, _ = strings.Cut(rest, "/") // a ? or # may belong to the password
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return "", "", false
	}
	user, password, ok = strings.Cut(rest[:at], ":")
	return unescaped(user), unescaped(password), ok
}

func unescaped(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

// inBase64 returns the base64 forms of a text inside a longer one: the letters that depend only on the text, for each
// of its three possible offsets in a group of three bytes.
func inBase64(text string) (forms []string) {
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			all := e.EncodeToString(append(make([]byte, before), text...))
			form := all[(before*8+5)/6 : (before+len(text))*8/6]
			if len(form) > shortSecret && !slices.Contains(forms, form) {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// valuesOf matches a short text where it must be a value: everything between quotes, or after =, a colon, or a word
// for a credential.
func valuesOf(text string) []*regexp.Regexp {
	if text == "" {
		return nil
	}
	quoted := regexp.QuoteMeta(text)
	return []*regexp.Regexp{
		regexp.MustCompile(`(?:[=:] ?|["'])(` + quoted + `)(?:$|["',;&@)}\]<\r\n])`),
		regexp.MustCompile(`(?i:password|passwd|passphrase|secret|token|bearer|basic|key|credentials?|authorization)["']?\s*[=:]?\s*["']?(` +
			quoted + `)(?:$|[^\pL\pN_])`),
	}
}

// Mask replaces each secret in text by ***. It finds secrets in plain form, percent-encoded, with escapes of JSON or
// HTML, nested, or in base64, alone or as part of a longer text.
func (s *Secrets) Mask(text string) string {
	return s.replace(text, func(string) string { return mask })
}

// replace replaces each secret in text.
func (s *Secrets) replace(text string, by func(secret string) string) string {
	found := s.find(text)
	if len(found) == 0 {
		return text
	}
	var b strings.Builder
	done := 0
	for _, f := range found {
		b.WriteString(text[done:f.from])
		b.WriteString(by(text[f.from:f.to]))
		done = f.to
	}
	b.WriteString(text[done:])
	return b.String()
}

// span is a part of a text, in bytes.
type span struct{ from, to int }

// find returns where secrets are in a text, in order and without overlaps.
func (s *Secrets) find(text string) (all []span) {
	for ; s != nil; s = s.outer {
		s.mu.RLock()
		needles := s.needles
		s.mu.RUnlock()
		if len(needles) == 0 {
			continue
		}
		for _, v := range viewsOf(text) {
			for i := range needles {
				all = needles[i].find(v, all)
			}
		}
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	apart := all[:0]
	for _, f := range all {
		if last := len(apart) - 1; last >= 0 && f.from < apart[last].to {
			apart[last].to = max(apart[last].to, f.to)
		} else {
			apart = append(apart, f)
		}
	}
	return apart
}

func (n *needle) find(v view, all []span) []span {
	for _, re := range n.values {
		for _, m := range re.FindAllStringSubmatchIndex(v.text, -1) {
			all = append(all, v.span(m[2], m[3]))
		}
	}
	if n.values != nil || n.text == "" {
		return all
	}
	for from := 0; ; {
		i := strings.Index(v.text[from:], n.text)
		if i < 0 {
			return all
		}
		i += from
		from = i + len(n.text)
		to := from
		if n.base64 {
			for i > 0 && isBase64(v.text[i-1]) {
				i--
			}
			for to < len(v.text) && (isBase64(v.text[to]) || v.text[to] == '=') {
				to++
			}
			from = to
		}
		all = append(all, v.span(i, to))
	}
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '-' ||
		c == '_'
}

// view is a text with escapes resolved. at maps its bytes to their places in the original, including the end; nil:
// nothing has changed.
type view struct {
	text string
	at   []int
}

func (v view) span(from, to int) span {
	if v.at == nil {
		return span{from, to}
	}
	return span{v.at[from], v.at[to]}
}

// mostViews bounds the views of a text.
const mostViews = 16

// viewsOf returns the views of a text: unchanged, and without the escapes of JSON, URLs and HTML, which may be
// nested.
func viewsOf(text string) []view {
	all := append(make([]view, 0, 4), view{text: text})
	for i := 0; i < len(all); i++ {
		for _, escape := range escapes {
			v := all[i]
			if len(all) == mostViews || strings.IndexByte(v.text, escape.lead) < 0 {
				continue
			}
			plain := v.resolve(escape.lead, escape.read)
			if !slices.ContainsFunc(all, func(v view) bool { return v.text == plain.text }) {
				all = append(all, plain)
			}
		}
	}
	return all
}

// escapes are the known escapes, by the character that begins them.
var escapes = []struct {
	lead byte
	read func(rest string) (plain string, n int)
}{{'\\', backslashed}, {'%', percented}, {'&', entity}}

// resolve replaces escapes that begin with lead. read returns the meaning of the escape at the beginning of rest and
// its length, or 0.
func (v view) resolve(lead byte, read func(rest string) (plain string, n int)) view {
	r := view{at: make([]int, 0, len(v.text)+1)}
	var b strings.Builder
	for i := 0; i < len(v.text); {
		plain, n := v.text[i:i+1], 1
		if v.text[i] == lead {
			if p, used := read(v.text[i:]); used > 0 {
				plain, n = p, used
			}
		}
		for range len(plain) {
			r.at = append(r.at, v.span(i, i).from)
		}
		b.WriteString(plain)
		i += n
	}
	r.text, r.at = b.String(), append(r.at, v.span(len(v.text), len(v.text)).to)
	return r
}

func percented(rest string) (string, int) {
	c, ok := hex(rest, 1, 2)
	if !ok {
		return "", 0
	}
	return string([]byte{byte(c)}), 3
}

// longestEntity bounds the length of a character reference of HTML, including leading zeros.
const longestEntity = 40

// entity parses a character reference of HTML, by name or number. The semicolon may be missing.
func entity(rest string) (string, int) {
	n := 1
	for n < len(rest) && n < longestEntity && (rest[n] == '#' && n == 1 || isWord(rest[n])) {
		n++
	}
	if n < len(rest) && rest[n] == ';' {
		n++
	}
	plain := html.UnescapeString(rest[:n])
	after := commonEnd(rest[:n], plain)
	if n -= after; n <= 1 {
		return "", 0
	}
	return plain[:len(plain)-after], n
}

// commonEnd returns how many bytes two texts have in common at their ends.
func commonEnd(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

func isWord(c byte) bool { return isBase64(c) && c != '+' && c != '/' && c != '-' && c != '_' }

// backslashed parses a backslash escape of JSON, JavaScript or Go.
func backslashed(rest string) (string, int) {
	if len(rest) < 2 {
		return "", 0
	}
	if i := strings.IndexByte(`"\/'abfnrtv`, rest[1]); i >= 0 {
		return "\"\\/'\a\b\f\n\r\t\v"[i : i+1], 2
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[rest[1]]
	c, ok := hex(rest, 2, digits)
	switch {
	case !ok:
		return "", 0
	case rest[1] == 'x':
		return string([]byte{byte(c)}), 4
	case utf16.IsSurrogate(c) && strings.HasPrefix(rest[6:], `\u`):
		if low, ok := hex(rest, 8, 4); ok {
			return string(utf16.DecodeRune(c, low)), 12
		}
	}
	return string(c), 2 + digits
}

func hex(text string, from, digits int) (rune, bool) {
	if digits == 0 || len(text) < from+digits {
		return 0, false
	}
	c, err := strconv.ParseUint(text[from:from+digits], 16, 32)
	return rune(c), err == nil
}
