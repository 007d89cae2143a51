package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/components/inner"
)

// do is a step over whole batches.
type do func(b *engine.Batch) error

func (f do) Process(_ context.Context, b *engine.Batch) error { return f(b) }

func splitAt(at string) do {
	return func(b *engine.Batch) error {
		for m := range b.All() {
			if body := string(m.Bytes()); strings.Contains(body, at) {
				b.Split(m, func(yield func([]byte, error) bool) {
					for _, part := range strings.Split(body, at) {
						if !yield([]byte(part), nil) {
							return
						}
					}
				})
			}
		}
		return nil
	}
}

// merge merges the messages whose payloads begin so.
func mergeAll(prefix string) do {
	return func(b *engine.Batch) error {
		var of []*engine.Message
		var bodies []string
		for m := range b.All() {
			if body := string(m.Bytes()); strings.HasPrefix(body, prefix) {
				of, bodies = append(of, m), append(bodies, body)
			}
		}
		b.Merge([]byte(strings.Join(bodies, "+")), slices.Values(of))
		return nil
	}
}

// edit does what messages say: those that end in ! fail, in ? are filtered.
func edit(b *engine.Batch) error {
	for m := range b.All() {
		body := string(m.Bytes())
		switch {
		case strings.HasSuffix(body, "!"):
			m.Fail(engine.Errorf(engine.Rejected, "no %s", body))
		case strings.HasSuffix(body, "?"):
			m.Drop()
		case strings.HasSuffix(body, "~"):
			m.Meta = m.Meta.With("more", body)
		case strings.HasSuffix(body, "-"): // as it is
		default:
			m.SetBytes([]byte("(" + body + ")"))
		}
	}
	return nil
}

// through has a batch go through steps as jobs of a pool do, and says what is there
// then, and what has ended.
func through(t *testing.T, b *engine.Batch, steps ...engine.Processor) string {
	t.Helper()
	taken := runtime.NewRunner(do(func(b *engine.Batch) error {
		of := slices.Collect(b.All())
		jobs := inner.Copy(of)
		inner.Freeze(jobs)
		r, err := Run(t.Context(), runtime.NewRunner(steps...), slices.Collect(jobs.All()))
		if err != nil {
			return err
		}
		if !r.fits(len(of)) {
			t.Errorf("it does not fit: %+v", r)
		}
		r.All(b, of)
		return nil
	}))
	if err := taken.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return shown(b)
}

func shown(b *engine.Batch) string {
	var all []string
	for m := range b.All() {
		text := string(m.Bytes())
		if m.Meta.Len() > 0 {
			text += fmt.Sprint(m.Meta.Map())
		}
		all = append(all, text)
	}
	for m := range b.Ended() {
		text := "filtered " + string(m.Bytes())
		if err := m.Err(); err != nil && !m.Dropped() {
			text = fmt.Sprintf("failed %s: %s", m.Bytes(), err)
		}
		all = append(all, text)
	}
	return strings.Join(all, " | ")
}

func TestAWholeBatchComesBack(t *testing.T) {
	const both, apart, meta = "have both split and merged", "have separated the parts",
		"have given the parts of this message different metadata"
	for _, r := range []struct {
		name, in string
		steps    []engine.Processor
		want     string // what contains … only has to begin and end so
	}{
		{"edits", "a b- c~", []engine.Processor{do(edit)}, "(a) | b- | c~map[more:c~]"},
		{"ends", "a b! c? d", []engine.Processor{do(edit)}, "(a) | (d) | failed b!: no b! | filtered c?"},
		{"a split", "a,b c", []engine.Processor{splitAt(","), do(edit)}, "(a) | (b) | (c)"},
		{"a split in one", "a, c", []engine.Processor{splitAt(","),
			do(func(b *engine.Batch) error { return dropEmpty(b) })}, "a | c"},
		{"a split whose parts are filtered in part", "1?,2,3? 4", []engine.Processor{splitAt(","), do(edit)},
			"(2) | (4)"},
		{"a split whose parts are all filtered", "1?,3? 4", []engine.Processor{splitAt(","), do(edit)},
			"(4) | filtered 1?,3?"},
		{"a split of which a part fails", "1,2!,3? 4", []engine.Processor{splitAt(","), do(edit)},
			"(4) | failed 1,2!,3?: no 2!"},
		{"a merge", "a1 b a2 a3", []engine.Processor{mergeAll("a")}, "b | a1+a2+a3"},
		{"a merge of edited ones", "a1 b- a2", []engine.Processor{do(edit), mergeAll("(")}, "b- | (a1)+(a2)"},
		{"a merge that fails", "a1 b a2!", []engine.Processor{mergeAll("a"), do(edit)},
			"(b) | failed a1: no a1+a2! | failed a2!: no a1+a2!"},
		{"a merge that is filtered", "a1 b a2?", []engine.Processor{mergeAll("a"), do(edit)},
			"(b) | filtered a1 | filtered a2?"},
		{"a merge that is split", "a1 b a2", []engine.Processor{mergeAll("a"), splitAt("+")},
			"b | failed a1: …" + both},
		{"a split that is merged with another", "a1,x a2 b", []engine.Processor{splitAt(","), mergeAll("a")},
			"b | failed a1,x: …" + both},
		{"a split that failed in part, merged with another", "a!,a- a2-",
			[]engine.Processor{splitAt(","), do(edit), mergeAll("a")}, "failed a!,a-: no a! | failed a2-: …" + both},
		{"parts that are moved apart", "a,b c", []engine.Processor{splitAt(","), do(moveFirstBack)},
			"c | failed a,b: …" + apart},
		{"parts with metadata of their own", "a~,b- c", []engine.Processor{splitAt(","), do(edit)},
			"(c) | failed a~,b-: …" + meta},
	} {
		b := jobsOf(strings.Fields(r.in)...)
		got := through(t, b, r.steps...)
		begin, hint, open := strings.Cut(r.want, "…")
		if open && (!strings.HasPrefix(got, begin) || !strings.Contains(got, hint)) || !open && got != r.want {
			t.Errorf("%s: got  %s\nwant %s", r.name, got, r.want)
		}
	}
}

func dropEmpty(b *engine.Batch) error {
	for m := range b.All() {
		if m.Size() == 0 {
			m.Drop()
		}
	}
	return nil
}

func moveFirstBack(b *engine.Batch) error {
	all := slices.Collect(b.All())
	b.Order(slices.Values(append(all[1:], all[0])))
	return nil
}

// TestAMergeFromBeforeIsOneMessage has the pool after a merge, whose parts have Refs of
// their input.
func TestAMergeFromBeforeIsOneMessage(t *testing.T) {
	for name, steps := range map[string][]engine.Processor{
		"b- | a1-+a2-":  {do(edit)},
		"b- | (a1-+a2)": {do(edit)},
		"b- | 1 | 2":    {do(rename), splitAt(",")},
		"b- | [a1-+a]":  {mergeAll("a"), do(bracket)},
	} {
		last := "a2"
		switch {
		case strings.Contains(name, "a2-"):
			last = "a2-"
		case strings.Contains(name, "["):
			last = "a"
		}
		b := jobsOf("a1-", "b-", last)
		for m := range b.All() {
			m.Ref += 40
		}
		if err := runtime.NewRunner(mergeAll("a")).Run(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if got := through(t, b, steps...); got != name {
			t.Errorf("got  %s\nwant %s", got, name)
		}
	}
}

func rename(b *engine.Batch) error {
	for m := range b.All() {
		if strings.HasPrefix(string(m.Bytes()), "a") {
			m.SetBytes([]byte("1,2"))
		}
	}
	return nil
}

func bracket(b *engine.Batch) error {
	for m := range b.All() {
		if strings.HasPrefix(string(m.Bytes()), "a") {
			m.SetBytes([]byte("[" + string(m.Bytes()) + "]"))
		}
	}
	return nil
}

// TestAPartWithTheWholeBodyIsCarried is of a split one part of which is all of it.
func TestAPartWithTheWholeBodyIsCarried(t *testing.T) {
	whole := do(func(b *engine.Batch) error {
		for m := range b.All() {
			body := m.Bytes()
			b.Split(m, func(yield func([]byte, error) bool) { _ = yield(body, nil) && yield([]byte("more"), nil) })
		}
		return nil
	})
	of := slices.Collect(jobsOf("all").All())
	r, err := Run(t.Context(), runtime.NewRunner(whole), of)
	if err != nil || len(r.Made) != 2 || !r.Made[0].SameBody {
		t.Fatalf("got %+v, %v", r, err)
	}
	r.Made[0].Body = nil // as it travels
	b := jobsOf("all")
	if err := runtime.NewRunner(do(func(b *engine.Batch) error {
		r.All(b, slices.Collect(b.All()))
		return nil
	})).Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := shown(b); got != "all | more" {
		t.Errorf("got %s", got)
	}
}

func TestOneMessageComesBack(t *testing.T) {
	for _, r := range []struct{ name, in, want string }{
		{"edited", "a", "(a)"},
		{"as it is", "a-", "a-"},
		{"with metadata", "a~", "a~map[more:a~]"},
		{"failed", "a!", "failed a!: no a!"},
		{"filtered", "a?", "filtered a?"},
		{"one part is left", "1?,2", "(2)"},
		{"two parts", "1,2",
			"failed 1,2: the steps of the pool have turned one message into 2, which can't come back as one (split after the pool)"},
		{"a part fails", "1,2!", "failed 1,2!: no 2!"},
	} {
		b := jobsOf(r.in)
		err := runtime.NewRunner(do(func(b *engine.Batch) error {
			of := slices.Collect(b.All())
			got, err := Run(t.Context(), runtime.NewRunner(splitAt(","), do(edit)), of)
			if err != nil {
				return err
			}
			if err := got.One(of[0]); err != nil {
				of[0].Fail(err)
			}
			return nil
		})).Run(t.Context(), b)
		if got := shown(b); err != nil || got != r.want {
			t.Errorf("%s: got  %s (%v)\nwant %s", r.name, got, err, r.want)
		}
	}
}

func TestGoneIsAFateOfItsOwn(t *testing.T) {
	r := &Result{Ends: []End{{Gone: true}}}
	b := jobsOf("a")
	for m := range b.All() {
		if err := r.One(m); err != nil {
			t.Error(err)
		}
	}
	if b.Len() != 1 || shown(b) != "" {
		t.Errorf("got %s", shown(b))
	}
}
