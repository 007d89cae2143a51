package service

import (
	"runtime/metrics"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// State is what the process shows of itself: the answer of /api/v1/state. Scripts depend on its JSON: fields are
// added, never changed.
type State struct {
	Pipelines []Pipeline `json:"pipelines"`
	Live      Health     `json:"live"`
	Ready     Health     `json:"ready"`
	Memory    int64      `json:"memory_bytes"` // that the process has of the system
}

// Pipeline is a pipeline in a [State]. Counts begin at its start.
type Pipeline struct {
	Name     string           `json:"name"`
	State    string           `json:"state"`
	Since    time.Time        `json:"since,omitzero"` // of the state
	Started  time.Time        `json:"started,omitzero"`
	Messages Counts           `json:"messages"` // as they were read
	Pieces   Counts           `json:"pieces"`   // their pieces
	Failures map[string]int64 `json:"failures"` // by class

	Lanes           Share   `json:"lanes"`
	CreditMessages  Share   `json:"credit_messages"`
	CreditBytes     Share   `json:"credit_bytes"`
	Waiting         int     `json:"waiting"` // for a retry, a key or a limit
	Retrying        int     `json:"retrying"`
	OldestUnsettled float64 `json:"oldest_unsettled_seconds"`
	OldestPosition  string  `json:"oldest_position,omitempty"` // of that message, in its source's terms
	Held            *Held   `json:"held,omitempty"`            // the oldest message that waits for a retry or a limit
	DeadLetters     int64   `json:"dead_letters"`
	Latency         Latency `json:"latency"` // of messages, from read to settled

	Edges    []Edge    `json:"edges"` // the ways that messages can go
	Waits    []Wait    `json:"waits"` // what holds up what, causes first
	Inputs   []Input   `json:"inputs"`
	Steps    []Step    `json:"steps"` // in the order in which messages meet them
	Batchers []Batcher `json:"batchers"`
	Outputs  []Output  `json:"outputs"`
	Limits   []Rate    `json:"limits"`
	Tables   []Table   `json:"tables"`
	Stuck    []Stuck   `json:"stuck"`
}

// Edge is a way of messages from one component to another, such as "input web" and "output lake".
type Edge struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Failed bool   `json:"failed,omitempty"` // it is for dead letters
}

// Held is a message that waits for a retry or a limit.
type Held struct {
	Position string  `json:"position"` // in its source's terms
	For      string  `json:"for"`
	Error    string  `json:"error,omitempty"`
	Age      float64 `json:"age_seconds"`
	Due      float64 `json:"due_seconds"` // until it continues
}

// Counts are the counts of messages by fate.
type Counts struct {
	Received     int64 `json:"received"`
	Made         int64 `json:"made"`
	Consumed     int64 `json:"consumed"`
	Delivered    int64 `json:"delivered"`
	Filtered     int64 `json:"filtered"`
	DeadLettered int64 `json:"dead_lettered"`
	Dropped      int64 `json:"dropped"`
	Returned     int64 `json:"returned"`
	InFlight     int64 `json:"in_flight"`
}

// Share is how much of something is in use.
type Share struct {
	Used int `json:"used"`
	Max  int `json:"max"`
}

// Input is an input in a [State].
type Input struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	State    string `json:"state"`
	Received int64  `json:"received"`
	Bytes    int64  `json:"bytes"`
	Restarts int64  `json:"restarts"`
	Unacked  int64  `json:"unacked"`
	Error    string `json:"error,omitempty"`

	Progress *Progress `json:"progress,omitempty"` // of a source that knows its end

	Due       time.Time  `json:"due,omitzero"` // when it reads next, by its schedule
	Behind    float64    `json:"behind_seconds,omitempty"`
	Instances []Instance `json:"instances"`
	Sources   []Source   `json:"sources"` // of an input that reads several
}

// Instance is one instance of an input.
type Instance struct {
	State    string `json:"state"` // as that of an [Input]
	Received int64  `json:"received"`
	Restarts int64  `json:"restarts"`
	Error    string `json:"error,omitempty"`
}

// Source is one source of an input that reads several.
type Source struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`            // reading, held (for room), empty, restarting, ended or failed
	Weight   int       `json:"weight,omitempty"` // 0: sources have no weights
	Received int64     `json:"received"`
	InFlight int       `json:"in_flight"`
	Due      time.Time `json:"due,omitzero"` // not read before
	Error    string    `json:"error,omitempty"`
}

// Progress is how far an input has read.
type Progress struct {
	Unit      string     `json:"unit"`      // of positions: messages or bytes
	Lag       int64      `json:"lag"`       // sum of all positions
	Count     int        `json:"count"`     // number of positions
	Positions []Position `json:"positions"` // by name; only the first 1,000
	Revoked   int64      `json:"revoked"`   // positions that moved to other readers
	TakenAway int64      `json:"taken_away"`
}

// Position is a place in a part of a source.
type Position struct {
	Name    string `json:"name"`
	Settled int64  `json:"settled"`
	Read    int64  `json:"read"`
	End     int64  `json:"end"`
	Lag     int64  `json:"lag"`
}

// Step is a step in a [State].
type Step struct {
	Place    string  `json:"place"` // "processors", "input orders"
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Received int64   `json:"received"`
	Failed   int64   `json:"failed"`
	Retries  int64   `json:"retries"`
	Mean     float64 `json:"mean_seconds"`   // of its calls
	Latency  Latency `json:"latency"`        // of its calls
	Pool     *Pool   `json:"pool,omitempty"` // of a step that has workers
}

// Pool is the jobs and workers of a step.
type Pool struct {
	Waiting  int      `json:"waiting"`
	InFlight int      `json:"in_flight"`
	Slots    int      `json:"slots"`
	Workers  []Worker `json:"workers"` // in other processes
}

// Worker is a worker in another process.
type Worker struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Slots   int     `json:"slots"`
	Busy    int     `json:"busy"`
	Heard   float64 `json:"heard_seconds"`     // since its last heartbeat
	Refused string  `json:"refused,omitempty"` // why it takes no jobs
}

// Batcher is a batcher in a [State].
type Batcher struct {
	Name    string           `json:"name"`
	Open    int              `json:"open"`
	Batches map[string]int64 `json:"batches"`       // by trigger
	Mean    float64          `json:"mean_messages"` // per batch
}

// Output is an output in a [State].
type Output struct {
	Name         string    `json:"name"`
	Type         string    `json:"type"`
	DeadLetter   bool      `json:"dead_letter"`
	Queued       int       `json:"queued"`
	QueuedBytes  int       `json:"queued_bytes"`
	Writes       Share     `json:"writes"`
	Written      int64     `json:"written"`
	Failed       int64     `json:"failed"`
	Retries      int64     `json:"retries"`
	Abandoned    int64     `json:"abandoned_writes"`
	Mean         float64   `json:"mean_seconds"` // of its writes
	Latency      Latency   `json:"latency"`      // of its writes
	Delivery     Latency   `json:"delivery"`     // of messages, from read to written
	Breaker      string    `json:"breaker"`
	Error        string    `json:"error,omitempty"`
	FailingSince time.Time `json:"failing_since,omitzero"`
}

// Rate is a rate limit in a [State].
type Rate struct {
	Name     string  `json:"name"`
	Messages int     `json:"messages"`
	Per      float64 `json:"per_seconds"`
	Keys     int     `json:"keys"`
	Waited   int64   `json:"waited"` // messages that had to wait
}

// Table is a table of the process in a [State].
type Table struct {
	Name     string    `json:"name"`
	Format   string    `json:"format"`
	Rows     int       `json:"rows"` // 0: unknown
	Bytes    int64     `json:"bytes"`
	Read     time.Time `json:"read,omitzero"`
	Reloads  int64     `json:"reloads"`
	Failures int64     `json:"reload_failures"`
	Error    string    `json:"error,omitempty"` // why the newest version is not in use
}

// Stuck is a call past its own deadline.
type Stuck struct {
	Place string    `json:"place"`
	What  string    `json:"what"`
	Since time.Time `json:"since"`
}

func stateOf(all []engine.Snapshot) State {
	st := State{Pipelines: make([]Pipeline, 0, len(all)), Live: Live(all), Ready: Ready(all),
		Memory: memory()}
	for _, s := range all {
		st.Pipelines = append(st.Pipelines, pipelineOf(s))
	}
	return st
}

// memory returns how much memory the process has of the system, in bytes, as far as the runtime of Go knows.
func memory() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

func pipelineOf(s engine.Snapshot) Pipeline {
	p := Pipeline{
		Name: s.Pipeline, State: string(s.State), Since: s.Since, Started: s.Started,
		Messages: countsOf(s.Stats.Roots), Pieces: countsOf(s.Stats.Pieces), Failures: words(s.Failed),
		Lanes:          Share{s.LanesBusy, s.Lanes},
		CreditMessages: Share{s.Messages, s.MaxMessages}, CreditBytes: Share{s.Bytes, s.MaxBytes},
		Waiting: s.Waiting, Retrying: s.Retries,
		OldestUnsettled: s.OldestUnsettled.Seconds(), OldestPosition: s.OldestAt, DeadLetters: s.DeadLettered,
		Latency: latencyOf(s.Latency), Edges: []Edge{}, Waits: waitsOf(s),
		// Lists are never null, so that scripts need no check.
		Inputs: []Input{}, Steps: []Step{}, Batchers: []Batcher{}, Outputs: []Output{}, Limits: []Rate{},
		Tables: []Table{}, Stuck: []Stuck{},
	}
	if h := s.Held; h != nil {
		p.Held = &Held{h.At, h.For, h.Err, h.Age.Seconds(), h.Due.Seconds()}
	}
	for _, x := range s.Edges {
		p.Edges = append(p.Edges, Edge(x))
	}
	steps := func(place string, list []engine.StepState) {
		for _, x := range list {
			p.Steps = append(p.Steps, Step{place, x.Name, x.Type, x.In, x.Failed, x.Retries, mean(x.Latency),
				latencyOf(x.Latency), poolOf(x.Pool)})
		}
	}
	for _, x := range s.Inputs {
		p.Inputs = append(p.Inputs, inputOf(x))
		steps("input "+x.Name, x.Steps)
	}
	steps("processors", s.Steps)
	for _, x := range s.Batchers {
		p.Batchers = append(p.Batchers, Batcher{x.Name, x.Open, words(x.Batches), mean(x.Fill)})
		steps("batcher "+x.Name, x.Steps)
	}
	for _, x := range s.Outputs {
		p.Outputs = append(p.Outputs, Output{
			Name: x.Name, Type: x.Type, DeadLetter: x.DeadLetter,
			Queued: x.Queued, QueuedBytes: x.QueuedBytes, Writes: Share{x.Writing, x.Concurrency},
			Written: x.Written, Failed: x.Failed, Retries: x.Retries, Abandoned: x.Abandoned,
			Mean: mean(x.Latency), Latency: latencyOf(x.Latency), Delivery: latencyOf(x.Delivery), Breaker: x.Breaker,
			Error: x.Err, FailingSince: x.FailingSince,
		})
		steps("output "+x.Name, x.Steps)
	}
	for _, x := range limitsOf(s) {
		p.Limits = append(p.Limits, Rate{x.Name, x.Messages, x.Per.Seconds(), x.Keys, x.Limited})
	}
	for _, x := range s.Tables {
		p.Tables = append(p.Tables, Table{x.Name, x.Format, x.Rows, x.Bytes, x.Read, x.Reloads, x.Failed, x.Err})
	}
	for _, x := range s.Stuck {
		p.Stuck = append(p.Stuck, Stuck(x))
	}
	return p
}

func poolOf(x *engine.PoolState) *Pool {
	if x == nil {
		return nil
	}
	p := &Pool{x.Waiting, x.InFlight, x.Slots, []Worker{}}
	for _, w := range x.Workers {
		p.Workers = append(p.Workers, Worker{w.Name, w.Version, w.Slots, w.Busy, w.Heard.Seconds(), w.Refused})
	}
	return p
}

func inputOf(x engine.InputState) Input {
	in := Input{Name: x.Name, Type: x.Type, State: x.State, Received: x.Received, Bytes: x.Bytes, Restarts: x.Restarts, Unacked: x.Unacked,
		Error: x.Err, Progress: progressOf(x.Progress), Due: x.Due, Instances: []Instance{}, Sources: []Source{}}
	if x.Behind != nil {
		in.Behind = x.Behind.Seconds()
	}
	for _, i := range x.Instances {
		in.Instances = append(in.Instances, Instance{i.State, i.Received, i.Restarts, i.Err})
	}
	for _, s := range x.Sources {
		in.Sources = append(in.Sources, Source{s.Name, s.State, s.Weight, s.Received, s.InFlight, s.Due, s.Err})
	}
	return in
}

func progressOf(x *engine.Progress) *Progress {
	if x == nil {
		return nil
	}
	p := &Progress{Unit: "messages", Lag: x.Lag(), Count: len(x.Positions), Positions: []Position{}, Revoked: x.Revoked,
		TakenAway: x.TakenAway}
	if x.Bytes {
		p.Unit = "bytes"
	}
	for _, at := range x.Positions[:min(len(x.Positions), mostPositions)] {
		p.Positions = append(p.Positions, Position{at.Name, at.Settled, at.Read, at.End, at.Lag()})
	}
	return p
}

func countsOf(c engine.Counts) Counts {
	return Counts{
		Received: c.Received, Made: c.Made, Consumed: c.Consumed, InFlight: c.InFlight,
		Delivered: c.Ended[engine.Delivered], Filtered: c.Ended[engine.Filtered],
		DeadLettered: c.Ended[engine.DeadLettered], Dropped: c.Ended[engine.Dropped],
		Returned: c.Ended[engine.Returned],
	}
}

func words[K ~string](n map[K]int64) map[string]int64 {
	m := make(map[string]int64, len(n))
	for k, v := range n {
		m[string(k)] = v
	}
	return m
}

func mean(h engine.Histogram) float64 {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / float64(h.Count)
}
