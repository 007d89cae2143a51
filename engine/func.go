package engine

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/flowd-io/flowd/engine/internal/inside"
)

// ProcessorFunc makes a Processor of a function that edits one message; its
// error, and its panic, fail that message alone.
type ProcessorFunc func(ctx context.Context, m *Message) error

// Process calls f for each message.
func (f ProcessorFunc) Process(ctx context.Context, b *Batch) error {
	for at := 0; at < b.Len(); {
		at = f.each(ctx, b, at)
	}
	return nil
}

// each calls f for the messages from a place on, until it panics, and returns the
// place behind them. Who works on one message at a time needs to remember only one.
func (f ProcessorFunc) each(ctx context.Context, b *Batch, at int) (next int) {
	var m *Message
	var before inside.Mark[Meta]
	own := ownerOf(b.in.Arena)
	defer func() {
		if r := recover(); r != nil {
			if b.in.Restores {
				before.Restore(&m.in.Doc, &m.Meta)
			}
			m.Fail(panicked(r))
			next = at + 1
		}
	}()
	for ; at < b.Len(); at++ {
		if m = b.in.Nth(at); m.in.State != inside.Live {
			continue
		}
		if own != nil && m.in.Charge > len(m.in.Orig)+inside.Slack {
			own.Regain(m)
		}
		if b.in.Restores || own != nil {
			before = inside.MarkOf(&m.in.Doc, m.Meta)
		}
		spent := b.in.Arena.Spent()
		if err := f(ctx, m); err != nil {
			m.Fail(err)
		}
		if spent = b.in.Arena.Spent() - spent; spent > inside.Slack && own != nil && m.in.State == inside.Live {
			if err := own.Settle(m, spent); err != nil {
				m.Fail(err)
			}
		}
		if m.in.State != inside.Live && (b.in.Restores || m.in.State == inside.Failed && inside.Lacks(m.in.Err) > 0) {
			ends(m, &before)
		}
	}
	return at
}

// ends is told that a message, which it was as before says, has failed, waits or has ended.
func ends(m *Message, before *inside.Mark[Meta]) {
	switch m.in.State {
	case inside.Failed:
		before.Restore(&m.in.Doc, &m.Meta)
	case inside.Parked:
		m.in.Parking.Before = before.Kept(&m.in.Doc)
	}
}

func panicked(r any) *Error {
	return &Error{Class: Panicked, Err: fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
}

// Recovered, deferred around a plugin's call, makes an error of its panic.
func Recovered(err *error) {
	if r := recover(); r != nil {
		*err = panicked(r)
	}
}
