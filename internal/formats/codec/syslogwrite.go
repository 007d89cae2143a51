package codec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
)

// syslogFields are the text fields of a header, with their maximum lengths in RFC 5424.
var syslogFields = [...]struct {
	name string
	most int
}{{"hostname", 255}, {"appname", 48}, {"procid", 128}, {"msgid", 32}}

// syslogHeader is the header to write.
type syslogHeader struct {
	priority, facility, severity int // -1: not set
	at                           time.Time
	fields                       [len(syslogFields)]string
	data                         []byte // JSON, or empty
	message                      string
}

// Encode writes an object in the form of Decode. Without a priority, it is computed from facility and severity, which
// default to user and notice.
func (c *Syslog) Encode(dst, json []byte) ([]byte, error) {
	h, err := c.header(json)
	if err != nil {
		return dst, fmt.Errorf("syslog: %w", err)
	}
	start := len(dst)
	dst = append(dst, '<')
	dst = strconv.AppendInt(dst, int64(h.priority), 10)
	dst = append(dst, '>')
	if c.RFC == rfc3164 {
		dst, err = h.append3164(dst, c.Zone)
	} else {
		dst, err = h.append5424(dst)
	}
	if err != nil {
		return dst[:start], fmt.Errorf("syslog: %w", err)
	}
	return dst, nil
}

func (c *Syslog) header(json []byte) (*syslogHeader, error) {
	if json[0] != '{' {
		return nil, fmt.Errorf("%s is not an object", kind(json))
	}
	h := &syslogHeader{priority: -1, facility: -1, severity: -1}
	for key, value := range doc.Members(json) {
		if string(value) == "null" {
			continue
		}
		if err := h.set(key, value); err != nil {
			return nil, Under(key, err)
		}
	}
	if h.priority < 0 {
		if h.facility < 0 {
			h.facility = 1
		}
		if h.severity < 0 {
			h.severity = 5
		}
		h.priority = 8*h.facility + h.severity
	}
	return h, nil
}

func (h *syslogHeader) set(key string, value []byte) (err error) {
	i := slices.IndexFunc(syslogFields[:], func(f struct {
		name string
		most int
	}) bool {
		return f.name == key
	})
	switch {
	case i >= 0:
		h.fields[i] = text(value)
		return printable(h.fields[i], syslogFields[i].most)
	case key == "message":
		h.message = text(value)
	case key == "version": // ignored: it is always 1
	case key == "priority":
		h.priority, err = code(value, 191, nil)
	case key == "facility":
		h.facility, err = code(value, len(facilities)-1, facilities[:])
	case key == "severity":
		h.severity, err = code(value, len(severities)-1, severities[:])
	case key == "timestamp":
		if h.at, err = time.Parse(time.RFC3339, text(value)); err != nil {
			err = errors.New("is not an RFC 3339 time")
		}
	case key == "structured_data" && value[0] == '{':
		h.data = value
	case key == "structured_data":
		err = fmt.Errorf("%s is not an object", kind(value))
	default:
		err = errors.New("is not a field of syslog (move it into message or structured_data, or drop it with `keep`)")
	}
	return err
}

// code returns a number up to most, or the number of a name.
func code(value []byte, most int, names []string) (int, error) {
	if value[0] == '"' {
		if i := slices.Index(names, text(value)); i >= 0 {
			return i, nil
		}
	}
	n, err := Int(value)
	if err != nil || n < 0 || n > int64(most) {
		return 0, fmt.Errorf("%.40s is not a number from 0 to %d, or a name of one", value, most)
	}
	return int(n), nil
}

// printable rejects text that would end a field of the header.
func printable(s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("is longer than %d bytes", most)
	}
	if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("is empty, or contains spaces or characters beyond ASCII")
	}
	return nil
}

func (h *syslogHeader) append5424(dst []byte) ([]byte, error) {
	dst = append(dst, "1 "...)
	if h.at.IsZero() {
		dst = append(dst, '-')
	} else {
		dst = h.at.AppendFormat(dst, "2006-01-02T15:04:05.999999Z07:00") // more digits are not allowed
	}
	for _, value := range h.fields {
		if value == "" {
			value = "-"
		}
		dst = append(append(dst, ' '), value...)
	}
	dst, err := appendStructured(append(dst, ' '), h.data)
	if err == nil && h.message != "" {
		dst = append(append(dst, ' '), h.message...)
	}
	return dst, err
}

var structuredEscape = strings.NewReplacer(`"`, `\"`, `\`, `\\`, `]`, `\]`)

func appendStructured(dst, data []byte) ([]byte, error) {
	start := len(dst)
	if data == nil {
		data = []byte("{}")
	}
	for id, params := range doc.Members(data) {
		switch err := structuredName(id); {
		case err != nil:
			return dst, Under("structured_data", err)
		case params[0] != '{':
			return dst, Under("structured_data", Under(id, fmt.Errorf("%s is not an object", kind(params))))
		}
		dst = append(append(dst, '['), id...)
		for name, value := range doc.Members(params) {
			if err := structuredName(name); err != nil {
				return dst, Under("structured_data", err)
			}
			if value[0] != '[' {
				dst = appendParam(dst, name, value)
				continue
			}
			for item := range doc.Elements(value) {
				dst = appendParam(dst, name, item)
			}
		}
		dst = append(dst, ']')
	}
	if len(dst) == start {
		dst = append(dst, '-')
	}
	return dst, nil
}

func appendParam(dst []byte, name string, value []byte) []byte {
	dst = append(append(dst, ' '), name...)
	dst = append(dst, `="`...)
	dst = append(dst, structuredEscape.Replace(Cell(value))...)
	return append(dst, '"')
}

func structuredName(s string) error {
	if printable(s, 32) != nil || strings.ContainsAny(s, `="]`) {
		return fmt.Errorf("%q can't be a name there: it is of up to 32 characters of ASCII, without spaces and =\"]", Clip(s))
	}
	return nil
}

func (h *syslogHeader) append3164(dst []byte, zone Zone) ([]byte, error) {
	if h.at.IsZero() {
		return dst, errors.New("timestamp is missing, and RFC 3164 requires it (set it to now())")
	}
	host, app, pid := h.fields[0], h.fields[1], h.fields[2]
	if host == "" {
		host = "-"
	}
	if strings.HasSuffix(host, ":") || strings.Contains(host, "[") || strings.ContainsAny(app, ":[") ||
		strings.ContainsAny(pid, "[]") {
		return dst, errors.New("hostname, appname or procid has a : or a bracket, which RFC 3164 separates them by")
	}
	dst = h.at.In(zone.in()).AppendFormat(dst, time.Stamp)
	dst = append(append(dst, ' '), host...)
	dst = append(dst, ' ')
	if app != "" {
		dst = append(dst, app...)
		if pid != "" {
			dst = append(append(append(dst, '['), pid...), ']')
		}
		dst = append(dst, ": "...)
	}
	return append(dst, h.message...), nil
}
