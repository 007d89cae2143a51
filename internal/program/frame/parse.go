package frame

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// Sent is a frame that a program has sent.
type Sent struct {
	Type string // such as "results"
	Body []byte

	header doc.Doc
	at     int // how much of Body has been used
}

// ParseSent parses the header of a frame. A header that is not a JSON object with a type is an error.
func ParseSent(f Frame) (*Sent, error) {
	s := &Sent{Body: f.Body}
	s.header.Reset(f.Header, nil)
	if err := s.header.Object(); err != nil {
		return nil, fmt.Errorf("the header is not valid: %w", err)
	}
	var ok bool
	if v, _ := s.header.Get(field("type")); v != nil {
		s.Type, ok = v.(string)
	}
	if !ok || s.Type == "" {
		return nil, errors.New("the header has no type")
	}
	return s, nil
}

func field(name string) doc.Path { return doc.Path{}.Append(name) }

var (
	pathBatch     = field("batch")
	pathFirst     = field("first")
	pathResults   = field("results")
	pathSizes     = field("sizes")
	pathMeta      = field("meta")
	pathPositions = field("positions")
)

// into fills a struct with the fields of the header.
func (s *Sent) into(v any) error {
	if err := json.Unmarshal(s.header.Bytes(), v); err != nil {
		return fmt.Errorf("a %q frame is not valid: %w", s.Type, withoutGo(err))
	}
	return nil
}

// withoutGo rewrites an error of encoding/json in the words of the protocol.
func withoutGo(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%q can't be a %s", strings.ToLower(e.Field), e.Value)
	}
	return err
}

// take uses n bytes of the body.
func (s *Sent) take(n int) ([]byte, error) {
	if n < 0 || n > len(s.Body)-s.at {
		return nil, fmt.Errorf("the sizes of a %q frame say more than the %d bytes of its body", s.Type, len(s.Body))
	}
	p := s.Body[s.at : s.at+n : s.at+n]
	s.at += n
	return p, nil
}

// used returns an error if a part of the body has not been used.
func (s *Sent) used() error {
	if left := len(s.Body) - s.at; left > 0 {
		return fmt.Errorf("the body of a %q frame has %d bytes more than its sizes say", s.Type, left)
	}
	return nil
}

// Outcome is what a program did with a message.
type Outcome uint8

// The outcomes.
const (
	Unchanged Outcome = iota
	Changed
	Dropped
	Split
	Failed
)

// Result is the result of one message.
type Result struct {
	Outcome    Outcome
	NewPayload bool
	Payload    []byte   // if NewPayload
	Parts      [][]byte // of Split
	Meta       []Change // of Changed and Split
	Err        *engine.Error
}

// Change sets a value of metadata. nil removes it.
type Change struct {
	Name  string
	Value any
}

// Results returns the results of a frame: those of the messages of a batch from an index on.
func (s *Sent) Results() (batch uint64, first int, results []Result, err error) {
	n, err := s.integer(pathBatch)
	if err == nil {
		batch = uint64(n)
		first, err = s.integer(pathFirst)
	}
	if err != nil {
		return 0, 0, nil, err
	}
	for raw, err := range s.header.Each(pathResults) {
		if err != nil {
			return 0, 0, nil, errors.New("the results of a \"results\" frame are not a list")
		}
		if len(results) == MaxMessages {
			return 0, 0, nil, fmt.Errorf("a %q frame has more than %d results", s.Type, MaxMessages)
		}
		r, err := s.result(raw)
		if err != nil {
			return 0, 0, nil, err
		}
		results = append(results, r)
	}
	return batch, first, results, s.used()
}

// integer returns a number that is not negative; 0 if it is missing.
func (s *Sent) integer(p doc.Path) (int, error) {
	raw, is, _ := s.header.Raw(p)
	if !is {
		return 0, nil
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s of a %q frame is not a valid number: %s", p, s.Type, short(raw))
	}
	return n, nil
}

func short(raw []byte) string {
	const most = 60
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// result parses one result.
func (s *Sent) result(raw []byte) (r Result, err error) {
	switch doc.Kind(raw) {
	case doc.Null:
		return r, nil
	case doc.Numeric:
		n, err := strconv.Atoi(string(raw))
		if err != nil {
			return r, fmt.Errorf("%s is not a valid size", short(raw))
		}
		r.Outcome, r.NewPayload = Changed, true
		r.Payload, err = s.take(n)
		return r, err
	case doc.Object:
		return s.longResult(raw)
	}
	return r, fmt.Errorf("%s is not a valid result (it is null, a size or an object)", short(raw))
}

func (s *Sent) longResult(raw []byte) (r Result, err error) {
	var x struct {
		Size  *int
		Meta  json.RawMessage
		Drop  bool
		Parts *[]int
		Error *failure
	}
	if err := json.Unmarshal(raw, &x); err != nil {
		return r, fmt.Errorf("the result %s is not valid: %w", short(raw), withoutGo(err))
	}
	switch {
	case x.Error != nil:
		r.Outcome, r.Err = Failed, x.Error.err("") // the engine adds the default of the component
		return r, nil
	case x.Drop:
		r.Outcome = Dropped
		return r, nil
	case x.Parts != nil:
		r.Outcome = Split
		for _, n := range *x.Parts {
			part, err := s.take(n)
			if err != nil {
				return r, err
			}
			r.Parts = append(r.Parts, part)
		}
	default:
		r.Outcome = Changed
		if x.Size != nil {
			r.NewPayload = true
			if r.Payload, err = s.take(*x.Size); err != nil {
				return r, err
			}
		}
	}
	if x.Meta != nil {
		r.Meta, err = changes(x.Meta)
	}
	return r, err
}

// changes parses metadata.
func changes(raw []byte) ([]Change, error) {
	v, err := doc.DecodeRaw(raw)
	if err != nil {
		return nil, fmt.Errorf("metadata is not valid: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("metadata is not an object: %s", short(raw))
	}
	all := make([]Change, 0, len(m))
	for name, v := range m {
		all = append(all, Change{name, v})
	}
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// failure is an error in a frame.
type failure struct {
	Text    string
	Class   string
	After   float64 // seconds
	Detail  string
	Setting string // field of the configuration
}

// Bounds of an error.
const (
	maxText   = 4 << 10
	maxDetail = 8 << 10
)

// MaxDelay is the longest time that an error may ask for before a retry, and that a message may be returned for.
const MaxDelay = 24 * time.Hour

// classes are the classes that a program may use.
var classes = []engine.Class{engine.Permanent, engine.Transient, engine.Rejected, engine.Decode, engine.Timeout, engine.Auth}

// IsClass reports whether a program may use a class of errors.
func IsClass(name string) bool { return slices.Contains(classes, engine.Class(name)) }

// err returns the error. fallback is its class if the program gives none, or one that does not exist.
func (f *failure) err(fallback engine.Class) *engine.Error {
	text := strings.ToValidUTF8(f.Text[:min(len(f.Text), maxText)], "")
	if text == "" {
		text = "the program gives no reason"
	}
	e := &engine.Error{Class: fallback, Err: errors.New(text), Detail: bothEnds(f.Detail)}
	switch c := engine.Class(f.Class); {
	case slices.Contains(classes, c):
		e.Class = c
	case c != "":
		e.Err = fmt.Errorf("%s (its class %q does not exist)", text, short([]byte(c)))
	}
	if f.After > 0 {
		e.Delay = time.Duration(min(f.After, MaxDelay.Seconds()) * float64(time.Second))
	}
	return e
}

// bothEnds shortens a traceback. In some languages it begins with the place of the error, in others it ends there.
func bothEnds(text string) string {
	if len(text) <= maxDetail {
		return strings.ToValidUTF8(text, "")
	}
	const half = maxDetail / 2
	return strings.ToValidUTF8(text[:half], "") + "\n…\n" + strings.ToValidUTF8(text[len(text)-half:], "")
}

// Ready is the answer to hello.
type Ready struct {
	Version int
	Error   *engine.Error
	Setting string // the field of the configuration that is wrong; "": unknown
}

// Ready returns the content of a "ready" frame.
func (s *Sent) Ready() (r Ready, err error) {
	var x struct {
		Version int
		Error   *failure
	}
	if err := s.into(&x); err != nil {
		return r, err
	}
	if r.Version = x.Version; x.Error != nil {
		r.Error, r.Setting = x.Error.err(engine.Permanent), x.Error.Setting
	}
	return r, nil
}

// Failure returns the error of an "error" frame.
func (s *Sent) Failure() (*engine.Error, error) {
	var x struct{ Error failure }
	if err := s.into(&x); err != nil {
		return nil, err
	}
	return x.Error.err(engine.Transient), nil
}

// maxLogFields is the largest header of a "log" frame whose fields are logged, in bytes.
const maxLogFields = 16 << 10

// Log returns the content of a "log" frame. Fields that are too large are left out.
func (s *Sent) Log() (level, text string, fields map[string]any, err error) {
	var x struct {
		Level, Text string
		Fields      map[string]any
	}
	if err = s.into(&x); len(s.header.Bytes()) > maxLogFields {
		x.Fields = nil
	}
	return x.Level, x.Text, x.Fields, err
}

// Metric is the content of a "metric" frame.
type Metric struct {
	Name, Kind string
	Value      float64
	Labels     map[string]string
}

// Metric returns the content of a "metric" frame.
func (s *Sent) Metric() (m Metric, err error) {
	if err = s.into(&m); err == nil && (math.IsNaN(m.Value) || math.IsInf(m.Value, 0)) {
		err = errors.New("the value of a metric is not a number")
	}
	return m, err
}

// State returns the content of a "state" frame.
func (s *Sent) State() (ready bool, reason string, err error) {
	var x struct {
		Ready  bool
		Reason string
	}
	err = s.into(&x)
	return x.Ready, x.Reason[:min(len(x.Reason), maxText)], err
}

// Incoming is a message of an input.
type Incoming struct {
	Payload  []byte
	Meta     engine.Meta
	Position []byte // JSON; nil: none
}

// maxPosition is the largest position in bytes.
const maxPosition = 64 << 10

// Messages returns the messages of a "messages" frame.
func (s *Sent) Messages() ([]Incoming, error) {
	var all []Incoming
	for raw, err := range s.header.Each(pathSizes) {
		if err != nil {
			return nil, errors.New("the sizes of a \"messages\" frame are not a list")
		}
		if len(all) == MaxMessages {
			return nil, fmt.Errorf("a %q frame has more than %d messages", s.Type, MaxMessages)
		}
		n, err := strconv.Atoi(string(raw))
		if err != nil {
			return nil, fmt.Errorf("%s is not a valid size", short(raw))
		}
		payload, err := s.take(n)
		if err != nil {
			return nil, err
		}
		all = append(all, Incoming{Payload: payload})
	}
	err := s.column(pathMeta, all, func(m *Incoming, raw []byte) error {
		fields, err := changes(raw)
		if err != nil {
			return err
		}
		names, values := make([]string, len(fields)), make([]any, len(fields))
		for i, f := range fields {
			names[i], values[i] = f.Name, f.Value
		}
		m.Meta = engine.MetaOf(names, values, 0)
		return nil
	})
	if err == nil {
		err = s.column(pathPositions, all, func(m *Incoming, raw []byte) error {
			if len(raw) > maxPosition {
				return fmt.Errorf("a position has %d bytes, which is more than %d", len(raw), maxPosition)
			}
			m.Position = raw
			return nil
		})
	}
	if err == nil {
		err = s.used()
	}
	return all, err
}

// column calls set for each message whose value in a column is not null.
func (s *Sent) column(p doc.Path, all []Incoming, set func(m *Incoming, raw []byte) error) error {
	i := 0
	for raw, err := range s.header.Each(p) {
		if err != nil || i == len(all) {
			return fmt.Errorf("%s of a %q frame does not have as many elements as sizes", p, s.Type)
		}
		if doc.Kind(raw) != doc.Null {
			if err := set(&all[i], raw); err != nil {
				return err
			}
		}
		i++
	}
	if i > 0 && i < len(all) {
		return fmt.Errorf("%s of a %q frame does not have as many elements as sizes", p, s.Type)
	}
	return nil
}
