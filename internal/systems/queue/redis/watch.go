package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	goredis "github.com/redis/go-redis/v9"
)

// Watch knows whether a server can be used, from how commands end: for the status of a cache or a step whose messages
// wait. The zero value is ready. Its methods may be called from several goroutines.
type Watch struct {
	mu    sync.Mutex // guards the fields below
	cause string     // "": it can be used
	since time.Time
}

// note takes how a command ended.
func (w *Watch) note(err error) {
	if w == nil {
		return
	}
	_, answered := errors.AsType[goredis.Error](err)
	holds := err != nil && engine.ErrorOf(Explain(err, ""), "").HoldsOutput()
	if err != nil && !answered && !holds || errors.Is(err, context.Canceled) { // cut or late: the next command knows more
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !holds && w.cause != "":
		w.cause = ""
	case holds && w.cause == "":
		w.cause, w.since = Explain(err, "ask the server").Error(), time.Now()
	}
}

// Trouble reports that the server can't be used; nil: it can.
func (w *Watch) Trouble() *engine.Trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cause == "" {
		return nil
	}
	return &engine.Trouble{Indicator: "redis_unusable", Impact: "messages wait", Cause: w.cause,
		Action: "check the server, its address, and the credentials", Since: w.since}
}
