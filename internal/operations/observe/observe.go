// Package observe turns what an engine.Observer sees into records, for people and programs: what changed, which condition
// decided, where an output sends. `flowd try` and `flowd tap` show them. Start at [Before] and [After].
package observe

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/difference"
)

// Record is what became of one message at one spot.
type Record struct {
	Pipeline  string          `json:"pipeline,omitempty"`
	Message   string          `json:"message,omitempty"` // its input and its number there, such as "web 17"
	At        time.Time       `json:"at,omitzero"`
	Kind      engine.SpotKind `json:"kind"`
	Name      string          `json:"name"`
	Of        string          `json:"of,omitempty"` // of a step: the component that it belongs to
	Type      string          `json:"type,omitempty"`
	Place     string          `json:"place,omitempty"` // file:line
	Passage   engine.Passage  `json:"passage"`
	Condition *Condition      `json:"condition,omitempty"`
	Changes   []Change        `json:"changes,omitempty"`
	To        []Setting       `json:"to,omitempty"` // where an output sends the message, and as what
	Batch     *Batch          `json:"batch,omitempty"`
	Error     *Failure        `json:"error,omitempty"`
	Part      int             `json:"part,omitempty"`       // of a message that was split, from 1
	NotCalled bool            `json:"not_called,omitempty"` // a trial did not let the step call another system
	Took      time.Duration   `json:"took_ns,omitempty"`
	Payload   Payload         `json:"payload"` // after the spot
	Meta      map[string]any  `json:"meta,omitempty"`
}

// Condition is what decided about the message: a filter, a `when`, or the condition of a case.
type Condition struct {
	Text   string    `json:"text"`
	Values []Setting `json:"values,omitempty"` // of the fields that it reads
}

// Change is a changed field, or the whole payload if it is not a document.
type Change struct {
	Path string `json:"path"` // as in expressions; meta("NAME") for metadata; "" is the whole payload
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Setting is a name with a value as JSON.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	Error string `json:"error,omitempty"` // why there is no value

	err error
}

// Batch is the batch that a batcher has closed.
type Batch struct {
	Trigger engine.Trigger `json:"trigger"`
	Size    int            `json:"size"` // messages
	Key     string         `json:"key,omitempty"`
}

// Failure says why a message failed.
type Failure struct {
	Class   engine.Class `json:"class"`
	Message string       `json:"message"`
}

// Payload is a payload. As JSON it is {"json": …}, {"text": …} or {"base64": …}, as in the tests of pipeline files.
type Payload []byte

// MarshalJSON returns the payload as what it is.
func (p Payload) MarshalJSON() ([]byte, error) {
	if _, err := doc.Decode(p); err == nil {
		return json.Marshal(map[string]json.RawMessage{"json": json.RawMessage(p)})
	}
	if utf8.Valid(p) {
		return json.Marshal(map[string]string{"text": string(p)})
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString(p)})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (p *Payload) UnmarshalJSON(b []byte) error {
	var forms struct {
		JSON   json.RawMessage
		Text   *string
		Base64 []byte
	}
	if err := json.Unmarshal(b, &forms); err != nil {
		return err
	}
	switch {
	case forms.JSON != nil:
		*p = Payload(forms.JSON)
	case forms.Text != nil:
		*p = Payload(*forms.Text)
	default:
		*p = Payload(forms.Base64)
	}
	return nil
}

// Snapshot is a message as a step or an output got it.
type Snapshot struct {
	payload []byte
	meta    map[string]any
}

// Before copies a message, for After.
func Before(m *engine.Message) *Snapshot {
	return &Snapshot{append([]byte(nil), m.Bytes()...), m.Meta.Map()}
}

// After returns the record of a message that has passed a spot. before may be nil. The record shares nothing with the
// message.
func After(at *engine.Spot, before *Snapshot, b *engine.Batch, m *engine.Message, how engine.Passage) Record {
	now := Before(m)
	r := Record{Kind: at.Kind, Name: at.Name, Of: at.Of, Type: at.Type, Passage: how, Part: m.Part(), Payload: now.payload,
		Meta: now.meta, Condition: conditionOf(at, m, how)}
	if at.Place.Pos.Line > 0 {
		r.Place = at.Place.Pos.File + ":" + strconv.Itoa(at.Place.Pos.Line)
	}
	if how == engine.FailedThere {
		e := m.Err()
		r.Error = &Failure{e.Class, e.Error()}
	}
	switch {
	case before == nil || how == engine.SplitUp || how == engine.MergedInto:
	case at.Kind == engine.StepSpot:
		r.Changes = changes(before, now)
	case at.Kind == engine.OutputSpot:
		r.To = settings(at.Config, m)
	}
	if how == engine.BatchedThere {
		r.Batch = &Batch{b.Trigger(), b.Len(), m.BatchKey()}
	}
	return r
}

// conditionOf returns the condition that decided, with the values that it has read.
func conditionOf(at *engine.Spot, m *engine.Message, how engine.Passage) *Condition {
	cond := at.When
	if own, ok := at.Config.(expr.Cond); ok && at.Kind == engine.StepSpot && how != engine.SkippedStep {
		cond = &own
	} else if cond == nil || how != engine.SkippedStep && at.Kind != engine.CaseSpot {
		return nil
	}
	c := &Condition{Text: cond.String()}
	for _, path := range cond.Reads() {
		c.Values = append(c.Values, setting(path.String(), func() (any, error) { return m.Get(path) }))
	}
	return c
}

// setting evaluates a value.
func setting(name string, value func() (any, error)) Setting {
	v, err := value()
	if err != nil {
		return Setting{Name: name, Error: err.Error(), err: err}
	}
	return Setting{Name: name, Value: difference.Show(v)}
}

// changes compares a message with what it was.
func changes(before, now *Snapshot) (all []Change) {
	was, err := doc.Decode(before.payload)
	is, also := doc.Decode(now.payload)
	if err == nil && also == nil {
		for _, c := range difference.Of("", was, is) {
			all = append(all, Change{c.Path, c.Old, c.New})
		}
	} else if string(before.payload) != string(now.payload) {
		all = append(all, Change{"", string(before.payload), string(now.payload)})
	}
	for _, c := range difference.Of("", plain(before.meta), plain(now.meta)) {
		all = append(all, Change{"meta(" + strconv.Quote(c.Path) + ")", c.Old, c.New})
	}
	return all
}

// plain converts metadata to values of JSON.
func plain(meta map[string]any) map[string]any {
	all := map[string]any{}
	for name, v := range meta {
		text, err := doc.Append(nil, v)
		if err != nil {
			continue
		}
		if all[name], err = doc.Decode(text); err != nil {
			all[name] = string(text)
		}
	}
	return all
}

// Refuses returns the error with which an output would fail a message before it calls its system: a template or an
// expression of its configuration has no value for it.
func Refuses(config any, m *engine.Message) error {
	for _, s := range settings(config, m) {
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

// settings evaluates the templates and expressions in the configuration of an output: its topic, its key, its body.
func settings(config any, m *engine.Message) []Setting {
	v := reflect.ValueOf(config)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return nil
	}
	var all []Setting
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		value := v.Field(i).Interface()
		if options == "inline" {
			all = append(all, settings(value, m)...)
			continue
		}
		switch x := value.(type) {
		case expr.Template:
			if !x.IsZero() {
				all = append(all, setting(name, func() (any, error) { return x.Text(m) }))
			}
		case expr.Body:
			if !x.IsZero() {
				all = append(all, setting(name, func() (any, error) { return x.Eval(m) }))
			}
		case expr.Expr:
			if !x.IsZero() {
				all = append(all, setting(name, func() (any, error) { return x.Eval(m) }))
			}
		}
	}
	return all
}
