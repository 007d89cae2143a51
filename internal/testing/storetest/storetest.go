// Package storetest tests outputs that write objects, over the fake of each store. Start at [Outputs].
package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/objects"
	"github.com/flowd-io/flowd/internal/testing/faults"
)

// Server is a fake store with one bucket.
type Server interface {
	Put(key, body string)
	Body(key string) string // "" where there is no object
	Keys() []string         // sorted
	Metadata(key string) map[string]string
	Fault(f faults.Fault)
}

// Outputs starts a server that ends with the test, and returns how to make outputs that write to it, from JSON with their
// own fields, such as `"key": "a"`. If wire is not nil, they reach the server by way of it.
type Outputs func(t *testing.T, wire *enginetest.Wire) (s Server, output func(fields string) engine.Output)

// Large is the size of an object that is written in three parts, in bytes.
const Large = 12 << 20

// Write writes one message, and returns its error.
func Write(t *testing.T, out engine.Output, body string) error {
	t.Helper()
	if err := out.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer out.(engine.Closer).Close(context.Background())
	b := engine.NewBatch(1)
	m := b.Add([]byte(body))
	if err := out.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if e := m.Err(); e != nil {
		return e
	}
	return nil
}

// Away runs the suite of outputs whose server is away for a while.
func (start Outputs) Away(t *testing.T) {
	var s Server
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			server, output := start(t, wire)
			s = server
			return func() engine.Output { return output(`"key": "$(id)"`) }
		},
		Arrived: func(t *testing.T) (all []string) {
			for _, key := range s.Keys() {
				all = append(all, s.Body(key))
			}
			return all
		},
		Headers:  func(*testing.T) map[string]string { return s.Metadata("1") },
		Payloads: []string{`{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":4}`, `{"id":5}`},
	}.Run(t)
}

// IfAbsent tests that if_absent leaves an object as it is.
func (start Outputs) IfAbsent(t *testing.T) {
	for name, size := range map[string]int{"whole": 10, "in parts": Large} {
		t.Run(name, func(t *testing.T) {
			s, output := start(t, nil)
			s.Put("a", "old")
			err := Write(t, output(`"key": "a", "if_absent": true, "part_size": "5MiB"`), strings.Repeat("x", size))
			if !errors.Is(err, objects.ErrExists) || engine.ErrorOf(err, "").Class != engine.Rejected || s.Body("a") != "old" {
				t.Errorf("error %v, and there is %.10q", err, s.Body("a"))
			}
		})
	}
}

// LostAnswers tests that an object counts as written if it was stored and the answer was lost: the next attempt finds it.
// whole and last lose the answer to a small object, and to the last call for a large one.
func (start Outputs) LostAnswers(t *testing.T, whole, last faults.Fault) {
	for name, tt := range map[string]struct {
		fault faults.Fault
		body  string
	}{"whole": {whole, "x"}, "in parts": {last, strings.Repeat("x", Large)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, output := start(t, nil)
			tt.fault.Lose = true
			s.Fault(tt.fault)
			o := output(`"key": "a", "if_absent": true, "part_size": "5MiB"`)
			err := Write(t, o, tt.body)
			if err != nil && engine.ErrorOf(err, "").Class == engine.Transient {
				err = Write(t, o, tt.body)
			}
			if err != nil {
				t.Errorf("it is written, but: %v", err)
			}
			if err := Write(t, o, "y"); !errors.Is(err, objects.ErrExists) || s.Body("a") != tt.body {
				t.Errorf("error %v, and there is %.10q", err, s.Body("a"))
			}
		})
	}
}

// Meaning is what an error of a write means.
type Meaning = struct {
	Name  string
	Fault faults.Fault
	Class engine.Class
	Holds bool
	Delay time.Duration
}

// Meanings tests what errors mean.
func (start Outputs) Meanings(t *testing.T, method string, all []Meaning) {
	for _, tt := range all {
		t.Run(tt.Name, func(t *testing.T) {
			s, output := start(t, nil)
			tt.Fault.Method, tt.Fault.Times = method, -1
			s.Fault(tt.Fault)
			err := Write(t, output(`"key": "a"`), "x")
			e, ok := errors.AsType[*engine.Error](err)
			if !ok || e.Class != tt.Class || e.HoldsOutput() != tt.Holds || e.Delay != tt.Delay {
				t.Errorf("error %#v: %v", e, err)
			}
		})
	}
}
