package framing

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Limits of a run: long records are handed over one at a time.
const (
	pumpRun   = 256 // records
	pumpBytes = blockSize
)

// Pump divides a stream whose reads block into records, in a goroutine of its own, so that its user can stop waiting.
// It hands over what it has found before it reads the stream again.
type Pump struct {
	runs  chan run
	free  chan run
	stop  chan struct{}
	ended chan struct{} // closed when the stream is not used any more
	once  sync.Once
	src   io.Reader
	err   error // how the stream ended; set before runs is closed

	rest []Record // records of run that were not taken yet
	run  run
}

// run is a group of records that are handed over together.
type run struct {
	records []Record
	places  []Place // after each of them
}

// NewPump starts to read. open makes a Reader of the stream. Its error ends the stream.
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

// Fill waits for the first record, and adds available ones until b is full. If ctx ends, it returns ctx's error at
// once.
func (p *Pump) Fill(ctx context.Context, b *engine.Batch, base engine.Meta) error {
	return p.FillPlaced(ctx, b, base, nil)
}

// FillPlaced is Fill, but calls placed, if not nil, with each message and the place after it.
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

// next takes the next run. A run without records means that the stream has ended. It returns false if there is none,
// or none yet.
func (p *Pump) next(ctx context.Context, wait bool) bool {
	if p.run.records != nil {
		clear(p.run.records) // an idle run must not keep blocks alive
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

// Close ends the goroutine when its read returns: at once if the stream supports deadlines, as a pipe does, else with
// the next data.
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

// handover wraps the stream for the reader of records: each read first hands over the records found so far.
type handover struct {
	pump  *Pump
	run   run
	bytes int // in the run
}

func (h *handover) Read(p []byte) (int, error) {
	if !h.flush() {
		return 0, io.ErrClosedPipe
	}
	return h.pump.src.Read(p)
}

// flush returns false if the pump was closed.
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
