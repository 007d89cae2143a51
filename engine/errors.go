package engine

import "time"

// stepError adds to an error what the engine knows of it.
func stepError(e *Error, o *op) {
	if e.Step == "" {
		e.Step = o.name
	}
	if o.in != nil {
		e.Mask(o.in.secrets)
	}
	complete(e, Permanent)
}

func complete(e *Error, fallback Class) {
	if e.Class == "" {
		e.Class = fallback
	}
	if e.Attempt == 0 {
		e.Attempt = 1
	}
	if e.FirstFailed.IsZero() {
		e.FirstFailed = time.Now()
	}
}

func (m *Message) failAt(step string, err error) {
	m.Fail(err)
	stepError(m.in.Err, &op{name: step})
}
