package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// printStages prints what every stage is doing.
func (p *process) printStages() {
	for _, s := range p.Snapshots() {
		fmt.Fprint(p.con, stagesText(s))
	}
}

// stagesText formats a snapshot for people.
func stagesText(s engine.Snapshot) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "flowd: "+s.Pipeline+": "+format+"\n", args...) }
	line("%s, %s received, %d in flight (%d of %d bytes), oldest %v, %d waiting outside the queues, %d of them for a retry",
		s.State, amount(s.Stats.Roots.Received), s.Messages, s.Bytes, s.MaxBytes,
		s.OldestUnsettled.Round(time.Millisecond), s.Waiting, s.Retries)
	for _, in := range s.Inputs {
		line("input %s: %s, %s read, %d restarts%s", in.Name, in.State, amount(in.Received), in.Restarts,
			because(in.Err))
	}
	if s.OldestAt != "" {
		line("oldest in flight: %s", s.OldestAt)
	}
	if h := s.Held; h != nil {
		line("oldest waiting: %s, %v old, for %s, continues in %v%s", h.At, h.Age.Round(time.Millisecond), h.For,
			h.Due.Round(time.Millisecond), because(h.Err))
	}
	line("lanes: %d of %d busy", s.LanesBusy, s.Lanes)
	for _, st := range s.Steps {
		line("step %s: %s in, %d failed", st.Name, amount(st.In), st.Failed)
	}
	for _, x := range s.Batchers {
		if x.Name != "" {
			line("batcher %s: %d in open batches", x.Name, x.Open)
		}
	}
	for _, o := range s.Outputs {
		line("output %s: %d queued (%d bytes), %d of %d writes in flight, %s written, %d failed, breaker %s%s", o.Name,
			o.Queued, o.QueuedBytes, o.Writing, o.Concurrency, amount(o.Written), o.Failed, o.Breaker, because(o.Err))
	}
	for _, x := range s.Stuck {
		line("stuck: %s of %s since %v", x.What, x.Place, time.Since(x.Since).Round(time.Second))
	}
	return b.String()
}

func because(err string) string {
	if err == "" {
		return ""
	}
	return ": " + err
}
