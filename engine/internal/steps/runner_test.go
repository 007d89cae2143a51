package steps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/steps"
)

// whole is a processor that gets all messages at once.
type whole func(*engine.Batch) error

func (f whole) Process(_ context.Context, b *engine.Batch) error { return f(b) }

// build builds the runner of steps inside another step.
func build(t *testing.T, list ...engine.StepSpec) *steps.Runner {
	t.Helper()
	r, err := engine.Steps(list).Build(Env())
	if err != nil {
		t.Fatal(err)
	}
	return r.(*steps.Runner)
}

// run runs steps over payloads. It returns the results in order, and then the messages that ended.
func run(t *testing.T, list []engine.StepSpec, payloads ...string) (all []string) {
	t.Helper()
	b := Batch(payloads...)
	if err := build(t, list...).Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		all = append(all, string(m.Bytes()))
	}
	for m := range b.Ended() {
		if err := m.Err(); err != nil {
			why, _, _ := strings.Cut(err.Error(), "\n")
			all = append(all, fmt.Sprintf("failed %s: %s: %s: %s", m.Bytes(), err.Step, err.Class, why))
		} else {
			all = append(all, "dropped "+string(m.Bytes()))
		}
	}
	return all
}

func wantRun(t *testing.T, list []engine.StepSpec, payloads, want []string) {
	t.Helper()
	if got := run(t, list, payloads...); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// add appends text to a payload, and notes it in the metadata.
func add(text string) engine.StepSpec {
	return Step("add "+text, func(_ context.Context, m *engine.Message) error {
		m.SetBytes([]byte(string(m.Bytes()) + text))
		m.Meta = m.Meta.With("added", text)
		return nil
	})
}

// breaks changes payloads, and then fails those that contain text.
func breaks(text string) engine.StepSpec {
	return Step("breaks", func(_ context.Context, m *engine.Message) error {
		if !bytes.Contains(m.Bytes(), []byte(text)) {
			return nil
		}
		m.SetBytes([]byte("half done"))
		return errors.New("no")
	})
}

func drops(text string) engine.StepSpec {
	return Step("drops", func(_ context.Context, m *engine.Message) error {
		if bytes.Contains(m.Bytes(), []byte(text)) {
			m.Drop()
		}
		return nil
	})
}

func use(name string, p engine.Processor) engine.StepSpec {
	return engine.StepSpec{Name: name, Use: Processing(p)}
}

// split splits payloads at commas. It stops with an error at a part "broken", and panics at "panic".
var split = use("split", whole(func(b *engine.Batch) error {
	for m := range b.All() {
		b.Split(m, parts(string(m.Bytes())))
	}
	return nil
}))

func parts(body string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for p := range strings.SplitSeq(body, ",") {
			switch {
			case p == "broken":
				yield(nil, engine.Errorf(engine.Rejected, "broken off"))
				return
			case p == "panic":
				panic("oh")
			case p != "" && !yield([]byte(p), nil):
				return
			}
		}
	}
}

// merge joins all messages.
var merge = use("merge", whole(func(b *engine.Batch) error {
	var all []string
	for m := range b.All() {
		all = append(all, string(m.Bytes()))
	}
	b.Merge([]byte(strings.Join(all, "+")), b.All())
	return nil
}))

func cases(name string, on engine.OnError, of ...engine.Case) engine.StepSpec {
	return engine.StepSpec{Name: name, OnError: on, Use: Processing(engine.Block{Cases: of})}
}

func when(condition string, do ...engine.StepSpec) engine.Case {
	c := engine.Case{Do: do}
	if condition != "" {
		c.When = expr.MustCond(condition)
	}
	return c
}

func guarded(condition string, s engine.StepSpec) engine.StepSpec {
	s.When = expr.MustCond(condition)
	return s
}

// named returns steps with names.
func named(name string, on engine.OnError, do ...engine.StepSpec) engine.StepSpec {
	return engine.StepSpec{Name: name, OnError: on, Use: Processing(engine.Block{Do: do})}
}

var (
	fails   = engine.OnError{}
	goesOn  = engine.OnError{Then: "continue"}
	dropped = engine.OnError{Then: "drop"}
	repairs = engine.OnError{Steps: engine.Steps{Step("repair", func(_ context.Context, m *engine.Message) error {
		if m.Err() == nil {
			return errors.New("there is no error to repair")
		}
		m.SetBytes([]byte(string(m.Bytes()) + "?" + m.Err().Step))
		return nil
	})}}
)

func TestMessagesGoThroughTheStepsThatTheirConditionsSelect(t *testing.T) {
	one, two := `raw()[0:1] == "1"`, `raw()[0:1] == "2"`
	in := []string{"1", "2", "3"}
	tests := []struct {
		name  string
		steps []engine.StepSpec
		want  []string
	}{
		{"no steps", nil, in},
		{"steps in order", []engine.StepSpec{add("a"), add("b")}, []string{"1ab", "2ab", "3ab"}},
		{"a step that is skipped", []engine.StepSpec{guarded(one, add("a")), add("b")}, []string{"1ab", "2b", "3b"}},
		{"the first case that holds", []engine.StepSpec{cases("switch", fails, when(one, add("a")), when(one, add("b")),
			when(two, add("c"), add("d"))), add("e")}, []string{"1ae", "2cde", "3e"}},
		{"the last case", []engine.StepSpec{cases("switch", fails, when(one, add("a")), when("", add("b")))},
			[]string{"1a", "2b", "3b"}},
		{"a switch that is skipped", []engine.StepSpec{guarded(one, cases("switch", fails, when("", add("a")))), add("b")},
			[]string{"1ab", "2b", "3b"}},
		{"a switch in a switch", []engine.StepSpec{cases("outer", fails, when("raw() != \"3\"", add("a"),
			cases("inner", fails, when(one, add("b")), when("", add("c"))), add("d")), when("", add("e"))), add("f")},
			[]string{"1abdf", "2acdf", "3ef"}},
		{"a list of steps", []engine.StepSpec{named("list", fails, add("a"), guarded(two, add("b"))), add("c")},
			[]string{"1ac", "2abc", "3ac"}},
		{"an empty case", []engine.StepSpec{cases("switch", fails, when(one), when("", add("a"))), add("b")},
			[]string{"1b", "2ab", "3ab"}},
		{"a message that is dropped", []engine.StepSpec{drops("2"), add("a")}, []string{"1a", "3a", "dropped 2"}},
		{"a condition that fails", []engine.StepSpec{guarded("int(raw()) / (int(raw()) - 2) > 0", add("a")), add("b")},
			[]string{"1b", "3ab", "failed 2: add a: expression: cannot divide by zero"}},
		{"a case whose condition fails", []engine.StepSpec{cases("switch", fails,
			when("int(raw()) / (int(raw()) - 2) > 0", add("a"))), add("b")},
			[]string{"1b", "3ab", "failed 2: switch: expression: cannot divide by zero"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantRun(t, tt.steps, in, tt.want) })
	}
}

func TestOnErrorDecidesAboutMessagesThatFailed(t *testing.T) {
	on := func(on engine.OnError, s engine.StepSpec) engine.StepSpec {
		s.OnError = on
		return s
	}
	block := func(on engine.OnError, do ...engine.StepSpec) engine.StepSpec {
		return cases("block", on, when("", do...))
	}
	okBad := []string{"ok", "bad"}
	tests := []struct {
		name     string
		steps    []engine.StepSpec
		in, want []string
	}{
		// Of a step.
		{"fail", []engine.StepSpec{breaks("bad")}, okBad, []string{"ok!", "failed half done: breaks: permanent: no"}},
		{"continue", []engine.StepSpec{on(goesOn, breaks("bad"))}, okBad, []string{"ok!", "bad!"}},
		{"drop", []engine.StepSpec{on(dropped, breaks("bad"))}, okBad, []string{"ok!"}},
		{"steps that repair it see the error", []engine.StepSpec{on(repairs, breaks("bad"))}, okBad,
			[]string{"ok!", "bad?breaks!"}},
		{"steps that fail as well", []engine.StepSpec{on(engine.OnError{Steps: engine.Steps{breaks("")}}, breaks("bad"))}, okBad,
			[]string{"ok!", "failed half done: breaks: permanent: no"}},
		{"a step that gets all messages at once", []engine.StepSpec{on(goesOn, use("all", whole(func(b *engine.Batch) error {
			for m := range b.All() {
				m.SetBytes([]byte("half done"))
			}
			return errors.New("no")
		})))}, okBad, []string{"ok!", "bad!"}},
		{"a condition", []engine.StepSpec{on(goesOn, guarded("1 / (size() - 3) < 0", add("1")))}, okBad, []string{"ok1!", "bad!"}},

		// Of a block.
		{"a block continues", []engine.StepSpec{block(goesOn, add("1"), breaks("bad"))}, okBad, []string{"ok1!", "bad!"}},
		{"a block drops", []engine.StepSpec{block(dropped, add("1"), breaks("bad"))}, okBad, []string{"ok1!"}},
		{"a block is repaired", []engine.StepSpec{block(repairs, add("1"), breaks("bad"))}, okBad, []string{"ok1!", "bad?breaks!"}},
		{"a list of steps continues", []engine.StepSpec{named("list", goesOn, add("1"), breaks("bad"))}, okBad,
			[]string{"ok1!", "bad!"}},
		{"a message that a block drops on purpose", []engine.StepSpec{block(goesOn, drops("bad"))}, okBad,
			[]string{"ok!", "dropped bad"}},
		{"a message that fails behind the block", []engine.StepSpec{block(goesOn, add("1")), breaks("bad")}, okBad,
			[]string{"ok1!", "failed half done: breaks: permanent: no"}},
		{"the inner of two blocks", []engine.StepSpec{block(dropped, add("1"), block(goesOn, add("2"), breaks("bad")), add("3"))},
			okBad, []string{"ok123!", "bad13!"}},
		{"the outer of two blocks", []engine.StepSpec{block(goesOn, add("1"), block(fails, add("2"), breaks("bad")), add("3"))},
			okBad, []string{"ok123!", "bad!"}},
		{"the outer block, when the inner one's repair fails", []engine.StepSpec{block(goesOn, add("1"),
			block(engine.OnError{Steps: engine.Steps{breaks("1")}}, breaks("bad")), add("3"))}, okBad, []string{"ok13!", "bad!"}},
		{"a case whose condition fails", []engine.StepSpec{cases("switch", goesOn, when("1 / (size() - 3) < 0", add("1")))}, okBad,
			[]string{"ok1!", "bad!"}},

		// Of splits and merges in a block.
		{"a part alone, as it was split off", []engine.StepSpec{block(goesOn, split, add("1"), breaks("bad"))},
			[]string{"a,bad,c"}, []string{"a1!", "bad!", "c1!"}},
		{"a part that was split off before the block", []engine.StepSpec{split, block(goesOn, add("1"), breaks("bad"))},
			[]string{"a,bad,c"}, []string{"a1!", "bad!", "c1!"}},
		{"the rest of a split that breaks off can't continue", []engine.StepSpec{block(goesOn, split, add("1"))},
			[]string{"a,broken"}, []string{"a1!", "failed a,broken: split: rejected: part 2: broken off"}},
		{"but can be dropped", []engine.StepSpec{block(dropped, split, add("1"))}, []string{"a,broken"}, []string{"a1!"}},
		{"a split that breaks off at once continues as a whole", []engine.StepSpec{block(goesOn, split, add("1"))},
			[]string{"broken"}, []string{"broken!"}},
		{"a split continues as a whole", []engine.StepSpec{on(goesOn, split)}, []string{"broken"}, []string{"broken!"}},
	}
	end := Step("end", func(_ context.Context, m *engine.Message) error {
		if m.Err() != nil {
			return errors.New("the error was not forgotten")
		}
		m.SetBytes([]byte(string(m.Bytes()) + "!"))
		return nil
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantRun(t, append(tt.steps, end), tt.in, tt.want) })
	}
}

func TestMetadataAndVarsGoBackWithThePayload(t *testing.T) {
	let := Step("let", func(_ context.Context, m *engine.Message) error {
		m.SetVars(m.Vars().With("x", 1))
		return nil
	})
	b := Batch("bad")
	if err := build(t, cases("block", goesOn, when("", add("1"), let, breaks("bad")))).Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for m := range b.All() {
		_, added := m.Meta.Get("added")
		_, kept := m.Vars().Get("x")
		if added || kept {
			t.Errorf("the block has left metadata %v and vars %v", m.Meta.Map(), kept)
		}
	}
}

func TestStepsSplitAndMerge(t *testing.T) {
	tests := []struct {
		name     string
		steps    []engine.StepSpec
		in, want []string
	}{
		{"parts take the place of the whole", []engine.StepSpec{split, add("!")}, []string{"a,b", "c"}, []string{"a!", "b!", "c!"}},
		{"parts skip the steps before the split", []engine.StepSpec{add("!"), split}, []string{"a,b"}, []string{"a", "b!"}},
		{"no part at all drops the message", []engine.StepSpec{split}, []string{"", "a"}, []string{"a", "dropped "}},
		{"an error fails the rest", []engine.StepSpec{split, add("!")}, []string{"a,broken,c", "d"},
			[]string{"a!", "d!", "failed a,broken,c: split: rejected: part 2: broken off"}},
		{"a panic fails the rest", []engine.StepSpec{split}, []string{"a,panic"},
			[]string{"a", "failed a,panic: split: panic: part 2: panic: oh"}},
		{"messages that are split twice", []engine.StepSpec{split, use("again", whole(func(b *engine.Batch) error {
			for m := range b.All() {
				b.Split(m, parts("x,"+string(m.Bytes())))
				b.Split(m, parts("never"))
			}
			return nil
		}))}, []string{"a,b"}, []string{"x", "a", "x", "b"}},
		{"a merge comes last", []engine.StepSpec{use("some", whole(func(b *engine.Batch) error {
			all := slices.Collect(b.All())
			b.Merge([]byte("m"), slices.Values(all[:2]))
			return nil
		})), add("!")}, []string{"a", "b", "c"}, []string{"c!", "m!"}},
		{"a merge of nothing", []engine.StepSpec{use("none", whole(func(b *engine.Batch) error {
			b.Merge([]byte("m"), slices.Values([]*engine.Message(nil)))
			return nil
		}))}, []string{"a"}, []string{"a"}},
		{"a merge in a case goes on behind it", []engine.StepSpec{cases("switch", fails, when(`raw() != "c"`, merge, add("1")),
			when("", add("2"))), add("3")}, []string{"a", "b", "c"}, []string{"c23", "a+b13"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantRun(t, tt.steps, tt.in, tt.want) })
	}
}

func TestPartsAreThoseOfTheRun(t *testing.T) {
	split := use("split", whole(func(b *engine.Batch) error {
		for m := range b.All() {
			b.Split(m, parts("a,b"))
		}
		return nil
	}))
	for _, r := range []struct {
		name  string
		steps []engine.StepSpec
		want  string
	}{
		{"nothing", nil, "[1] [2] [3]"},
		{"split", []engine.StepSpec{split}, "[1] [1] [2] [2] [3] [3]"},
		{"merged", []engine.StepSpec{merge}, "[1 2 3]"},
		{"merged twice", []engine.StepSpec{merge, merge}, "[1 2 3]"},
		{"split and merged", []engine.StepSpec{split, merge}, "[1 1 2 2 3 3]"},
		{"merged and split", []engine.StepSpec{merge, split}, "[1 2 3] [1 2 3]"},
		{"all of it", []engine.StepSpec{split, merge, split, merge, split},
			"[1 1 2 2 3 3 1 1 2 2 3 3] [1 1 2 2 3 3 1 1 2 2 3 3]"},
	} {
		b := Batch("x", "y", "z")
		ref := uint64(0)
		for m := range b.All() {
			ref++
			m.Ref = ref
		}
		if err := build(t, r.steps...).Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		var got []string
		for m := range b.All() {
			got = append(got, fmt.Sprint(slices.Collect(m.Parts())))
			for range m.Parts() {
				break
			}
		}
		if text := strings.Join(got, " "); text != r.want {
			t.Errorf("%s: got %s, want %s", r.name, text, r.want)
		}
	}
}

func TestOrder(t *testing.T) {
	letters := []string{"a", "b", "c", "d", "e"}
	foreign := Batch("x")
	tests := []struct {
		name string
		step func(b *engine.Batch, all []*engine.Message) error
		want []string
	}{
		{"some share out their places, the others stay", func(b *engine.Batch, all []*engine.Message) error {
			b.Order(slices.Values([]*engine.Message{all[4], all[0], all[2]}))
			return nil
		}, []string{"e", "b", "a", "d", "c"}},
		{"pointers hold until the call returns", func(b *engine.Batch, all []*engine.Message) error {
			b.Order(slices.Values([]*engine.Message{all[1], all[0]}))
			all[0].SetBytes([]byte("A"))
			return nil
		}, []string{"b", "A", "c", "d", "e"}},
		{"one that ends afterwards keeps its place", func(b *engine.Batch, all []*engine.Message) error {
			b.Order(slices.Values([]*engine.Message{all[2], all[1], all[0]}))
			all[1].Drop()
			return nil
		}, []string{"c", "a", "d", "e", "dropped b"}},
		{"a message counts once, and the last order counts", func(b *engine.Batch, all []*engine.Message) error {
			b.Order(slices.Values([]*engine.Message{all[4], all[3]}))
			b.Order(slices.Values([]*engine.Message{all[1], all[1], all[0], all[1]}))
			return nil
		}, []string{"b", "a", "c", "d", "e"}},
		{"parts of a split lie where the whole did", func(b *engine.Batch, all []*engine.Message) error {
			b.Order(slices.Values([]*engine.Message{all[4], all[0]}))
			b.Split(all[1], func(yield func([]byte, error) bool) {
				_ = yield([]byte("b1"), nil) && yield([]byte("b2"), nil)
			})
			return nil
		}, []string{"e", "b1", "b2", "c", "d", "a"}},
		{"an order of nothing", func(b *engine.Batch, _ []*engine.Message) error {
			b.Order(slices.Values([]*engine.Message(nil)))
			return nil
		}, letters},
		{"a message of another batch fails the call", func(b *engine.Batch, all []*engine.Message) error {
			for m := range foreign.All() {
				b.Order(slices.Values([]*engine.Message{all[1], all[0], m}))
			}
			return nil
		}, []string{"panic a", "panic b", "panic c", "panic d", "panic e"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := whole(func(b *engine.Batch) error { return tt.step(b, slices.Collect(b.All())) })
			var got []string
			for _, o := range Apply(t, p, letters...) {
				switch {
				case o.Fate == "live":
					got = append(got, o.Body)
				case o.Err != nil:
					got = append(got, string(o.Err.Class)+" "+o.Body)
				default:
					got = append(got, o.Fate+" "+o.Body)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
