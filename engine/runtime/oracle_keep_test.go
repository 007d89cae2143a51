package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	_ "github.com/flowd-io/flowd/internal/state/caches"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/dedupe"
	_ "github.com/flowd-io/flowd/processors/split"
	_ "github.com/flowd-io/flowd/processors/state"
)

// keeping has the properties of a pipeline whose steps keep something by key. These are real steps: they wait for each other's
// messages, are in groups or outside of them, work on parts and on whole messages, and use caches that are unreachable for a while.
type keeping struct {
	caches map[string]*cachetest.Away
	slow   bool          // a call of a cache takes time, for which a drain may be too short
	shared engine.Shared // of a plan and its successor
	splits bool          // each root is a list of pieces, which is split
	early  bool          // the scripted step comes before roots are split
	steps  []*keeper
	ends   sightings           // after all steps
	pieces map[string][]string // by root: pieces that outputs may see
	places map[string]place    // by piece
	text   []string            // description of the steps, for people who examine a seed

	mu      sync.Mutex // guards the field below, and all sightings
	written map[string]bool
}

// keeper is a step that keeps something.
type keeper struct {
	name, field string
	cache       string // "": it keeps its own memory
	dedupes     bool   // otherwise it is a step `state`
	came, went  sightings
}

// sightings records the messages that passed a place.
type sightings map[string]bool

// The key fields, and how many values each has.
var keyFields = map[string]int{"k": 5, "a": 3, "d": 40}

// The verbs of the scripted step, and those of outputs.
var (
	deedsOfSteps   = []string{"pass", "pass", "pass", "drop", "fail", "slow", "park", "delay", "flaky1", "flaky2"}
	deedsOfOutputs = []string{"pass", "pass", "pass", "pass", "refuse", "reject", "shaky1", "outpark0", "outpark1"}
)

// newKeeping makes caches, some of which are unreachable for a while.
func (w *world) newKeeping() *keeping {
	k := &keeping{caches: map[string]*cachetest.Away{}, pieces: map[string][]string{}, places: map[string]place{},
		written: map[string]bool{}, ends: sightings{}, splits: !w.maybe(3)}
	k.early = k.splits && w.maybe(2)
	for i := range 1 + w.r.IntN(2) {
		c := &cachetest.Away{Cache: cachetest.New(w.t, `{"memory": {}}`), From: w.began.Add(w.ms(0, 300)),
			Reads: w.maybe(2)}
		if w.maybe(2) {
			c.Cache = &cachetest.Process{Server: &cachetest.Server{Latency: w.ms(0, 20)}}
			k.slow = true
		}
		c.Until = c.From.Add(time.Duration(w.one(0, 500, 5000, 60_000)) * time.Millisecond)
		k.caches[fmt.Sprint("c", i)] = c
	}
	return k
}

// plugins returns the caches for a plan.
func (k *keeping) plugins() map[string]engine.Plugin[engine.Cache] {
	all := map[string]engine.Plugin[engine.Cache]{}
	for name, c := range k.caches {
		all[name] = engine.Use(func(engine.Env) (engine.Cache, error) {
			if _, ok := c.Cache.(engine.SharedCache); ok {
				return cachetest.SharedAway{Away: c}, nil
			}
			return c, nil
		})
	}
	return all
}

// away reports whether a cache is unreachable, or was until so recently that it was not tried again yet.
func (k *keeping) away() bool {
	for _, c := range k.caches {
		if now := time.Now(); c.Until.After(c.From) && !now.Before(c.From) && now.Before(c.Until.Add(6*time.Second)) {
			return true
		}
	}
	return false
}

// payload makes a root. Roots that are split have a list of their pieces.
func (k *keeping) payload(w *world, in, id, key int) string {
	text := func(part int, deeds ...string) string {
		return fmt.Sprintf(`{"in":%d,"id":%d,"k":%d,"part":%d,"a":%d,"d":%d,"do":%q`, in, id, key, part,
			w.r.IntN(keyFields["a"]), w.r.IntN(keyFields["d"]), deeds[w.r.IntN(len(deeds))])
	}
	all := slices.Concat(deedsOfSteps, deedsOfOutputs)
	if !k.splits {
		root := text(0, all...) + "}"
		k.pieces[root], k.places[root] = []string{root}, place{id, 0}
		return root
	}
	ofRoot, ofPiece := []string{"pass"}, all
	if k.early {
		ofRoot, ofPiece = deedsOfSteps, deedsOfOutputs
	}
	var pieces []string
	for part := range w.r.IntN(5) {
		piece := text(part, ofPiece...) + "}"
		k.places[piece] = place{id, part}
		pieces = append(pieces, piece)
	}
	root := text(-1, ofRoot...) + `,"list":[` + strings.Join(pieces, ",") + "]}"
	k.pieces[root] = pieces
	return root
}

// remember makes the steps in a random order, some of them in a group.
func (w *world) remember() {
	k := w.keeping
	var parts []engine.Steps // each of them stays together
	var names []string
	for range 1 + w.r.IntN(4) {
		name, steps := w.keeper()
		parts, names = append(parts, steps), append(names, name)
	}
	insert := func(from int, name string, step engine.StepSpec) int {
		at := from + w.r.IntN(len(parts)-from+1)
		parts, names = slices.Insert(parts, at, engine.Steps{step}), slices.Insert(names, at, name)
		return at
	}
	step := engine.StepSpec{Name: "script", Use: Processing(&script{stakes: w.stakes, tries: map[string]int{}})}
	if w.stepTries = w.tries; w.maybe(2) {
		step.Retry, w.stepTries = w.retry(0, 1, 2, 3, 5)
	}
	switch split := k.decoded(w, `{"split": "list"}`); {
	case k.early:
		insert(insert(0, "script", step)+1, "split", split)
	case k.splits:
		insert(insert(0, "split", split)+1, "script", step)
	default:
		insert(0, "script", step)
	}
	for i := 0; i < len(parts); {
		to := min(len(parts), i+1+w.r.IntN(3))
		if !w.maybe(3) {
			w.p.Processors = append(w.p.Processors, parts[i]...)
			k.text = append(k.text, names[i])
			i++
			continue
		}
		g := group(engine.GroupConfig{Size: 1 + w.r.IntN(30), AtOnce: w.maybe(3),
			Timeout: []time.Duration{time.Second, 10 * time.Millisecond}[w.r.IntN(2)], Do: slices.Concat(parts[i:to]...)})
		if w.maybe(2) && !slices.Contains(names[i:to], "script") && !slices.Contains(names[i:to], "split") {
			g.When = expr.MustCond(`meta("id") % 3 != 0`)
		}
		w.p.Processors = append(w.p.Processors, g)
		k.text = append(k.text, fmt.Sprint("group of ", names[i:to], " when ", g.When))
		i = to
	}
	w.p.Processors = append(w.swell(w.p.Processors), k.notes(k.ends))
}

// keeper makes a step that keeps something, between two steps that note the messages before and after it.
func (w *world) keeper() (text string, steps engine.Steps) {
	k := w.keeping
	s := &keeper{name: fmt.Sprint("s", len(k.steps)), field: []string{"k", "a", "d"}[w.r.IntN(3)], dedupes: w.maybe(3),
		came: sightings{}, went: sightings{}}
	k.steps = append(k.steps, s)
	cache := ""
	if !w.maybe(4) {
		s.cache = fmt.Sprint("c", w.r.IntN(len(k.caches)))
		cache = fmt.Sprintf(`, "cache": %q`, s.cache)
	}
	if s.dedupes {
		text = fmt.Sprintf(`{"dedupe": {"key": "\"%s:\" + string(%s)", "window": "100h"%s}}`, s.name, s.field, cache)
	} else {
		text = fmt.Sprintf(`{"state": {"key": %q, "wait": %v, "set": {"n%s": "(state(\"n%s\") ?? 0) + 1",
			"all%s": "(state(\"all%s\") ?? \"\") + string(this.in) + \"/\" + string(id) + \"/\" + string(part) + \" \""}%s}}`,
			s.field, w.maybe(2), s.name, s.name, s.name, s.name, cache)
	}
	return text, engine.Steps{k.notes(s.came), k.decoded(w, text), k.notes(s.went)}
}

func (k *keeping) decoded(w *world, text string) engine.StepSpec {
	var steps engine.Steps
	steptest.Decode(w.t, "["+text+"]", &steps)
	return steps[0]
}

// notes returns a step that notes messages.
func (k *keeping) notes(who sightings) engine.StepSpec {
	return proc("notes", func(_ context.Context, b *engine.Batch) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		for m := range b.All() {
			who[string(m.Bytes())] = true
		}
		return nil
	})
}

// wrote notes that an output has written pieces.
func (k *keeping) wrote(pieces []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range pieces {
		k.written[p] = true
	}
}

// fates returns the fates that a root may have: the worst fate of its pieces, each of which may be a duplicate.
func (k *keeping) fates(w *world, root string) (all []engine.Fate) {
	duplicates := slices.ContainsFunc(k.steps, func(s *keeper) bool { return s.dedupes })
	worst := []engine.Fate{engine.Filtered}
	for _, piece := range k.pieces[root] {
		fates := w.scripted(piece)
		if duplicates {
			fates = append(fates, engine.Filtered)
		}
		var next []engine.Fate
		for _, f := range worst {
			for _, of := range fates {
				next = append(next, max(f, of))
			}
		}
		slices.Sort(next)
		worst = slices.Compact(next)
	}
	if !k.early {
		return worst
	}
	if duplicates {
		all = append(all, engine.Filtered)
	}
	for _, f := range w.scripted(root) {
		if f == engine.Delivered {
			all = append(all, worst...)
		} else {
			all = append(all, f)
		}
	}
	return all
}

// well returns the roots that were reported to their sources as delivered or filtered.
func (w *world) well() map[string]bool {
	all := map[string]bool{}
	for _, s := range w.sources {
		s.mu.Lock()
		for _, r := range s.told {
			if r.Fate <= engine.Delivered {
				all[s.Payloads[r.Ref]] = true
			}
		}
		s.mu.Unlock()
	}
	return all
}

// again notes that all roots that were not reported to their sources are read again.
func (k *keeping) again(w *world) {
	told := map[string]bool{}
	for _, s := range w.sources {
		s.mu.Lock()
		for _, r := range s.told {
			root := s.Payloads[r.Ref]
			told[root] = true
			for _, p := range k.pieces[root] {
				told[p] = true
			}
		}
		s.mu.Unlock()
	}
	begins := func(body string, _ bool) bool { return !told[body] }
	maps.DeleteFunc(k.ends, begins)
	for _, s := range k.steps {
		maps.DeleteFunc(s.came, begins)
		maps.DeleteFunc(s.went, begins)
	}
}

// kept compares the content of steps and caches with the fates of the messages.
func (k *keeping) kept(w *world, stopped bool) {
	good := map[string]bool{} // roots that ended well, and their pieces
	for root := range w.well() {
		good[root] = true
		for _, p := range k.pieces[root] {
			good[p] = true
			if k.ends[p] && !k.written[p] {
				w.t.Errorf("%s passed all steps and ended well, but no output has it", p)
			}
			if !k.ends[p] && !k.drops(root) && !k.drops(p) {
				w.t.Errorf("%s ended well, but is lost between the steps", p)
			}
		}
	}
	for _, s := range k.steps {
		if s.dedupes {
			s.once(w, good)
		} else if s.cache != "" {
			s.exact(w, good, stopped)
		}
	}
}

// drops reports whether a step had a reason to drop a message.
func (k *keeping) drops(body string) bool {
	if do, _ := deed(body); do == "drop" {
		return true
	}
	return slices.ContainsFunc(k.steps, func(s *keeper) bool { return s.dedupes && s.came[body] && !s.went[body] })
}

// key returns the key of a message for a step.
func (s *keeper) key(body string) string {
	_, after, _ := strings.Cut(body, `"`+s.field+`":`)
	return after[:strings.IndexAny(after, ",}")]
}

// once checks that one message of each key has passed. None has passed if all messages of the key failed, or if one that failed was
// in flight and the messages that would have waited for it in a circle were its duplicates. That message is then with its source.
func (s *keeper) once(w *world, good map[string]bool) {
	went, came, failed := map[string][]string{}, map[string]bool{}, map[string]bool{}
	for body := range s.came {
		switch key := s.key(body); {
		case !good[body]:
			failed[key] = true
		case s.went[body]:
			went[key] = append(went[key], body)
			came[key] = true
		default:
			came[key] = true
		}
	}
	for key := range came {
		switch n := len(went[key]); {
		case n > 1 && (s.cache != "" || w.successor == nil): // a successor has a memory of its own
			w.t.Errorf("%s: key %s went on %d times: %v", s.name, key, n, went[key])
		case n == 0 && !failed[key] && w.replays == 0:
			w.t.Errorf("%s: all of key %s were dropped", s.name, key)
		}
	}
}

// exact checks that the states in the cache are the result of the messages that ended well. If the run was cut short, some of these
// may not have been reported to their sources.
func (s *keeper) exact(w *world, good map[string]bool, stopped bool) {
	want := map[string][]string{}
	for body := range s.came {
		if good[body] {
			var in, id, k, part int
			_, _ = fmt.Sscanf(body, `{"in":%d,"id":%d,"k":%d,"part":%d`, &in, &id, &k, &part)
			want[s.key(body)] = append(want[s.key(body)], fmt.Sprintf("%d/%d/%d", in, id, part))
		}
	}
	for key := range keyFields[s.field] {
		var state map[string]any
		text := cachetest.Get(w.t, w.keeping.caches[s.cache].Cache, fmt.Sprint("state:", key))
		if err := json.Unmarshal([]byte(text), &state); text != "none" && err != nil {
			w.t.Fatalf("%s, key %d: %v", s.name, key, err)
		}
		all, _ := state["all"+s.name].(string)
		n, _ := state["n"+s.name].(float64)
		got, want := strings.Fields(all), want[fmt.Sprint(key)]
		if len(got) != int(n) {
			w.t.Errorf("%s, key %d: %d messages, and a count of %v", s.name, key, len(got), n)
		}
		if stopped || w.replays > 0 {
			got = slices.DeleteFunc(got, func(id string) bool { return !slices.Contains(want, id) })
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			w.t.Errorf("%s, key %d: the cache has %v, want %v", s.name, key, got, want)
		}
	}
}
