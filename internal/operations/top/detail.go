package top

import (
	"fmt"
	"time"

	"github.com/flowd-io/flowd/internal/operations/service"
)

// detail adds lines about one component of a pipeline.
type detail struct {
	add func(style Style, label, text string)
	p   service.Pipeline
	key Key
}

func (d detail) component() {
	switch d.key.Kind {
	case "":
		d.pipeline()
	case "input":
		d.input(find(d.p.Inputs, func(x service.Input) bool { return x.Name == d.key.Name }))
	case "step":
		d.step(find(d.p.Steps, func(x service.Step) bool {
			return x.Name == d.key.Name && (x.Place == d.key.Place || d.key.Place == "" && x.Place == "processors")
		}))
	case "batcher":
		x := find(d.p.Batchers, func(x service.Batcher) bool { return x.Name == d.key.Name })
		d.add(Plain, "open", short(float64(x.Open))+" messages in open batches")
		d.add(Plain, "batches", counts(x.Batches))
	case "output":
		d.output(find(d.p.Outputs, func(x service.Output) bool { return x.Name == d.key.Name }))
	case "limit":
		x := find(d.p.Limits, func(x service.Rate) bool { return x.Name == d.key.Name })
		d.add(Plain, "rate", limited(x))
		d.add(Plain, "waits so far", short(float64(x.Waited)))
	}
	for _, e := range d.p.Edges {
		if e.From == d.key.Kind+" "+d.key.Name {
			label := "leads to"
			if e.Failed {
				label = "dead letters go to"
			}
			d.add(Plain, label, e.To)
		}
	}
}

func (d detail) pipeline() {
	m := d.p.Messages
	d.add(Plain, "state", d.p.State+" since "+clock(d.p.Since))
	d.add(Plain, "messages", fmt.Sprintf("%s received, %s delivered, %s filtered, %s dead-lettered, %s dropped, %s returned, %s in flight",
		short(float64(m.Received)), short(float64(m.Delivered)), short(float64(m.Filtered)), short(float64(m.DeadLettered)),
		short(float64(m.Dropped)), short(float64(m.Returned)), short(float64(m.InFlight))))
	d.latency("read to settled", d.p.Latency)
	d.add(Plain, "failures", counts(d.p.Failures))
	if h := d.p.Held; h != nil {
		d.add(Warning, "held longest", fmt.Sprintf("%s, for %s, %s, continues in %s", h.Position, span(h.Age), h.For, span(h.Due)))
		d.add(Failure, "its error", h.Error)
	}
	for _, t := range d.p.Tables {
		d.add(Failure, "table "+t.Name, t.Error)
	}
}

func (d detail) input(x service.Input) {
	d.add(Plain, "type", x.Type)
	d.add(Plain, "state", x.State)
	d.add(Plain, "received", short(float64(x.Received))+" messages, "+volume(x.Bytes))
	d.add(Plain, "unacknowledged", some(x.Unacked))
	d.add(Plain, "restarts", some(x.Restarts))
	d.add(Failure, "last error", x.Error)
	if !x.Due.IsZero() {
		d.add(Plain, "due", clock(x.Due))
	}
	if x.Progress != nil {
		d.add(Plain, "lag", fmt.Sprintf("%s %s in %d positions", short(float64(x.Progress.Lag)), x.Progress.Unit, x.Progress.Count))
	}
	for i, one := range x.Instances {
		if len(x.Instances) > 1 {
			d.add(Plain, fmt.Sprint("instance ", i+1), fmt.Sprintf("%s, %s received", one.State, short(float64(one.Received))))
			d.add(Failure, "its error", one.Error)
		}
	}
	for _, s := range x.Sources {
		d.add(Plain, "source "+s.Name, fmt.Sprintf("%s, %s received, %d in flight", s.State, short(float64(s.Received)), s.InFlight))
		d.add(Failure, "its error", s.Error)
	}
}

func (d detail) step(x service.Step) {
	d.add(Plain, "type", x.Type)
	d.add(Plain, "received", short(float64(x.Received)))
	d.add(Plain, "failed", some(x.Failed))
	d.add(Plain, "retried", some(x.Retries))
	d.latency("a call takes", x.Latency)
	if p := x.Pool; p != nil {
		d.add(Plain, "jobs", fmt.Sprintf("%d of %d slots busy, %d wait", p.InFlight, p.Slots, p.Waiting))
		for _, w := range p.Workers {
			d.add(Plain, "worker "+w.Name, fmt.Sprintf("%d of %d slots busy, heard %s ago, %s", w.Busy, w.Slots, span(w.Heard), w.Version))
			d.add(Failure, "takes no jobs", w.Refused)
		}
	}
}

func (d detail) output(x service.Output) {
	d.add(Plain, "type", x.Type)
	d.add(Plain, "written", short(float64(x.Written)))
	d.add(Plain, "queued", fmt.Sprintf("%s messages, %s", short(float64(x.Queued)), volume(int64(x.QueuedBytes))))
	d.add(Plain, "writes under way", fmt.Sprintf("%d of %d", x.Writes.Used, x.Writes.Max))
	d.latency("a write takes", x.Latency)
	d.latency("read to written", x.Delivery)
	d.add(Plain, "failed", some(x.Failed))
	d.add(Plain, "retried", some(x.Retries))
	d.add(Warning, "abandoned writes", some(x.Abandoned))
	d.add(Plain, "breaker", x.Breaker)
	d.add(Failure, "last error", x.Error)
	if !x.FailingSince.IsZero() {
		d.add(Failure, "failing since", clock(x.FailingSince))
	}
}

func (d detail) latency(label string, l service.Latency) {
	if l.Count > 0 {
		d.add(Plain, label, fmt.Sprintf("p50 %s, p90 %s, p99 %s, mean %s", span(l.P50), span(l.P90), span(l.P99), span(l.Mean)))
	}
}

// some returns a number, or "" for zero.
func some(n int64) string {
	if n == 0 {
		return ""
	}
	return short(float64(n))
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
