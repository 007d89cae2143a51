package codec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/schema"
)

// Syslog reads and writes messages of RFC 5424 and RFC 3164.
type Syslog struct {
	RFC        string `yaml:"rfc" check:"oneof=auto|3164|5424" default:"auto" doc:"RFC of the messages. With auto, decoding detects it, and encoding writes RFC 5424."`
	BestEffort bool   `yaml:"best_effort" doc:"Decoding accepts messages that break the rules: whatever can't be parsed becomes part of message."`
	Names      bool   `yaml:"names" doc:"Decoding gives facility and severity as words, such as auth and err, instead of numbers. Encoding accepts both."`
	Zone       Zone   `yaml:"zone" doc:"Time zone of RFC 3164 timestamps, which do not have one, such as Europe/Zurich; UTC by default."`
	Year       int    `yaml:"year" check:"min=0,max=9999" doc:"Year of RFC 3164 timestamps, which do not have one; 0 means the year in which they are closest to now."`
}

var _ Expanding = (*Syslog)(nil)

var (
	facilities = [...]string{"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron",
		"authpriv", "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"}
	severities = [...]string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}
)

const (
	rfc3164 = "3164"
	rfc5424 = "5424"
)

// syslogReader parses one message. rest is the unparsed part.
type syslogReader struct {
	*Syslog
	object
	rest string
	now  time.Time
}

// Decode decodes to an object of the fields in the header, and of the message.
func (c *Syslog) Decode(dst, payload []byte) ([]byte, error) {
	if !utf8.Valid(payload) {
		return dst, fmt.Errorf("syslog: the message %w", errUTF8)
	}
	r := syslogReader{Syslog: c, object: newObject(dst, false), now: time.Now(),
		rest: strings.TrimRight(string(payload), "\r\n\x00")}
	err := r.priority()
	if err == nil && r.newer() {
		err = r.rfc5424()
	} else if err == nil {
		err = r.rfc3164()
	}
	if err != nil && !c.BestEffort {
		return dst, fmt.Errorf("syslog: %w", err)
	}
	if r.rest != "" {
		if err := r.addText("message", r.rest); err != nil {
			return dst, fmt.Errorf("syslog: %w", err)
		}
	}
	return r.end(), nil
}

// Working returns the memory for structured data.
func (c *Syslog) Working(payload []byte) int { return pairsWorking(payload, '=') + 2*len(payload) }

// DecodeWithin is like Decode: the result is hardly longer than the input.
func (c *Syslog) DecodeWithin(dst, payload []byte, _ int) ([]byte, error) {
	return c.Decode(dst, payload)
}

// priority parses <34>. It may be missing, as in files.
func (r *syslogReader) priority() error {
	if !strings.HasPrefix(r.rest, "<") {
		return nil
	}
	text, rest, ok := strings.Cut(r.rest[1:], ">")
	n, err := strconv.ParseUint(text, 10, 8)
	if !ok || err != nil || n > 191 || len(text) > 3 {
		return fmt.Errorf("%.10q does not begin with a priority from <0> to <191>", r.rest)
	}
	r.rest = rest
	r.number("priority", n)
	if r.Names {
		r.word("facility", facilities[n/8])
		r.word("severity", severities[n%8])
		return nil
	}
	r.number("facility", n/8)
	r.number("severity", n%8)
	return nil
}

// number and word add values that are known to be valid.
func (r *syslogReader) number(key string, n uint64) { _ = r.addRaw(key, strconv.FormatUint(n, 10)) }

func (r *syslogReader) word(key, value string) { _ = r.addText(key, value) }

// newer reports whether a version follows: RFC 3164 has none.
func (r *syslogReader) newer() bool {
	if r.RFC != "" && r.RFC != "auto" {
		return r.RFC == rfc5424
	}
	version, rest, ok := strings.Cut(r.rest, " ")
	if !ok || version == "" || version[0] == '0' || len(version) > 3 || strings.Trim(version, "0123456789") != "" {
		return false
	}
	at, _, _ := strings.Cut(rest, " ")
	return r.fields > 0 || at == "-" || isInstant(at)
}

// isInstant reports whether s is a valid RFC 3339 time. The library also accepts a comma.
func isInstant(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil && !strings.Contains(s, ",")
}

// token returns the text before the next space.
func (r *syslogReader) token() string {
	token, rest, ok := strings.Cut(r.rest, " ")
	if !ok {
		rest = ""
	}
	r.rest = rest
	return token
}

func (r *syslogReader) rfc5424() error {
	version, _, _ := strings.Cut(r.rest, " ")
	n, err := strconv.ParseUint(version, 10, 16)
	if err != nil || n == 0 || n > 999 {
		return fmt.Errorf("%.10q is not a version of RFC 5424, such as 1", version)
	}
	r.token()
	r.number("version", n)
	at, _, _ := strings.Cut(r.rest, " ")
	if at != "-" {
		if !isInstant(at) {
			return fmt.Errorf("%.40q is not a valid RFC 3339 timestamp", at)
		}
		r.word("timestamp", at)
	}
	r.token()
	for _, name := range []string{"hostname", "appname", "procid", "msgid"} {
		if r.rest == "" {
			return fmt.Errorf("the message ends before its %s", name)
		}
		if value := r.token(); value != "-" {
			if err := r.addText(name, value); err != nil {
				return err
			}
		}
	}
	return r.structuredData()
}

var errStructured = errors.New(`the structured data is neither - nor such as [id name="value"]`)

// structuredData parses elements with parameters. A repeated parameter becomes a list.
func (r *syslogReader) structuredData() error {
	if rest, ok := strings.CutPrefix(r.rest, "-"); ok && (rest == "" || rest[0] == ' ') {
		r.text(rest)
		return nil
	}
	elements := object{dst: []byte{'{'}, start: 0}
	seen := map[string]bool{}
	rest := r.rest
	for strings.HasPrefix(rest, "[") {
		id, params, tail, err := structuredElement(rest)
		if err != nil {
			return err
		}
		if seen[id] {
			return fmt.Errorf("structured data has %.40q twice", id)
		}
		seen[id] = true
		if err := elements.addRaw(id, "{"); err != nil {
			return err
		}
		elements.fields = 0
		for _, p := range params.list {
			if err := p.add(&elements); err != nil {
				return err
			}
		}
		elements.dst = append(elements.dst, '}')
		elements.fields = 1
		rest = tail
	}
	if len(seen) == 0 || rest != "" && rest[0] != ' ' {
		return errStructured
	}
	if err := r.addRaw("structured_data", str(elements.end())); err != nil {
		return err
	}
	r.text(rest)
	return nil
}

// structuredElement parses the element at the beginning of s.
func structuredElement(s string) (id string, params formFields, rest string, err error) {
	end := strings.IndexAny(s, " ]")
	if end < 2 {
		return "", params, "", errStructured
	}
	id, rest = s[1:end], s[end:]
	for strings.HasPrefix(rest, " ") {
		name, value, ok := strings.Cut(rest[1:], `="`)
		if !ok || name == "" || strings.ContainsAny(name, ` ]"=`) {
			return "", params, "", errStructured
		}
		if value, rest, ok = cutUnescaped(value, '"'); !ok {
			return "", params, "", fmt.Errorf("the value of %.40q in structured data has no end", name)
		}
		params.put(name, structuredUnescape.Replace(value))
	}
	rest, ok := strings.CutPrefix(rest, "]")
	if !ok {
		return "", params, "", errStructured
	}
	return id, params, rest, nil
}

var structuredUnescape = strings.NewReplacer(`\"`, `"`, `\\`, `\`, `\]`, `]`)

// cutUnescaped returns the text before and after the next sign without a backslash before it. Without one, before is
// s.
func cutUnescaped(s string, sign byte) (before, behind string, found bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sign:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// text handles the text after the header and a space.
func (r *syslogReader) text(s string) {
	r.rest = strings.TrimPrefix(strings.TrimPrefix(s, " "), "\ufeff")
}

// Zone is a config field that holds a time zone.
type Zone struct{ *time.Location }

// UnmarshalConfig finds the zone.
func (z *Zone) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	name, ok := d.Text(n)
	if !ok {
		return
	}
	location, err := time.LoadLocation(name)
	if err != nil || name == "" {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: fmt.Sprintf("%q is not a known time zone", name),
			Remedy: "write one such as Europe/Zurich, UTC or Local"})
		return
	}
	z.Location = location
}

// DescribeConfig describes text.
func (z *Zone) DescribeConfig() *schema.Type { return schema.AnyOf("time zone", "") }

// in returns the zone, or UTC.
func (z Zone) in() *time.Location {
	if z.Location == nil {
		return time.UTC
	}
	return z.Location
}
