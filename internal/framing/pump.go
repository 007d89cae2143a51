package framing

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Bounds of what is handed over at once: long records go one at a time.
const (
	pumpRun   = 256 // records
	pumpBytes = blockSize
)

// Pump cuts a stream whose reads block into records, in a separate goroutine, so that
// whoever waits for them can stop waiting. What has been found is handed over before the
// stream is read again.
type Pump struct {
	runs chan []Record
	free chan []Record
	stop chan struct{}
	once sync.Once
	src  io.Reader
	err  error // how the stream ended; set before runs is closed

	rest []Record // of a run, what has not been taken; its end is run's
	run  []Record
}

// NewPump starts to read. open puts a Reader on the stream; its error is how the
// stream ends.
func NewPump(src io.Reader, open func(io.Reader) (Reader, error)) *Pump {
	p := &Pump{
		runs: make(chan []Record, 1),
		free: make(chan []Record, 3),
		stop: make(chan struct{}),
		src:  src,
	}
	for range cap(p.free) {
		p.free <- make([]Record, 0, pumpRun)
	}
	go p.read(open)
	return p
}

// Fill waits for the first record and adds the available ones, until b is full. It returns
// at once when ctx ends, with ctx's error.
func (p *Pump) Fill(ctx context.Context, b *engine.Batch, base engine.Meta) error {
	for first := true; b.Room() > 0; first = false {
		if len(p.rest) == 0 && !p.next(ctx, first) {
			break
		}
		if len(p.rest) == 0 {
			return p.err
		}
		n := min(b.Room(), len(p.rest))
		for i := range p.rest[:n] {
			p.rest[i].AddTo(b, base)
		}
		p.rest = p.rest[n:]
	}
	return ctx.Err()
}

// next takes the next run; with nothing in it the stream has ended. It is false
// when there is none, or none yet.
func (p *Pump) next(ctx context.Context, wait bool) bool {
	if p.run != nil {
		clear(p.run) // a run at rest pins no blocks
		p.free <- p.run[:0]
		p.run = nil
	}
	if wait {
		select {
		case p.run = <-p.runs:
		case <-ctx.Done():
			return false
		}
	} else {
		select {
		case p.run = <-p.runs:
		default:
			return false
		}
	}
	p.rest = p.run
	return true
}

// Close ends the goroutine, as soon as its read returns: one that takes
// deadlines, as a pipe's, at once; another with the next data or the process.
func (p *Pump) Close() {
	p.once.Do(func() { close(p.stop) })
	if d, ok := p.src.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = d.SetReadDeadline(time.Unix(1, 0))
	}
}

func (p *Pump) read(open func(io.Reader) (Reader, error)) {
	defer close(p.runs)
	defer func() {
		if r := recover(); r != nil {
			p.err = engine.Errorf(engine.Panicked, "panic while the stream was read: %v", r)
		}
	}()
	out := &handover{pump: p, run: <-p.free}
	r, err := open(out)
	if err != nil {
		p.err = err
		return
	}
	defer r.Close()
	for {
		rec, err := r.Next()
		if err != nil {
			p.err = err
			out.flush()
			return
		}
		out.run = append(out.run, rec)
		out.bytes += len(rec.Body)
		if (len(out.run) == pumpRun || out.bytes >= pumpBytes) && !out.flush() {
			return
		}
	}
}

// handover is the stream as the reader of records sees it: each read of it
// hands over first what was found before.
type handover struct {
	pump  *Pump
	run   []Record
	bytes int // of the run
}

func (h *handover) Read(p []byte) (int, error) {
	if !h.flush() {
		return 0, io.ErrClosedPipe
	}
	return h.pump.src.Read(p)
}

// flush is false when the pump was closed.
func (h *handover) flush() bool {
	if len(h.run) > 0 {
		select {
		case h.pump.runs <- h.run:
		case <-h.pump.stop:
			return false
		}
		select {
		case h.run = <-h.pump.free:
			h.bytes = 0
		case <-h.pump.stop:
			return false
		}
	}
	select {
	case <-h.pump.stop:
		return false
	default:
		return true
	}
}
