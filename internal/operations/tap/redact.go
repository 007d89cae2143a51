package tap

import (
	"regexp"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/operations/difference"
	"github.com/flowd-io/flowd/internal/operations/observe"
	"github.com/flowd-io/flowd/schema"
)

// Redactor hides secrets in records: values of fields with the names of secrets, and text with the shapes of secrets.
type Redactor struct {
	names   []string // more names of fields, in lower case
	paths   map[string]bool
	secrets *schema.Secrets // of the configuration
}

// NewRedactor returns a redactor that also hides the secrets of the configuration, and these fields: by a name, wherever it
// is, or by a path with a dot in it.
func NewRedactor(fields []string, secrets *schema.Secrets) *Redactor {
	r := &Redactor{paths: map[string]bool{}, secrets: secrets}
	for _, f := range fields {
		if strings.ContainsAny(f, ".[") {
			r.paths[f] = true
		} else {
			r.names = append(r.names, strings.ToLower(f))
		}
	}
	return r
}

// Hidden stands in place of what is hidden.
const Hidden = "[redacted]"

// secretNames are parts of the names of fields whose values are secrets.
var secretNames = []string{"password", "passwd", "passphrase", "secret", "token", "api_key", "apikey", "api-key", "authorization",
	"credential", "private_key", "privatekey", "cookie", "session_id", "sessionid", "card_number", "cardnumber", "cvv", "cvc",
	"iban", "ssn"}

// shapes are the shapes of secrets in text: JSON web tokens, keys of AWS, GitHub, Slack, Stripe and Google, PEM keys, the
// credentials of an Authorization header, and passwords in URLs. Cards are checked separately.
var shapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.Join([]string{
		`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
		`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`,
		`\bgh[pousr]_[A-Za-z0-9]{30,}`,
		`\bxox[abeprs]-[A-Za-z0-9-]{10,}`,
		`\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}`,
		`\bAIza[A-Za-z0-9_-]{30,}`,
		`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`,
		`(?i)\b(?:bearer|basic) [A-Za-z0-9+/_.=~-]{8,}`,
	}, "|"))
})

// userinfo is a password in a URL.
var userinfo = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(://[^/\s:@"]*:)[^/\s@"]+(@)`) })

// cards are digits that may be the number of a payment card.
var cards = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b\d(?:[ -]?\d){12,18}\b`) })

// Record hides secrets in a record.
func (r *Redactor) Record(rec *observe.Record) {
	rec.Payload = r.payload(rec.Payload)
	for name, v := range rec.Meta {
		if r.secret(name, name) {
			rec.Meta[name] = Hidden
		} else {
			rec.Meta[name] = r.value("", v)
		}
	}
	for i := range rec.Changes {
		c := &rec.Changes[i]
		c.From, c.To = r.field(c.Path, c.From), r.field(c.Path, c.To)
	}
	if rec.Condition != nil {
		c := *rec.Condition
		c.Text = r.text(c.Text)
		c.Values = r.settings(c.Values)
		rec.Condition = &c
	}
	rec.To = r.settings(rec.To)
	if rec.Batch != nil {
		b := *rec.Batch
		b.Key = r.text(b.Key)
		rec.Batch = &b
	}
	rec.Error = r.Failure(rec.Error)
}

// Failure returns a copy of a failure, in whose text secrets are hidden; nil for nil.
func (r *Redactor) Failure(f *observe.Failure) *observe.Failure {
	if f == nil {
		return nil
	}
	return &observe.Failure{Class: f.Class, Message: r.text(f.Message)}
}

func (r *Redactor) settings(all []observe.Setting) (hidden []observe.Setting) {
	for _, s := range all {
		s.Value, s.Error = r.field(s.Name, s.Value), r.text(s.Error)
		hidden = append(hidden, s)
	}
	return hidden
}

// field hides a value, which is JSON, at a path.
func (r *Redactor) field(path, json string) string {
	if json == "" {
		return ""
	}
	name := path
	if i := strings.LastIndexAny(path, ".["); i >= 0 {
		name = path[i+1:]
	}
	if r.secret(name, path) {
		return difference.Show(Hidden)
	}
	v, err := doc.Decode([]byte(json))
	if err != nil {
		return r.text(json)
	}
	return difference.Show(r.value(path, v))
}

// payload hides secrets in a payload. A document is written anew only if something in it is hidden.
func (r *Redactor) payload(p observe.Payload) observe.Payload {
	v, err := doc.Decode(p)
	if err != nil {
		return observe.Payload(r.text(string(p)))
	}
	hidden := false
	v = r.hide("", v, &hidden)
	if !hidden {
		return p
	}
	return observe.Payload(difference.Show(v))
}

// value returns a value in which secrets are hidden.
func (r *Redactor) value(path string, v any) any {
	var hidden bool
	return r.hide(path, v, &hidden)
}

func (r *Redactor) hide(path string, v any, hidden *bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			at := strings.TrimPrefix(path+"."+key, ".")
			if r.secret(key, at) {
				v[key], *hidden = Hidden, true
			} else {
				v[key] = r.hide(at, item, hidden)
			}
		}
	case []any:
		for i := range v {
			v[i] = r.hide(path, v[i], hidden)
		}
	case string:
		if text := r.text(v); text != v {
			*hidden = true
			return text
		}
	case int, float64, doc.Number:
		if text := difference.Show(v); r.text(text) != text {
			*hidden = true
			return Hidden
		}
	}
	return v
}

// secret reports whether the value of a field is hidden.
func (r *Redactor) secret(name, path string) bool {
	name = strings.ToLower(strings.Trim(name, `"]()`))
	for _, part := range secretNames {
		if strings.Contains(name, part) {
			return true
		}
	}
	for _, own := range r.names {
		if name == own {
			return true
		}
	}
	return r.paths[path]
}

// text hides what has the shape of a secret.
func (r *Redactor) text(s string) string {
	s = shapes().ReplaceAllString(r.secrets.Mask(s), Hidden)
	s = userinfo().ReplaceAllString(s, "${1}"+Hidden+"${2}")
	return cards().ReplaceAllStringFunc(s, func(digits string) string {
		if luhn(digits) {
			return Hidden
		}
		return digits
	})
}

// luhn reports whether digits have the check digit of a payment card (ISO/IEC 7812).
func luhn(text string) bool {
	sum, n := 0, 0
	for i := len(text) - 1; i >= 0; i-- {
		d := int(text[i] - '0')
		if d < 0 || d > 9 {
			continue
		}
		if n++; n%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
