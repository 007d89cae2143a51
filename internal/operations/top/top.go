// Package top turns the states of running flowds into what `flowd top` shows. Start at [Of], which compares two states of
// each process. [Frame.Lines] and [Frame.Detail] are its text, for a terminal or a file; package terminal draws it.
package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/operations/service"
)

// Seen is what one process has answered.
type Seen struct {
	Addr  string
	At    time.Time
	State service.State
	Err   error // why there is no state
}

// Frame is all processes at one moment. Its JSON is an object of `flowd top --json`: fields are added, never changed.
type Frame struct {
	At        time.Time `json:"time"`
	Interval  float64   `json:"interval_seconds"` // over which rates are taken; 0: there was no state before, so rates are 0
	Processes []Process `json:"processes"`
}

// Process is one flowd.
type Process struct {
	Addr      string     `json:"addr"`
	Error     string     `json:"error,omitempty"` // why it does not answer
	Ready     string     `json:"ready,omitempty"` // ok or fail
	Memory    int64      `json:"memory_bytes"`
	Pipelines []Pipeline `json:"pipelines"`

	state service.State
}

// Pipeline is a pipeline of a process.
type Pipeline struct {
	Name        string        `json:"name"`
	State       string        `json:"state"`
	Since       time.Time     `json:"since,omitzero"` // of the state
	In          float64       `json:"received_per_second"`
	Out         float64       `json:"delivered_per_second"`
	Failed      float64       `json:"failed_per_second"` // dead-lettered, dropped or returned
	Latency     float64       `json:"latency_seconds"`   // mean of the messages that were settled in the interval
	P99         float64       `json:"latency_p99_seconds"`
	InFlight    service.Share `json:"in_flight"`
	Bytes       service.Share `json:"bytes"`
	Lanes       service.Share `json:"lanes"`
	Waiting     int           `json:"waiting"` // for a retry, a key or a limit
	Retrying    int           `json:"retrying"`
	DeadLetters int64         `json:"dead_letters"`
	Oldest      float64       `json:"oldest_unsettled_seconds"`
	Bottleneck  *Bottleneck   `json:"bottleneck,omitempty"` // nil: nothing holds it up
	Components  []Component   `json:"components"`

	ratesAreKnown bool
}

// Bottleneck is what a pipeline is waiting for.
type Bottleneck struct {
	Component string `json:"component"` // "output lake", "step parse", "input web"
	Why       string `json:"why"`       // as in service.Wait
	Detail    string `json:"detail"`
}

// Component is an input, step, batcher, output or limit of a pipeline.
type Component struct {
	Kind       string        `json:"kind"`
	Name       string        `json:"name"`
	Type       string        `json:"type,omitempty"`
	Place      string        `json:"place,omitempty"` // of a step
	State      string        `json:"state,omitempty"`
	Total      int64         `json:"total"` // messages: read, received or written; of a limit: how often it made others wait
	Rate       float64       `json:"per_second"`
	Failed     int64         `json:"failed"`
	Retries    int64         `json:"retries"`
	Latency    float64       `json:"latency_seconds"` // mean of the calls in the interval
	P99        float64       `json:"latency_p99_seconds"`
	Queued     int           `json:"queued"`
	Busy       service.Share `json:"busy"`
	Lag        int64         `json:"lag"`
	Error      string        `json:"error,omitempty"`
	Bottleneck bool          `json:"bottleneck,omitempty"`

	note string // what else matters, in words
}

// Key identifies a pipeline, or a component of it, in all frames.
type Key struct{ Addr, Pipeline, Kind, Place, Name string }

// Of compares two states of each process. before may lack processes, or be nil.
func Of(before, now []Seen) Frame {
	f := Frame{Processes: []Process{}}
	for _, n := range now {
		var old *Seen
		for i := range before {
			if before[i].Addr == n.Addr && before[i].Err == nil {
				old = &before[i]
			}
		}
		if n.At.After(f.At) {
			f.At = n.At
		}
		p, interval := processOf(old, n)
		f.Processes, f.Interval = append(f.Processes, p), max(f.Interval, interval)
	}
	return f
}

func processOf(old *Seen, now Seen) (p Process, interval float64) {
	p = Process{Addr: now.Addr, Pipelines: []Pipeline{}, state: now.State}
	if now.Err != nil {
		p.Error = now.Err.Error()
		return p, 0
	}
	p.Ready, p.Memory = now.State.Ready.Status, now.State.Memory
	if old != nil {
		interval = now.At.Sub(old.At).Seconds()
	}
	for _, s := range now.State.Pipelines {
		var was *service.Pipeline
		if old != nil {
			for i := range old.State.Pipelines {
				if x := &old.State.Pipelines[i]; x.Name == s.Name && x.Started.Equal(s.Started) {
					was = x
				}
			}
		}
		p.Pipelines = append(p.Pipelines, pipelineOf(was, s, interval))
	}
	return p, interval
}

// change is what has changed between two states of a pipeline.
type change struct {
	was     *service.Pipeline // nil: there was no state before
	seconds float64
}

// rate returns how much a count has risen per second. A count that has fallen began anew.
func (c change) rate(was, now int64) float64 {
	if c.was == nil || c.seconds <= 0 || now < was {
		return 0
	}
	return float64(now-was) / c.seconds
}

// recent returns the mean of a latency since the state before, or since the start if nothing has happened.
func recent(was, now service.Latency) float64 {
	if n := now.Count - was.Count; n > 0 && was.Count > 0 {
		return max(0, (now.Mean*float64(now.Count)-was.Mean*float64(was.Count))/float64(n))
	}
	return now.Mean
}

func pipelineOf(was *service.Pipeline, now service.Pipeline, seconds float64) Pipeline {
	c := change{was, seconds}
	old := service.Pipeline{}
	if was != nil {
		old = *was
	}
	bad := func(n service.Counts) int64 { return n.DeadLettered + n.Dropped + n.Returned }
	p := Pipeline{
		Name: now.Name, State: now.State, Since: now.Since,
		In:     c.rate(old.Messages.Received, now.Messages.Received),
		Out:    c.rate(old.Messages.Delivered, now.Messages.Delivered),
		Failed: c.rate(bad(old.Messages), bad(now.Messages)), Latency: recent(old.Latency, now.Latency), P99: now.Latency.P99,
		InFlight: now.CreditMessages, Bytes: now.CreditBytes, Lanes: now.Lanes, Waiting: now.Waiting, Retrying: now.Retrying,
		DeadLetters: now.DeadLetters, Oldest: now.OldestUnsettled, Components: []Component{}, ratesAreKnown: was != nil,
	}
	inputs(&p, c, old, now)
	steps(&p, c, old, now)
	for _, x := range now.Batchers {
		p.Components = append(p.Components, Component{Kind: "batcher", Name: x.Name, Queued: x.Open, note: counts(x.Batches)})
	}
	outputs(&p, c, old, now)
	for _, x := range now.Limits {
		p.Components = append(p.Components, Component{Kind: "limit", Name: x.Name, Total: x.Waited,
			Rate: c.rate(find(old.Limits, func(l service.Rate) bool { return l.Name == x.Name }).Waited, x.Waited),
			note: limited(x)})
	}
	p.bottleneck(old, now)
	return p
}

// find returns the first element for which is returns true, or the zero value.
func find[T any](all []T, is func(T) bool) (none T) {
	for _, x := range all {
		if is(x) {
			return x
		}
	}
	return none
}

func inputs(p *Pipeline, c change, old, now service.Pipeline) {
	for _, x := range now.Inputs {
		o := find(old.Inputs, func(i service.Input) bool { return i.Name == x.Name })
		in := Component{Kind: "input", Name: x.Name, Type: x.Type, State: x.State, Total: x.Received,
			Rate: c.rate(o.Received, x.Received), Error: x.Error}
		var notes []string
		if x.Progress != nil {
			in.Lag = x.Progress.Lag
			lag := short(float64(in.Lag))
			if x.Progress.Unit == "bytes" {
				lag = volume(in.Lag)
			}
			notes = append(notes, "lag "+lag)
		}
		if x.Behind >= 1 {
			notes = append(notes, span(x.Behind)+" behind")
		}
		if !x.Due.IsZero() {
			notes = append(notes, "due "+x.Due.UTC().Format("Jan 2 15:04:05")+" UTC")
		}
		if x.Restarts > 0 {
			notes = append(notes, short(float64(x.Restarts))+" restarts")
		}
		in.note = strings.Join(notes, ", ")
		p.Components = append(p.Components, in)
	}
}

func steps(p *Pipeline, c change, old, now service.Pipeline) {
	for _, x := range now.Steps {
		o := find(old.Steps, func(s service.Step) bool { return s.Place == x.Place && s.Name == x.Name })
		s := Component{Kind: "step", Name: x.Name, Type: x.Type, Total: x.Received, Rate: c.rate(o.Received, x.Received),
			Failed: x.Failed, Retries: x.Retries, Latency: recent(o.Latency, x.Latency), P99: x.Latency.P99}
		if x.Place != "processors" {
			s.Place = x.Place
		}
		var notes []string
		if failing := c.rate(o.Failed, x.Failed); failing > 0 {
			notes = append(notes, short(failing)+"/s fail")
		}
		if pool := x.Pool; pool != nil {
			s.Queued, s.Busy = pool.Waiting, service.Share{Used: pool.InFlight, Max: pool.Slots}
			if n := len(pool.Workers); n > 0 || pool.Slots == 0 {
				notes = append(notes, fmt.Sprint(n, " workers"))
			}
		}
		s.note = strings.Join(notes, ", ")
		p.Components = append(p.Components, s)
	}
}

func outputs(p *Pipeline, c change, old, now service.Pipeline) {
	for _, x := range now.Outputs {
		o := find(old.Outputs, func(s service.Output) bool { return s.Name == x.Name })
		out := Component{Kind: "output", Name: x.Name, Type: x.Type, Total: x.Written, Rate: c.rate(o.Written, x.Written),
			Failed: x.Failed, Retries: x.Retries, Latency: recent(o.Latency, x.Latency), P99: x.Latency.P99, Queued: x.Queued,
			Busy: x.Writes, Error: x.Error}
		if x.Breaker != "" && x.Breaker != "closed" {
			out.State = "breaker " + x.Breaker
		}
		var notes []string
		if x.DeadLetter {
			notes = append(notes, "dead letters")
		}
		if failing := c.rate(o.Failed, x.Failed); failing > 0 {
			notes = append(notes, short(failing)+"/s fail")
		}
		if retried := c.rate(o.Retries, x.Retries); retried > 0 {
			notes = append(notes, short(retried)+"/s retried")
		}
		out.note = strings.Join(notes, ", ")
		p.Components = append(p.Components, out)
	}
}
