package engine

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/flowd-io/flowd/engine/doc"
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
	var before Mark
	own := ownerOf(b.in.Arena)
	defer func() {
		if r := recover(); r != nil {
			if b.in.Restores {
				before.Restore(m)
			}
			m.Fail(panicked(r))
			next = at + 1
		}
	}()
	for ; at < b.Len(); at++ {
		if m = b.in.Nth(at); m.in.State != live {
			continue
		}
		if own != nil && m.in.Charge > len(m.in.Orig)+slack {
			own.Regain(m)
		}
		if b.in.Restores || own != nil {
			before = MarkOf(m)
		}
		spent := b.in.Arena.Spent()
		if err := f(ctx, m); err != nil {
			m.Fail(err)
		}
		if spent = b.in.Arena.Spent() - spent; spent > slack && own != nil && m.in.State == live {
			if err := own.Settle(m, spent); err != nil {
				m.Fail(err)
			}
		}
		if m.in.State != live && (b.in.Restores || m.in.State == failed && lacks(m.in.Err) > 0) {
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

func MarkOf(m *Message) Mark { return Mark{m.in.Doc.Mark(), m.Meta} }

func (s *Mark) Restore(m *Message) {
	m.in.Doc.Restore(s.doc)
	m.Meta = s.meta
}

// ends is told that a message has failed, waits or has ended.
func (s *Mark) ends(m *Message) {
	switch m.in.State {
	case failed:
		s.Restore(m)
	case parked:
		m.in.Parking.Before = s.Kept(m)
	}
}

// kept makes a snapshot hold for good; m goes on as it is.
func (s Mark) Kept(m *Message) *Original {
	now := m.Bytes()
	m.in.Doc.Restore(s.doc)
	o := &Original{m.Bytes(), s.meta}
	m.in.Doc.Reset(now, nil)
	return o
}

// original is a message as a step found it, apart from any arena.
type Original struct {
	body []byte
	meta Meta
}

func panicked(r any) *Error {
	return &Error{Class: Panicked, Err: fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
}

// recovered, deferred around a plugin's call, makes an error of its panic.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = panicked(r)
	}
}
