package frame

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// The kinds of component that a program can be.
const (
	Step   = "step"
	Input  = "input"
	Output = "output"
)

// Hello is the first frame that flowd sends.
type Hello struct {
	Kind      string
	Name      string // of the component
	Pipeline  string
	Instance  int
	Instances int
	Config    []byte // JSON; nil: none
	Position  []byte // JSON; nil: none
	MaxBody   int    // bytes
	Window    int    // messages
}

// Header returns the header.
func (h Hello) Header() []byte {
	header, err := json.Marshal(map[string]any{
		"type": "hello", "version": Version, "kind": h.Kind, "name": h.Name, "pipeline": h.Pipeline,
		"instance": h.Instance, "instances": h.Instances,
		"config": json.RawMessage(h.Config), "position": json.RawMessage(h.Position),
		"limits": map[string]int{"body": h.MaxBody, "window": h.Window},
	})
	if err != nil {
		panic(err) // both raw messages are valid JSON
	}
	return header
}

// Batch describes a batch for [AppendBatch].
type Batch struct {
	Number      uint64
	Timeout     time.Duration // 0: none
	DeadLetters bool          // why messages failed is part of the header
}

// AppendBatch appends the header of a batch of messages to dst. Metadata that JSON can't express is left out.
func AppendBatch(dst []byte, b Batch, messages []*engine.Message) []byte {
	dst = append(dst, `{"type":"batch","batch":`...)
	dst = strconv.AppendUint(dst, b.Number, 10)
	var hasMeta, hasAttempts, hasErrors bool
	dst = append(dst, `,"sizes":[`...)
	for i, m := range messages {
		dst = comma(dst, i)
		dst = strconv.AppendInt(dst, int64(m.Size()), 10)
		hasMeta = hasMeta || m.Meta.Len() > 0
		hasAttempts = hasAttempts || m.Attempt > 0
		hasErrors = hasErrors || b.DeadLetters && m.Err() != nil
	}
	if hasMeta {
		dst = append(dst, `],"meta":[`...)
		for i, m := range messages {
			dst = appendMeta(comma(dst, i), m.Meta)
		}
	}
	if hasAttempts {
		dst = append(dst, `],"attempts":[`...)
		for i, m := range messages {
			dst = strconv.AppendInt(comma(dst, i), int64(m.Attempt), 10)
		}
	}
	if hasErrors {
		dst = append(dst, `],"errors":[`...)
		for i, m := range messages {
			dst = appendError(comma(dst, i), m.Err())
		}
	}
	dst = append(dst, ']')
	if key := messages[0].BatchKey(); key != "" {
		dst = append(dst, `,"key":`...)
		dst = append(dst, key...)
	}
	if b.Timeout > 0 {
		dst = append(dst, `,"timeout":`...)
		dst = doc.AppendFloat(dst, b.Timeout.Seconds())
	}
	return append(dst, '}')
}

func comma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

func appendMeta(dst []byte, m engine.Meta) []byte {
	dst = append(dst, '{')
	n := 0
	for name, v := range m.All() {
		start := len(dst)
		dst = doc.AppendString(comma(dst, n), name)
		value, err := doc.Append(append(dst, ':'), v)
		if err != nil {
			dst = dst[:start]
			continue
		}
		dst = value
		n++
	}
	return append(dst, '}')
}

func appendError(dst []byte, e *engine.Error) []byte {
	if e == nil {
		return append(dst, "null"...)
	}
	dst = doc.AppendString(append(dst, `{"text":`...), e.Error())
	dst = doc.AppendString(append(dst, `,"class":`...), string(e.Class))
	for _, place := range [...]struct{ name, value string }{{"step", e.Step}, {"output", e.Output}} {
		if place.value != "" {
			dst = append(append(append(dst, `,"`...), place.name...), `":`...)
			dst = doc.AppendString(dst, place.value)
		}
	}
	if e.Delay > 0 {
		dst = doc.AppendFloat(append(dst, `,"after":`...), e.Delay.Seconds())
	}
	return append(dst, '}')
}

// Cancel returns the header that cancels messages of a batch; no indices: all of them.
func Cancel(batch uint64, indices []int) []byte {
	dst := strconv.AppendUint([]byte(`{"type":"cancel","batch":`), batch, 10)
	if len(indices) > 0 {
		dst = append(dst, `,"indices":[`...)
		for i, n := range indices {
			dst = strconv.AppendInt(comma(dst, i), int64(n), 10)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// Credit returns the header that allows an input to send n further messages.
func Credit(n int) []byte {
	return append(strconv.AppendInt([]byte(`{"type":"credit","messages":`), int64(n), 10), '}')
}

// Drain returns the header that asks a program to finish its work within a time.
func Drain(within time.Duration) []byte {
	return append(doc.AppendFloat([]byte(`{"type":"drain","timeout":`), within.Seconds()), '}')
}

// AppendFates appends the header with the results of messages to dst. first is the Ref of the program's first message, which
// has the number 1.
func AppendFates(dst []byte, first uint64, results []engine.Result) []byte {
	dst = append(dst, `{"type":"fates","numbers":[`...)
	failed := false
	for i, r := range results {
		dst = strconv.AppendUint(comma(dst, i), r.Ref-first+1, 10)
		failed = failed || r.Err != nil || r.Delay > 0
	}
	dst = append(dst, `],"fates":[`...)
	for i, r := range results {
		dst = doc.AppendString(comma(dst, i), r.Fate.String())
	}
	if failed {
		dst = append(dst, `],"errors":[`...)
		for i, r := range results {
			e := r.Err
			if r.Delay > 0 {
				e = engine.Errorf(engine.Transient, "returned")
				if r.Err != nil {
					c := *r.Err
					e = &c
				}
				e.Delay = r.Delay
			}
			dst = appendError(comma(dst, i), e)
		}
	}
	return append(dst, ']', '}')
}
