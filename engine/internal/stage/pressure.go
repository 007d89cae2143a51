package stage

import (
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// relieve sends open batches on when readers or lanes wait for credits that nothing else can free: the oldest first, a
// tenth of the credits, to outputs with an idle writer. It is called whenever that may have become so.
func (x *balance) relieve() {
	x.ease()
	readers, lanes := x.credits.Waiting()
	readers += int(x.intake.replaying.Load())
	if readers+lanes == 0 || !x.lanes.queue.Stuck(lanes) {
		return
	}
	var ask []*batcher
	hungry := false
	for _, b := range x.batching.batchers {
		open, incoming := b.keeps()
		if incoming {
			return
		}
		for _, o := range b.leaves {
			if o.hungry() {
				hungry = true
				if open > 0 {
					ask = append(ask, b)
				}
				break
			}
		}
	}
	if hungry && len(ask) == 0 && len(x.batching.groups) > 0 {
		x.relieveGroups()
	}
	for _, b := range ask {
		b.relieve(max(1, x.layout.MaxMessages/10))
	}
}

// relieveGroups closes a group when everything else rests: its messages hold the credits.
func (x *balance) relieveGroups() {
	if !slices.ContainsFunc(x.batching.groups, func(g *group) bool { return !g.stage.rests() }) {
		for _, g := range x.batching.groups {
			if g.flush(engine.ByPressure) {
				return
			}
		}
	}
}

// sent counts the batches that have left a batcher or group, by trigger.
type sent map[engine.Trigger]int64

// add counts a batch, and says whether it is the first that pressure has sent on before it was complete.
func (s sent) add(why engine.Trigger) (cut bool) {
	s[why]++
	return why == engine.ByPressure && s[why] == 1
}

// early is empty if no batch has left before it was complete.
func (s sent) early(place string) (all []Early) {
	if s[engine.ByPressure] == 0 {
		return nil
	}
	e := Early{Place: place, Cut: s[engine.ByPressure]}
	for _, n := range s {
		e.Sent += n
	}
	return []Early{e}
}

// warnEarly warns that outputs get more and smaller batches than are configured.
func (s *settlement) warnEarly(place string) {
	s.Log.Warn("batches leave before they are complete: open ones hold all that may be in flight ("+EarlyRemedy+")",
		"at", place, "max_in_flight.messages", s.layout.MaxMessages, "max_in_flight.bytes", s.layout.MaxBytes)
}

// EarlyRemedy says what to do about batches that leave early.
const EarlyRemedy = "raise engine.max_in_flight, or let batches be smaller, or leave sooner"

// Early is how many batches of a batcher or group have left, and how many before they were complete.
type Early struct {
	Place     string // "batcher lake"
	Sent, Cut int64
}

// Early are the batchers and groups that have sent batches before they were complete.
func (r *Run) Early() (all []Early) {
	for _, b := range r.batching.batchers {
		b.mu.Lock()
		all = append(all, b.sent.early(b.place())...)
		b.mu.Unlock()
	}
	for _, g := range r.batching.groups {
		g.mu.Lock()
		all = append(all, g.sent.early(g.place())...)
		g.mu.Unlock()
	}
	return all
}

func (b *batcher) place() string { return "batcher " + b.plan.Name }

func (g *group) place() string { return "step " + g.plan.Name }

// ease lets paused readers go on when the queues are half empty. It is called whenever that may be so.
func (x *balance) ease() { x.intake.pace.Ease(x.crowded) }

// crowded says whether the queues of all lanes, or of all outputs that are up, are longer than a part of what readers may be
// ahead by.
func (x *balance) crowded(part int) bool {
	ahead := max(flow.Ahead/x.lanes.queue.Lanes, 2*flow.SlowRun, 2*x.layout.Steps.Together)
	if x.lanes.queue.Crowded(ahead/part, flow.AheadBytes/part) {
		return true
	}
	all := false
	for _, o := range x.writing.sinks {
		if o.plan.Feeds {
			if !o.crowded(flow.Ahead/part, flow.AheadBytes/part) {
				return false
			}
			all = true
		}
	}
	return all
}

// room is where steps take bytes for what they add to messages.
func (s *settlement) room() *steps.Room {
	return &steps.Room{Credits: &s.credits, Limit: s.layout.MaxBytes}
}
