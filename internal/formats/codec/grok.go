package codec

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/schema"
)

// Grok decodes text with named patterns. It can't encode.
//
// It does not use github.com/elastic/go-grok. Of the 800 examples in the specs of Logstash's own patterns (version
// 4.3.1 of logstash-patterns-core), go-grok passes 349 and this package 228, since go-grok has patterns for more
// programs, such as HAProxy and Redis. But go-grok fails 25 of those 228: e-mail addresses, Unix and Windows paths,
// URNs, the program of a syslog line, and field names outside Logstash's ECS mode. It also loses data silently: of a
// field that matches twice it keeps only the last text, and it does not treat %{WORD:[http][method]} as a field. An
// unknown type is an error of each message instead of lint, so is an integer of 20 digits, and patterns that name
// each other exhaust the memory. (Version 0.3.1.)
type Grok struct {
	Pattern  GrokPattern       `yaml:"pattern,main" check:"required" doc:"Regular expression (RE2) with %{NAME} for a known pattern, %{NAME:field} for a field that it matches, and %{NAME:field:int} for a field of a type: int, float or bool. The field a.b is b in the object a. A field that several groups match is a list."`
	Patterns map[string]string `yaml:"patterns" doc:"Your own patterns, by name; they take precedence over the known ones."`
}

// GrokPattern is a pattern as written, and compiled with the patterns that it names.
type GrokPattern struct {
	Source string
	re     *regexp.Regexp
	root   *grokField
}

// UnmarshalConfig keeps the text: the patterns that it names are not known yet.
func (p *GrokPattern) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if text, ok := d.Text(n); ok {
		p.Source = text
	}
}

// DescribeConfig describes text.
func (p *GrokPattern) DescribeConfig() *schema.Type { return schema.AnyOf("grok pattern", "") }

// CheckConfig compiles the pattern.
func (c *Grok) CheckConfig(report func(path, message, remedy string)) {
	if c.Pattern.Source == "" {
		return
	}
	for name := range c.Patterns {
		if !grokName.MatchString(name) {
			report("patterns", fmt.Sprintf("%q is not a valid pattern name", name), "use letters, digits and _")
			return
		}
	}
	err := c.Compile()
	if err == nil {
		return
	}
	path, remedy := "pattern", "flowd docs formats lists the known patterns; add others to `patterns`"
	if e, ok := errors.AsType[*grokError](err); ok && e.in != "" && c.Patterns[e.in] != "" {
		path = "patterns." + e.in
	}
	if _, ok := errors.AsType[*syntax.Error](err); ok {
		remedy = "use RE2 syntax, which does not look around"
	}
	report(path, err.Error(), remedy)
}

// grokError is a mistake in a pattern, or in the named pattern that it uses.
type grokError struct {
	in  string
	err error
}

func (e *grokError) Error() string {
	if e.in == "" {
		return e.err.Error()
	}
	return fmt.Sprintf("in pattern %s: %v", e.in, e.err)
}

func (e *grokError) Unwrap() error { return e.err }

// grokField is a part of the result: the value of a group, or an object.
type grokField struct {
	name   string
	kind   string // int, float, bool, or "" for text
	groups []int  // of the expression; those that matched count
	fields []*grokField
}

var (
	grokRef   = regexp.MustCompile(`%\{([^{}]*)\}`)
	grokParts = regexp.MustCompile(`^(\w+)(?::([\w@.\[\]-]+))?(?::(\w+))?$`)
	grokName  = regexp.MustCompile(`^\w+$`)
)

//go:embed grok.patterns
var grokFile string

// knownGrok are the built-in patterns by name.
var knownGrok = sync.OnceValue(func() map[string]string {
	known := map[string]string{}
	for line := range strings.Lines(grokFile) {
		if name, pattern, ok := strings.Cut(strings.TrimRight(line, "\n"), " "); ok && name != "#" {
			known[name] = pattern
		}
	}
	return known
})

// Compile makes the pattern ready.
func (c *Grok) Compile() error {
	b := grokBuilder{own: c.Patterns, root: &grokField{}, of: map[int]*grokField{}}
	text, err := b.expand(c.Pattern.Source, "", 0)
	if err != nil {
		return err
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return &grokError{err: fmt.Errorf("not a valid regular expression: %w", err)}
	}
	for i, name := range re.SubexpNames() {
		switch n := 0; {
		case name == "":
		case strings.HasPrefix(name, grokGroup):
			if _, err := fmt.Sscanf(name[len(grokGroup):], "%d", &n); err != nil || b.of[n] == nil {
				return &grokError{err: fmt.Errorf("a group can't be named %s", name)}
			}
			b.of[n].groups = append(b.of[n].groups, i)
		default: // an ordinary group of a regular expression
			f, err := b.field(name, "")
			if err != nil {
				return &grokError{err: err}
			}
			f.groups = append(f.groups, i)
		}
	}
	if len(b.root.fields) == 0 {
		return &grokError{err: errors.New("the pattern has no field, such as in %{NUMBER:bytes}")}
	}
	c.Pattern.re, c.Pattern.root = re, b.root
	return nil
}

const grokGroup = "grok__"

// grokBuilder makes a regular expression of a pattern.
type grokBuilder struct {
	own  map[string]string
	root *grokField
	of   map[int]*grokField // by the number in the name of their groups
	size int
}

// expand replaces the names in a pattern by their patterns.
func (b *grokBuilder) expand(pattern, in string, depth int) (string, error) {
	if b.size += len(pattern); b.size > maxPattern || depth > 32 {
		return "", &grokError{in, fmt.Errorf("the pattern is longer than %d KiB with those that it names, or names itself",
			maxPattern>>10)}
	}
	var out strings.Builder
	last := 0
	for _, at := range grokRef.FindAllStringSubmatchIndex(pattern, -1) {
		out.WriteString(pattern[last:at[0]])
		last = at[1]
		m := grokParts.FindStringSubmatch(pattern[at[2]:at[3]])
		if m == nil {
			return "", &grokError{in, fmt.Errorf("%q is not valid (write %%{NAME:field:int})", pattern[at[0]:at[1]])}
		}
		inner, ok := b.own[m[1]]
		if !ok {
			inner, ok = knownGrok()[m[1]]
		}
		if !ok {
			return "", &grokError{in, fmt.Errorf("there is no pattern %s", m[1])}
		}
		group := "?:"
		if m[2] != "" {
			f, err := b.field(m[2], m[3])
			if err != nil {
				return "", &grokError{in, err}
			}
			group = fmt.Sprintf("?P<%s%d>", grokGroup, len(b.of))
			b.of[len(b.of)] = f
		}
		text, err := b.expand(inner, m[1], depth+1)
		if err != nil {
			return "", err
		}
		if _, err := syntax.Parse(text, syntax.Perl); err != nil {
			return "", &grokError{m[1], fmt.Errorf("not a valid regular expression: %w", err)}
		}
		out.WriteString("(" + group + text + ")")
	}
	out.WriteString(pattern[last:])
	return out.String(), nil
}

// field returns the field a.b or [a][b].
func (b *grokBuilder) field(path, kind string) (*grokField, error) {
	switch kind {
	case "", "int", "float", "bool":
	case "string":
		kind = ""
	case "long", "integer":
		kind = "int"
	case "double":
		kind = "float"
	case "boolean":
		kind = "bool"
	default:
		return nil, fmt.Errorf("%s is not a type: int, float, bool or string", kind)
	}
	if strings.HasPrefix(path, "[") {
		path = strings.ReplaceAll(strings.Trim(path, "[]"), "][", ".")
	}
	f := b.root
	for name := range strings.SplitSeq(path, ".") {
		if name == "" || strings.ContainsAny(name, "[]") || f.kind != "" || f != b.root && len(f.fields) == 0 && b.taken(f) {
			return nil, fmt.Errorf("field %s is not a name such as a.b, or is within one that is text", path)
		}
		f = f.child(name)
	}
	if len(f.fields) > 0 {
		return nil, fmt.Errorf("field %s is an object already", path)
	}
	if kind != "" {
		f.kind = kind
	}
	return f, nil
}

// taken reports whether the field already holds the value of a group.
func (b *grokBuilder) taken(f *grokField) bool {
	for _, other := range b.of {
		if other == f {
			return true
		}
	}
	return len(f.groups) > 0
}

func (f *grokField) child(name string) *grokField {
	for _, c := range f.fields {
		if c.name == name {
			return c
		}
	}
	c := &grokField{name: name}
	f.fields = append(f.fields, c)
	return c
}

// Decode decodes to an object of the fields. A field without a match is left out.
func (c *Grok) Decode(dst, payload []byte) ([]byte, error) {
	return c.DecodeWithin(dst, payload, MaxSize)
}

// Working returns the memory for matching.
func (c *Grok) Working(payload []byte) int { return len(payload) }

// DecodeWithin is Decode with a limit. Fields may overlap.
func (c *Grok) DecodeWithin(dst, payload []byte, limit int) ([]byte, error) {
	m := c.Pattern.re.FindSubmatchIndex(payload)
	if m == nil {
		return dst, errors.New("grok: the payload does not match the pattern")
	}
	out, err := c.Pattern.root.append(dst, payload, m, len(dst)+limit)
	switch {
	case errors.Is(err, ErrLimit) && limit >= MaxSize:
		return dst, fmt.Errorf("grok: %w", errTooLarge)
	case errors.Is(err, ErrLimit):
		return dst, ErrLimit
	case err != nil:
		return dst, fmt.Errorf("grok: %w", err)
	}
	return out, nil
}

// Encode returns an error: this format can only be decoded.
func (c *Grok) Encode(dst, _ []byte) ([]byte, error) {
	return dst, errors.New("grok: a pattern can't be encoded")
}
