package steps

import (
	"time"

	"github.com/flowd-io/flowd/engine"
)

// stepError adds to an error what the engine knows of it.
func stepError(e *engine.Error, o *Op) {
	if e.Step == "" {
		e.Step = o.Name
	}
	if o.In != nil {
		e.Mask(o.In.Secrets)
	}
	Complete(e, engine.Permanent)
}

func Complete(e *engine.Error, fallback engine.Class) {
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

func FailAt(m *engine.Message, step string, err error) {
	m.Fail(err)
	stepError(msg(m).Err, &Op{Name: step})
}
