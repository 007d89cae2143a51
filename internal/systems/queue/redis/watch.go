package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	goredis "github.com/redis/go-redis/v9"
)

// Watch derives from the results of commands whether a server is usable, for the status of a cache or step whose messages wait. The
// zero value is ready. Its methods may be called from any goroutine.
type Watch struct {
	mu    sync.Mutex // guards the fields below
	cause string     // why the server is unusable; "": it is usable
	since time.Time  // when it became unusable
}

// record records the result of a command.
func (w *Watch) record(err error) {
	if w == nil {
		return
	}
	_, answered := errors.AsType[goredis.Error](err)
	holds := err != nil && engine.ErrorOf(Explain(err, ""), "").HoldsOutput()
	if err != nil && !answered && !holds || errors.Is(err, context.Canceled) {
		// A lost or late answer says nothing about the server. The next command does.
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !holds && w.cause != "":
		w.cause = ""
	case holds && w.cause == "":
		w.cause, w.since = Explain(err, "send a command").Error(), time.Now()
	}
}

// Trouble returns the trouble that the server is unusable, or nil.
func (w *Watch) Trouble() *engine.Trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cause == "" {
		return nil
	}
	return &engine.Trouble{Indicator: "redis_unusable", Impact: "messages wait", Cause: w.cause,
		Action: "check the server, its address, and the credentials", Since: w.since}
}
