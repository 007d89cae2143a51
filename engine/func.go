package engine

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// ProcessorFunc makes a Processor of a function that edits one message; its
// error, and its panic, fail that message alone.
type ProcessorFunc func(ctx context.Context, m *Message) error

// Process calls f for each message.
func (f ProcessorFunc) Process(ctx context.Context, b *Batch) error {
	for at := 0; at < b.Len(); {
		at = f.Each(ctx, b, at)
	}
	return nil
}

// each calls f for the messages from a place on, until it panics, and returns the
// place behind them. Who works on one message at a time needs to remember only one.
func (f ProcessorFunc) Each(ctx context.Context, b *Batch, at int) (next int) {
	var m *Message
	var before Mark
	own := ownerOf(b.In.Arena)
	defer func() {
		if r := recover(); r != nil {
			if b.In.Restores {
				before.Restore(m)
			}
			m.Fail(panicked(r))
			next = at + 1
		}
	}()
	for ; at < b.Len(); at++ {
		if m = b.In.Nth(at); m.In.State != inside.Live {
			continue
		}
		if own != nil && m.In.Charge > len(m.In.Orig)+inside.Slack {
			own.Regain(m)
		}
		if b.In.Restores || own != nil {
			before = MarkOf(m)
		}
		spent := b.In.Arena.Spent()
		if err := f(ctx, m); err != nil {
			m.Fail(err)
		}
		if spent = b.In.Arena.Spent() - spent; spent > inside.Slack && own != nil && m.In.State == inside.Live {
			if err := own.Settle(m, spent); err != nil {
				m.Fail(err)
			}
		}
		if m.In.State != inside.Live && (b.In.Restores || m.In.State == inside.Failed && Lacks(m.In.Err) > 0) {
			before.ends(m)
		}
	}
	return at
}

// Mark is a message as a step found it. It holds until the arena is reset.
type Mark struct {
	doc  doc.Mark
	meta Meta
}

func MarkOf(m *Message) Mark { return Mark{m.In.Doc.Mark(), m.Meta} }

func (s *Mark) Restore(m *Message) {
	m.In.Doc.Restore(s.doc)
	m.Meta = s.meta
}

// ends is told that a message has failed, waits or has ended.
func (s *Mark) ends(m *Message) {
	switch m.In.State {
	case inside.Failed:
		s.Restore(m)
	case inside.Parked:
		m.In.Parking.Before = s.Kept(m)
	}
}

// kept makes a snapshot hold for good; m goes on as it is.
func (s Mark) Kept(m *Message) *Original {
	now := m.Bytes()
	m.In.Doc.Restore(s.doc)
	o := &Original{m.Bytes(), s.meta}
	m.In.Doc.Reset(now, nil)
	return o
}

// original is a message as a step found it, apart from any arena.
type Original struct {
	Body []byte
	Meta Meta
}

func panicked(r any) *Error {
	return &Error{Class: Panicked, Err: fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
}

// recovered, deferred around a plugin's call, makes an error of its panic.
func Recovered(err *error) {
	if r := recover(); r != nil {
		*err = panicked(r)
	}
}
