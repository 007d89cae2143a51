package twophase_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/state/twophase"
	"github.com/google/go-cmp/cmp"
)

// store is a cache in a map.
type store struct {
	mu     sync.Mutex
	values map[string]string
	fail   error
	pause  time.Duration // of each write
	sets   int
}

func (s *store) Get(_ context.Context, key string) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	return []byte(v), ok, nil
}

// fails has writes fail from now on; with nil they don't.
func (s *store) fails(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *store) write(f func()) error {
	time.Sleep(s.pause)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets++
	if s.fail != nil {
		return s.fail
	}
	f()
	return nil
}

func (s *store) Set(_ context.Context, key string, v []byte, _ time.Duration) error {
	return s.write(func() { s.values[key] = string(v) })
}

func (s *store) Delete(_ context.Context, key string) error {
	return s.write(func() { delete(s.values, key) })
}

func (s *store) all() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values)
}

// most is how many messages a world has.
const most = 8

// order is what a message does at a step.
type order struct {
	Op  string // set, add, del, get, none
	Key string
}

// script is a message: what it does at either step.
type script struct {
	ID     int
	Orders [2]order
}

// world is a pipeline of gate, step, gate, step, gate: a test opens the gates.
type world struct {
	t       *testing.T
	store   *store
	use     *twophase.Use // one for both steps, so that a root is settled in one go, as in the model
	closing string        // the error that Close is to give; "": none

	mu     sync.Mutex
	resume map[int]func(func(*engine.Message) error) // at a gate
	at     map[int]int                               // the gate at which a message is
	saw    map[string]string                         // results by message and step
	plan   *runtime.Plan
	cancel context.CancelFunc
	done   chan runtime.Report
}

func newWorld(t *testing.T, scripts []script) *world {
	w := &world{t: t, store: &store{values: map[string]string{}}, resume: map[int]func(func(*engine.Message) error){},
		at: map[int]int{}, saw: map[string]string{}, done: make(chan runtime.Report, 1)}
	w.use = twophase.Join(enginetest.Env(), "c", w.store)
	src := &enginetest.Source{Takes: engine.TakesOne, Endless: true}
	for i, s := range scripts {
		s.ID = i
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		src.Payloads = append(src.Payloads, string(text))
	}
	var steps engine.Steps
	for i := range 3 {
		steps = append(steps, enginetest.Step(fmt.Sprint("gate", i),
			func(_ context.Context, m *engine.Message) error { return w.gate(i, m) }))
		if i < 2 {
			steps = append(steps, engine.StepSpec{Name: fmt.Sprint("step", i), Use: enginetest.Processing(actor{w, i})})
		}
	}
	w.plan = enginetest.Build(t, &engine.Pipeline{
		Name: "world", Inputs: enginetest.Named("in", src.Input()), Processors: steps,
		Outputs: enginetest.Named("out", (&enginetest.Sink{}).Output()),
		Engine:  engine.EngineSpec{Workers: 2},
	})
	stop, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	go func() { w.done <- w.plan.Run(stop, context.Background()) }()
	synctest.Wait()
	return w
}

func read(m *engine.Message) (s script) {
	if err := json.Unmarshal(m.Bytes(), &s); err != nil {
		panic(err)
	}
	return s
}

func (w *world) gate(i int, m *engine.Message) error {
	s := read(m)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resume[s.ID], w.at[s.ID] = m.Park(), i
	return nil
}

// open lets a message through its gate; an error fails it there.
func (w *world) open(id int, err error) {
	w.mu.Lock()
	resume := w.resume[id]
	delete(w.resume, id)
	delete(w.at, id)
	w.mu.Unlock()
	resume(func(*engine.Message) error { return err })
	synctest.Wait()
	time.Sleep(time.Minute) // virtual: the cache's writes are made
	synctest.Wait()
}

func (w *world) note(id, step int, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saw[fmt.Sprintf("%d.%d", id, step)] = what
}

// actor carries out orders.
type actor struct {
	w *world
	i int
}

func (a actor) Process(ctx context.Context, b *engine.Batch) error {
	use := a.w.use
	for m := range b.All() {
		s := read(m)
		o := s.Orders[a.i]
		value := fmt.Appendf(nil, "%d.%d", s.ID, a.i)
		switch o.Op {
		case "set", "del":
			use.Write(ctx, []twophase.Write{{M: m, Key: o.Key, Value: value, Delete: o.Op == "del"}})
		case "get":
			v, ok, err := use.Get(ctx, o.Key)
			if err != nil {
				return err
			}
			if !ok {
				v = []byte("none")
			}
			a.w.note(s.ID, a.i, string(v))
		case "add":
			use.Add(ctx, []twophase.Add{{M: m, Key: o.Key, Value: value}}, func(m *engine.Message, added bool) error {
				a.w.note(read(m).ID, a.i, fmt.Sprint(added))
				return nil
			})
		}
	}
	return nil
}

// model is the expected outcome, written down as plainly as possible.
type model struct {
	cache   map[string]string
	pending []entry // oldest first
	waits   []entry // likewise
	at      map[int]int
	saw     map[string]string
}

type entry struct {
	id, step int
	key      string
	value    string // "" deletes
}

// outcomes reports whether a key may have a value, and may have none, for a
// message: over all fates of the others that are not known.
func (m *model) outcomes(id int, key string) map[bool]bool {
	others := map[int]bool{}
	for _, e := range m.pending {
		others[e.id] = e.id != id
	}
	all := map[bool]bool{}
	for fates := range 1 << most {
		value := m.cache[key]
		for _, e := range m.pending {
			if e.key == key && (!others[e.id] || fates>>e.id&1 == 1) {
				value = e.value
			}
		}
		all[value != ""] = true
	}
	return all
}

func (m *model) step(id, step int, o order) {
	e := entry{id: id, step: step, key: o.Key, value: fmt.Sprintf("%d.%d", id, step)}
	name := e.value
	switch o.Op {
	case "del":
		e.value = ""
		m.pending = append(m.pending, e)
	case "set":
		m.pending = append(m.pending, e)
	case "get":
		m.saw[name] = m.cache[o.Key]
		for _, p := range m.pending {
			if p.key == o.Key {
				m.saw[name] = p.value
			}
		}
		if m.saw[name] == "" {
			m.saw[name] = "none"
		}
	case "add":
		if !m.try(e) {
			m.waits = append(m.waits, e)
			return
		}
	}
	m.at[id] = step + 1
	m.retry()
}

// try carries out an add if its outcome is certain.
func (m *model) try(e entry) bool {
	states := m.outcomes(e.id, e.key)
	if len(states) > 1 {
		return false
	}
	if added := states[false]; added {
		m.pending = append(m.pending, e)
		m.saw[e.value] = "true"
	} else {
		m.saw[e.value] = "false"
	}
	return true
}

func (m *model) retry() {
	for i := 0; i < len(m.waits); i++ {
		if e := m.waits[i]; m.try(e) {
			m.at[e.id] = e.step + 1
			m.waits = slices.Delete(m.waits, i, i+1)
			i = -1 // it may decide for others
		}
	}
}

// end settles a message: what it wrote counts over what was written before it,
// and is in the cache at once.
func (m *model) end(id int, well bool) {
	for well {
		i := slices.IndexFunc(m.pending, func(e entry) bool { return e.id == id })
		if i < 0 {
			break
		}
		e := m.pending[i]
		if e.value == "" {
			delete(m.cache, e.key)
		} else {
			m.cache[e.key] = e.value
		}
		n := 0
		for j, p := range m.pending {
			if j > i || p.key != e.key {
				m.pending[n] = p
				n++
			}
		}
		m.pending = m.pending[:n]
	}
	m.pending = slices.DeleteFunc(m.pending, func(e entry) bool { return e.id == id })
	m.retry()
}

// The pipeline's view of the cache, the cache itself, and who waits are those of
// a model that is carried out one event at a time.
func TestTheOverlayIsThatOfTheModel(t *testing.T) {
	for seed := range uint64(300) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { against(t, rand.New(rand.NewPCG(seed, 1))) })
		}) {
			return
		}
	}
}

func against(t *testing.T, r *rand.Rand) {
	scripts := make([]script, 2+r.IntN(most-1))
	keys := "ab"[:1+r.IntN(2)]
	ops := []string{"set", "add", "add", "add", "del", "get"}
	for i := range scripts {
		for j := range 2 {
			scripts[i].Orders[j] = order{ops[r.IntN(len(ops))], string(keys[r.IntN(len(keys))])}
		}
		if o := &scripts[i].Orders; o[0].Key > o[1].Key { // so that nobody waits in a circle
			o[0].Key, o[1].Key = o[1].Key, o[0].Key
		}
	}
	w := newWorld(t, scripts)
	m := &model{cache: map[string]string{}, at: map[int]int{}, saw: map[string]string{}}
	for i := range scripts {
		m.at[i] = 0
	}
	var log []string
	check := func() {
		t.Helper()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, diff := range []string{cmp.Diff(m.at, w.at), cmp.Diff(m.saw, w.saw), cmp.Diff(m.cache, w.store.all())} {
			if diff != "" {
				t.Fatalf("after\n%s\n(-want +got)\n%s", strings.Join(log, "\n"), diff)
			}
		}
	}
	check()
	for len(m.at) > 0 {
		ids := slices.Sorted(maps.Keys(m.at))
		id := ids[r.IntN(len(ids))]
		gate := m.at[id]
		delete(m.at, id)
		if gate < 2 {
			log = append(log, fmt.Sprintf("%d: %v", id, scripts[id].Orders[gate]))
			w.open(id, nil)
			m.step(id, gate, scripts[id].Orders[gate])
		} else {
			well := r.IntN(2) == 0
			log = append(log, fmt.Sprintf("%d ends, well: %v", id, well))
			var err error
			if !well {
				err = errors.New("scripted")
			}
			w.open(id, err)
			m.end(id, well)
		}
		check()
	}
	if len(m.waits) > 0 {
		t.Fatalf("the model waits for ever: %+v", m.waits)
	}
	w.cancel()
	if rep := <-w.done; rep.Err != nil || rep.Stats.Roots.InFlight != 0 {
		t.Errorf("%+v", rep)
	}
	if err := w.use.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
