package deadletters

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/schema"
)

// Feed is the input of a pipeline that replays dead letters. A letter is removed from its source when the pipeline has
// delivered, filtered or dead-lettered its message. All others stay there. Set the exported fields before it is used.
type Feed struct {
	Source Source
	// Pick says which letters are replayed. nil: all. An error ends the replay.
	Pick func(*Letter) (bool, error)
	// Edit changes a letter before it is replayed. nil: none is changed. The letter for which it returns an error stays.
	Edit func(*Letter) error
	// Limit is how many letters are replayed; 0: no limit.
	Limit int64
	// Before is when the replay began. Letters that have failed for the first time later are its own.
	Before time.Time
	// Replay identifies the replay in the metadata of new dead letters; see [Enter]. Letters with it are its own.
	Replay string
	// Target returns the output to which alone the message of a letter goes, or "". The letter for which it returns an error
	// stays. nil: messages go to all outputs.
	Target func(*Letter) (output string, err error)

	mu      sync.Mutex // guards the fields below, and calls of Source
	tally   Tally
	reads   int64             // letters that were picked
	size    int               // of a typical payload, in bytes; 0: unknown
	targets map[uint64]string // outputs of messages that have not ended, by Ref
	ended   bool
	err     error
}

// Tally says how the letters of a replay have ended.
type Tally struct {
	Fates    map[engine.Fate]int64 // of messages that have ended
	Failed   Summary               // why messages have failed, including those that became dead letters again
	Left     int64                 // letters that can't be replayed
	Skipped  int64                 // letters that were not picked
	Why      Summary               // why letters can't be replayed
	Replayed int64                 // letters that were removed from their source
	Unsure   int64                 // letters that were replayed, but may still be in their source, too
}

// Tally returns the counts so far, and the error that has ended the replay.
func (f *Feed) Tally() (Tally, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tally, f.err
}

// Traits says that letters stay in their source one by one.
func (f *Feed) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

// Read reads letters until one of them is replayed.
func (f *Feed) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for added := 0; added == 0; {
		if f.ended || f.err != nil {
			return f, engine.ErrEnd
		}
		room := b.Room()
		if f.Limit > 0 {
			room = int(min(int64(room), f.Limit-f.reads))
		}
		if room <= 0 {
			return f, engine.ErrEnd
		}
		all, err := f.Source.Read(ctx, f.atOnce(room))
		sum := 0
		for i := range all {
			if sum += len(all[i].Payload); i == len(all)-1 {
				f.size = max(1, sum/len(all))
			}
		}
		for i := range all {
			ok, err := f.add(b, &all[i])
			if err != nil {
				f.err = err
				return f, engine.ErrEnd
			}
			if ok {
				added++
			}
		}
		switch {
		case err == engine.ErrEnd:
			f.ended = true
		case ctx.Err() != nil:
			return f, nil
		case err != nil: // the source has given back its letters
			f.err = err
		}
	}
	return f, nil
}

// bytesAtOnce is roughly how much a read of the source returns, in bytes.
const bytesAtOnce = 1 << 20

// atOnce returns how many letters to read if there is room for some.
func (f *Feed) atOnce(room int) int {
	if f.size == 0 {
		return min(room, 16)
	}
	return min(room, max(1, bytesAtOnce/f.size))
}

// add adds the message of a letter to a batch.
func (f *Feed) add(b *engine.Batch, l *Letter) (added bool, err error) {
	own := f.Replay != "" && l.replay() == f.Replay
	if own || !f.Before.IsZero() && l.Cause.FirstFailed.After(f.Before) {
		f.tally.Skipped++
		return false, nil
	}
	if f.Pick != nil {
		if ok, err := f.Pick(l); err != nil || !ok {
			f.tally.Skipped++
			return false, err
		}
	}
	f.reads++
	target, err := "", l.Broken
	if err == nil && f.Edit != nil {
		err = f.Edit(l)
	}
	if err == nil && f.Target != nil {
		target, err = f.Target(l)
	}
	if err != nil {
		f.leave(*l, err)
		return false, nil
	}
	m := b.Add(l.Payload)
	m.Meta, m.Ref = l.Original(), l.Ref
	if target != "" {
		m.Meta = m.Meta.WithOwn(targetName, target)
		if f.targets == nil {
			f.targets = map[uint64]string{}
		}
		f.targets[l.Ref] = target
	}
	return true, nil
}

// elsewhere is why a letter stays that goes to other outputs than the one that failed it.
func elsewhere(output string) error {
	return fmt.Errorf("the pipeline does not send it to output %s any more", output)
}

// leave counts a letter that can't be replayed.
func (f *Feed) leave(l Letter, why error) {
	f.tally.Left++
	f.tally.Why.Add(Letter{Message: l.Message, Where: l.Where, Cause: Cause{Message: why.Error()}})
}

// Ack removes the letters whose messages have ended well from the source. A dead letter has ended well if the pipeline has
// written a new one.
func (f *Feed) Ack(ctx context.Context, results []engine.Result) (again []engine.Result, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var done []uint64
	for _, r := range results {
		if r.Fate == engine.Delivered || r.Fate == engine.DeadLettered || r.Fate == engine.Filtered && f.targets[r.Ref] == "" {
			done = append(done, r.Ref)
		}
	}
	if len(done) > 0 {
		if err := f.Source.Done(ctx, done); err != nil {
			f.tally.Unsure += int64(len(done))
			if f.err == nil {
				f.err = fmt.Errorf("letters that were replayed can't be removed: %w", err)
			}
		} else {
			f.tally.Replayed += int64(len(done))
		}
	}
	for _, r := range results {
		f.count(r)
	}
	return nil, nil
}

// count counts one result.
func (f *Feed) count(r engine.Result) {
	target := f.targets[r.Ref]
	delete(f.targets, r.Ref)
	if r.Fate == engine.Filtered && target != "" {
		f.leave(Letter{Message: queue.Message{Ref: r.Ref}}, elsewhere(target))
		return
	}
	if r.Err != nil && r.Err.Unfinished() {
		return
	}
	if f.tally.Fates == nil {
		f.tally.Fates = map[engine.Fate]int64{}
	}
	f.tally.Fates[r.Fate]++
	if r.Err != nil && r.Fate != engine.Delivered && r.Fate != engine.Filtered {
		f.tally.Failed.Add(Letter{Message: queue.Message{Ref: r.Ref}, Cause: Cause{Class: string(r.Err.Class),
			Message: r.Err.Error(), Step: r.Err.Step, Output: r.Err.Output, Attempt: r.Err.Attempt}})
	}
}

// replayName is the metadata of a dead letter that a replay has made. Brokers keep times in seconds, so times do not tell
// whether a letter in the queue was there when the replay began.
const replayName = "error_replay"

// replay returns the replay that has made the letter, or "".
func (l *Letter) replay() string {
	v := l.Meta[replayName]
	if all, several := v.([]any); several && len(all) > 0 {
		v = all[len(all)-1]
	}
	text, _ := v.(string)
	return text
}

// targetName is the metadata of a message that goes to one output only. It is an input's own, so outputs do not send it.
const targetName = "flowd_replay_output"

// Enter makes a feed the only input of a pipeline: in place of the one that is named, whose steps it keeps, or of the only
// one. limit is for reading letters; nil: there is none.
func Enter(p *engine.Pipeline, input string, feed *Feed, limit *engine.RateLimit) error {
	at, err := entryOf(p, input)
	if err != nil {
		return err
	}
	for name, o := range p.Outputs.All() {
		if o.Use.Name == "pipe" {
			return fmt.Errorf("pipeline %s: output %s is a pipe to another pipeline, which a replay does not run (replay to a running "+
				"flowd, with --to %[1]s)", p.Name, name)
		}
	}
	p.Engine.ExactlyOnce = false // the source of letters takes part in no transaction
	in := &at.Value
	place := in.Use.Place
	in.Use = engine.Use(func(engine.Env) (engine.Input, error) { return feed, nil })
	in.Use.Place, in.Concurrency, in.RateLimit = place, 1, limit
	p.Inputs = schema.MapOf(at)
	gate(p, feed.Replay)
	return nil
}

// gate gives each output of a pipeline a step that drops the messages for other outputs, and gives dead letters the id of
// the replay.
func gate(p *engine.Pipeline, replay string) {
	whole := *p // as it was
	var outputs []schema.Entry[engine.OutputSpec]
	for _, e := range p.Outputs.Entries() {
		step := engine.StepSpec{Name: "replay", Use: engine.Use(func(engine.Env) (engine.Processor, error) {
			return onlyFor(partsOf(&whole, e.Key), replay), nil
		})}
		step.Use.Place, step.Place = e.Value.Use.Place, e.Value.Place
		e.Value.Processors = append(engine.Steps{step}, e.Value.Processors...)
		outputs = append(outputs, e)
	}
	p.Outputs = schema.MapOf(outputs...)
}

// entryOf returns the input of a name, or the only input if that is "".
func entryOf(p *engine.Pipeline, name string) (schema.Entry[engine.InputSpec], error) {
	all := p.Inputs.Entries()
	names := make([]string, len(all))
	for i, e := range all {
		if names[i] = e.Key; e.Key == name || name == "" && len(all) == 1 {
			return e, nil
		}
	}
	why := fmt.Sprintf("there is no input %q", name)
	if name == "" {
		why = "there are several inputs, and dead letters do not say which of them read the message"
	}
	return schema.Entry[engine.InputSpec]{}, fmt.Errorf("pipeline %s: %s (name one: %s)", p.Name, why, strings.Join(names, ", "))
}

// onlyFor makes a step that drops the messages for other outputs. An output of dead letters gets all.
func onlyFor(names []string, replay string) engine.Processor {
	return engine.Edit{ProcessorFunc: func(_ context.Context, m *engine.Message) error {
		if m.DeadLetter() && replay != "" {
			m.Meta = m.Meta.With(replayName, replay)
		}
		target, some := m.Meta.Get(targetName)
		if !some {
			return nil
		}
		if name, _ := target.(string); !m.DeadLetter() && !slices.Contains(names, name) {
			m.Drop()
			return nil
		}
		m.Meta = m.Meta.Without(targetName)
		return nil
	}}
}

// partsOf returns the outputs that an output consists of, and those that consist of it, with the output itself.
func partsOf(p *engine.Pipeline, name string) []string {
	names := []string{name}
	for i := 0; i < len(names); i++ {
		for other, o := range p.Outputs.All() {
			members := engine.TraitsOf(o.Use.Config).Members
			if other == names[i] {
				for _, m := range members {
					if !slices.Contains(names, m) {
						names = append(names, m)
					}
				}
			}
			if slices.Contains(members, names[i]) && !slices.Contains(names, other) {
				names = append(names, other)
			}
		}
	}
	return names
}
