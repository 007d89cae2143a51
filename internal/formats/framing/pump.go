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
	runs  chan run
	free  chan run
	stop  chan struct{}
	ended chan struct{} // closed when the stream is not used any more
	once  sync.Once
	src   io.Reader
	err   error // how the stream ended; set before runs is closed

	rest []Record // of a run, what has not been taken; its end is run's
	run  run
}

// run is what is handed over at once.
type run struct {
	records []Record
	places  []Place // after each of them
}

// NewPump starts to read. open puts a Reader on the stream; its error is how the
// stream ends.
func NewPump(src io.Reader, open func(io.Reader) (Reader, error)) *Pump {
	p := &Pump{
		runs:  make(chan run, 1),
		free:  make(chan run, 3),
		stop:  make(chan struct{}),
		ended: make(chan struct{}),
		src:   src,
	}
	for range cap(p.free) {
		p.free <- run{records: make([]Record, 0, pumpRun), places: make([]Place, 0, pumpRun)}
	}
	go p.read(open)
	return p
}

// Fill waits for the first record and adds the available ones, until b is full. It returns
// at once when ctx ends, with ctx's error.
func (p *Pump) Fill(ctx context.Context, b *engine.Batch, base engine.Meta) error {
	return p.FillPlaced(ctx, b, base, nil)
}

// FillPlaced is Fill that tells placed, unless it is nil, of each message and the place after it.
func (p *Pump) FillPlaced(ctx context.Context, b *engine.Batch, base engine.Meta,
	placed func(*engine.Message, Place)) error {
	for first := true; b.Room() > 0; first = false {
		if len(p.rest) == 0 && !p.next(ctx, first) {
			break
		}
		if len(p.rest) == 0 {
			return p.err
		}
		places := p.run.places[len(p.run.places)-len(p.rest):]
		n := 0
		for n < len(p.rest) && b.Room() > 0 {
			m := p.rest[n].AddTo(b, base)
			if placed != nil {
				placed(m, places[n])
			}
			n++
		}
		p.rest = p.rest[n:]
	}
	return ctx.Err()
}

// next takes the next run; with nothing in it the stream has ended. It is false
// when there is none, or none yet.
func (p *Pump) next(ctx context.Context, wait bool) bool {
	if p.run.records != nil {
		clear(p.run.records) // a run at rest pins no blocks
		p.free <- run{p.run.records[:0], p.run.places[:0]}
		p.run = run{}
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
	p.rest = p.run.records
	return true
}

// Wait waits, after Close, until the stream is not used any more.
func (p *Pump) Wait() { <-p.ended }

// Close ends the goroutine, as soon as its read returns: one that takes
// deadlines, as a pipe's, at once; another with the next data or the process.
func (p *Pump) Close() {
	p.once.Do(func() { close(p.stop) })
	if d, ok := p.src.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = d.SetReadDeadline(time.Unix(1, 0))
	}
}

func (p *Pump) read(open func(io.Reader) (Reader, error)) {
	defer close(p.ended)
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
		out.run.records, out.run.places = append(out.run.records, rec), append(out.run.places, r.Place())
		out.bytes += len(rec.Body)
		if (len(out.run.records) == pumpRun || out.bytes >= pumpBytes) && !out.flush() {
			return
		}
	}
}

// handover is the stream as the reader of records sees it: each read of it
// hands over first what was found before.
type handover struct {
	pump  *Pump
	run   run
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
	if len(h.run.records) > 0 {
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
