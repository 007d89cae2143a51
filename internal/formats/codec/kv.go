package codec

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
)

// KV reads and writes pairs such as `a=b c="d e"`.
type KV struct {
	PairSeparator string `yaml:"pair_separator" doc:"Text between pairs; white space by default."`
	KeySeparator  string `yaml:"key_separator" doc:"Text between a key and its value; \"=\" by default."`
	Numbers       bool   `yaml:"numbers" doc:"Decoding turns values that are JSON numbers into numbers."`
}

// Decode decodes to an object of text values. A value that begins with a double quote ends at the next one. A
// backslash escapes inside.
func (c *KV) Decode(dst, payload []byte) ([]byte, error) {
	return c.grammar("kv", false).decode(dst, string(payload))
}

// Encode writes the fields of an object.
func (c *KV) Encode(dst, json []byte) ([]byte, error) {
	return c.grammar("kv", false).encode(dst, json)
}

func (c *KV) grammar(name string, flags bool) *grammar {
	return &grammar{name: name, between: c.PairSeparator, equals: cmp.Or(c.KeySeparator, "="), numbers: c.Numbers,
		flags: flags}
}

// Logfmt reads and writes lines as many Go services log them: like KV, but a bare key is true.
//
// It does not use github.com/go-logfmt/logfmt, which can't distinguish a bare key from an empty value, or "5" from 5.
// It rejects url=/x?a=b, say=it"s and path="C:\dir", which programs do log, and silently writes the key "a b=c" as
// abc. (Version 0.6.1.) It would replace only two methods: KV has the rest.
type Logfmt struct {
	Numbers bool `yaml:"numbers" doc:"Decoding turns values that are JSON numbers into numbers."`
}

// Decode decodes to an object. A key without a value is true.
func (c *Logfmt) Decode(dst, payload []byte) ([]byte, error) {
	return (&KV{Numbers: c.Numbers}).grammar("logfmt", true).decode(dst, string(payload))
}

// Encode writes the fields of an object.
func (c *Logfmt) Encode(dst, json []byte) ([]byte, error) {
	return (&KV{}).grammar("logfmt", true).encode(dst, json)
}

// grammar is the syntax of pairs.
type grammar struct {
	name    string
	between string // "": white space
	equals  string
	numbers bool
	flags   bool // a key may have no value
}

type pair struct {
	key, value string
	flag       bool   // a bare key
	quoted     bool   // it stays text, whatever it looks like
	more       []pair // further pairs with the same key
}

func (o *object) addPair(p pair) error {
	if err := o.addRaw(p.key, ""); err != nil {
		return err
	}
	if len(p.more) == 0 {
		return o.pairValue(p)
	}
	o.dst = append(o.dst, '[')
	if err := o.pairValue(p); err != nil {
		return err
	}
	for _, q := range p.more {
		o.dst = append(o.dst, ',')
		if err := o.pairValue(q); err != nil {
			return err
		}
	}
	o.dst = append(o.dst, ']')
	return nil
}

// pairValue appends the value of one pair.
func (o *object) pairValue(p pair) (err error) {
	switch {
	case p.flag:
		o.dst = append(o.dst, "true"...)
		return nil
	case p.quoted:
		if o.dst, err = appendText(o.dst, p.value); err == nil {
			err = checkSize(o.dst, o.start, MaxSize)
		}
	default:
		err = o.value(p.value)
	}
	if err != nil {
		return fmt.Errorf("field %q %w", p.key, err)
	}
	return nil
}

func (g *grammar) decode(dst []byte, s string) ([]byte, error) {
	list, err := g.parse(s)
	if err != nil {
		return dst, fmt.Errorf("%s: %w", g.name, err)
	}
	o := newObject(dst, g.numbers)
	for _, p := range list {
		if err := o.addPair(p); err != nil {
			return dst, fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return o.end(), nil
}

// parse parses all pairs.
func (g *grammar) parse(s string) ([]pair, error) {
	var all pairs
	for rest := g.skip(s); rest != ""; rest = g.skip(rest) {
		p, tail, err := g.pair(rest)
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", len(s)-len(rest), err)
		}
		all.put(p)
		rest = tail
	}
	return all.list, nil
}

// repeated yields the members of an object, and the elements of a list of scalars under the same key. It is the
// inverse of pairs.
func repeated(object []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for key, value := range doc.Members(object) {
			if value[0] != '[' || !severalScalars(value) {
				if !yield(key, value) {
					return
				}
				continue
			}
			for e := range doc.Elements(value) {
				if !yield(key, e) {
					return
				}
			}
		}
	}
}

func severalScalars(list []byte) bool {
	n := 0
	for e := range doc.Elements(list) {
		if n++; e[0] == '[' || e[0] == '{' {
			return false
		}
	}
	return n > 1
}

// pairs are in the order of their keys' first occurrence. Equal keys form one entry with all values.
type pairs struct {
	list []pair
	at   map[string]int // only if there are many
}

func (all *pairs) put(p pair) {
	if i := all.find(p.key); i >= 0 {
		all.list[i].more = append(all.list[i].more, p)
		return
	}
	if all.at != nil {
		all.at[p.key] = len(all.list)
	}
	all.list = append(all.list, p)
}

// find returns the index of a key, or -1.
func (all *pairs) find(key string) int {
	const many = 16
	switch {
	case len(all.list) < many:
		return slices.IndexFunc(all.list, func(p pair) bool { return p.key == key })
	case all.at == nil:
		all.at = make(map[string]int, 2*many)
		for i, p := range all.list {
			all.at[p.key] = i
		}
	}
	if i, ok := all.at[key]; ok {
		return i
	}
	return -1
}

// skip skips the separator before the next pair.
func (g *grammar) skip(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\r\n")
		next := s
		if g.between != "" {
			next = strings.TrimPrefix(s, g.between)
		}
		if next == s {
			return s
		}
		s = next
	}
}

func (g *grammar) pair(s string) (p pair, rest string, err error) {
	word, rest := g.until(s, g.equals)
	p.key = strings.TrimRight(word, " \t\r\n")
	switch {
	case p.key == "":
		return p, "", fmt.Errorf("there is no key before %q", g.equals)
	case !strings.HasPrefix(rest, g.equals) && g.flags:
		p.flag = true
		return p, rest, nil
	case !strings.HasPrefix(rest, g.equals):
		return p, "", fmt.Errorf("%.40q has no %q", p.key, g.equals)
	}
	rest = rest[len(g.equals):]
	if g.between != "" {
		rest = strings.TrimLeft(rest, " \t")
	}
	if !strings.HasPrefix(rest, `"`) {
		word, rest = g.until(rest, "")
		p.value = strings.TrimRight(word, " \t\r\n")
		return p, rest, nil
	}
	p.quoted = true
	p.value, rest, err = unquote(rest)
	if err == nil && rest != "" && g.skip(rest) == rest {
		err = fmt.Errorf("there is %.10q directly after the value of %.40q", rest, p.key)
	}
	return p, rest, err
}

// until cuts s at the end of a pair, or at stop if that is earlier.
func (g *grammar) until(s, stop string) (word, rest string) {
	end := len(s)
	if g.between == "" {
		if i := strings.IndexAny(s, " \t\r\n"); i >= 0 {
			end = i
		}
	} else if i := strings.Index(s, g.between); i >= 0 {
		end = i
	}
	if stop != "" {
		if i := strings.Index(s[:end], stop); i >= 0 {
			end = i
		}
	}
	return s[:end], s[end:]
}

// unquote reads the quoted text at the beginning of s.
func unquote(s string) (text, rest string, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], nil
		case '\\':
			if i++; i == len(s) {
				continue
			}
			switch s[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			case '"', '\\', '/':
				b.WriteByte(s[i])
			default: // other backslashes stay: C:\dir
				b.WriteByte('\\')
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", errors.New("a quoted value has no end")
}

func (g *grammar) encode(dst, json []byte) ([]byte, error) {
	if json[0] != '{' {
		return dst, fmt.Errorf("%s: %s is not an object", g.name, kind(json))
	}
	start := len(dst)
	for key, value := range repeated(json) {
		if key == "" || g.needsQuotes(key) {
			return dst, fmt.Errorf("%s: key %q can't be written without ambiguity (give it another name with `rename`)",
				g.name, key)
		}
		if len(dst) > start {
			dst = append(dst, cmp.Or(g.between, " ")...)
		}
		dst = append(dst, key...)
		dst = append(dst, g.equals...)
		if t := text(value); !g.needsQuotes(t) {
			dst = append(dst, t...)
		} else {
			dst = append(dst, '"')
			dst = append(dst, quoteEscapes.Replace(t)...)
			dst = append(dst, '"')
		}
	}
	return dst, nil
}

var quoteEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`)

func (g *grammar) needsQuotes(s string) bool {
	return strings.ContainsAny(s, " \t\r\n\"\\") || strings.Contains(s, g.equals) || g.between != "" &&
		strings.Contains(s, g.between)
}
