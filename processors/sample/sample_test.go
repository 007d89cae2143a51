package sample_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/sample"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// kept returns the payloads that a new instance of the step keeps.
func kept(t testing.TB, step string, in []string) (bodies []string) {
	t.Helper()
	for _, o := range enginetest.Apply(t, enginetest.New(t, engine.Processors, step), in...) {
		if o.Fate == "live" {
			bodies = append(bodies, o.Body)
		}
	}
	return bodies
}

// users returns n payloads, each with its own key.
func users(n int) (payloads []string) {
	for i := range n {
		payloads = append(payloads, fmt.Sprintf(`{"id":%d,"name":"user-%d"}`, i, i))
	}
	return payloads
}

func TestAFractionIsKept(t *testing.T) {
	const n = 10_000
	in := users(n)
	for _, fraction := range []float64{0.001, 0.1, 0.5, 0.9} {
		for _, options := range []string{`"seed": 1`, `"seed": 18446744073709551615`, `"key": "id"`, `"key": "name"`,
			`"key": "id", "seed": 7`, `"key": "nil", "seed": 3`} {
			step := fmt.Sprintf(`{"sample": {"fraction": %v, %s}}`, fraction, options)
			got, want := float64(len(kept(t, step, in))), n*fraction
			if sigma := math.Sqrt(want * (1 - fraction)); math.Abs(got-want) > 4*sigma {
				t.Errorf("%s keeps %v of %v, want %v ± %.0f", step, got, n, want, 4*sigma)
			}
		}
	}
}

func TestSample(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "all", Step: `{"sample": 1}`, In: []string{"a", "b"}, Want: []string{"a", "b"}},
		{Name: "none", Step: `{"sample": 0}`, In: []string{"a", "b"}, Want: []string{"dropped", "dropped"}},
		{Name: "all keys", Step: `{"sample": {"fraction": 1, "key": "k"}}`, In: []string{`{"k":1}`, `{}`},
			Want: []string{`{"k":1}`, `{}`}},
		{Name: "no key", Step: `{"sample": {"fraction": 0.0, "key": "k"}}`, In: []string{`{"k":1}`, `{}`},
			Want: []string{"dropped", "dropped"}},
		{Name: "a key that can't be told fails its message", Step: `{"sample": {"fraction": 1, "key": "k + 1"}}`,
			In: []string{`{"k":"x"}`, `{"k":1}`}, Want: []string{`{"k":1}`, "failed expression: "}},
		// These results must be the same in all releases, for users that sample in two places.
		{
			Name: "verdicts of keys never change", Step: `{"sample": {"fraction": 0.5, "key": "k"}}`,
			In: []string{`{"k":"a"}`, `{"k":"b"}`, `{"k":"c"}`, `{"k":"d"}`, `{"k":1}`, `{"k":2}`, `{"k":true}`,
				`{"k":[1]}`},
			Want: []string{`{"k":"d"}`, `{"k":1}`, `{"k":2}`, `{"k":true}`, `{"k":[1]}`, "dropped", "dropped",
				"dropped"},
		},
	})
}

func TestWithoutAKeyWhatIsKeptChangesWithEachStart(t *testing.T) {
	in := users(1000)
	if slices.Equal(kept(t, `{"sample": 0.5}`, in), kept(t, `{"sample": 0.5}`, in)) {
		t.Error("two starts keep the same messages")
	}
	seeded := `{"sample": {"fraction": 0.5, "seed": 42}}`
	if diff := cmp.Diff(kept(t, seeded, in), kept(t, seeded, in)); diff != "" {
		t.Errorf("two starts with one seed differ:\n%s", diff)
	}
	if slices.Equal(kept(t, seeded, in), kept(t, `{"sample": {"fraction": 0.5, "seed": 43}}`, in)) {
		t.Error("two seeds keep the same messages")
	}
}

func TestASeedMakesAnotherChoiceOfKeys(t *testing.T) {
	in := users(10_000)
	first := kept(t, `{"sample": {"fraction": 0.1, "key": "id"}}`, in)
	if diff := cmp.Diff(first, kept(t, `{"sample": {"fraction": 0.1, "key": "id", "seed": 0}}`, in)); diff != "" {
		t.Errorf("seed 0 is not the default:\n%s", diff)
	}
	both := len(kept(t, `{"sample": {"fraction": 0.1, "key": "id", "seed": 1}}`, first))
	if want := len(first) / 10; both < want/2 || both > want*2 {
		t.Errorf("two seeds share %d of %d keys, want about %d", both, len(first), want)
	}
}

func TestMessagesWithoutAKeyAreSampledOneByOne(t *testing.T) {
	in := slices.Repeat([]string{`{}`}, 1000)
	if n := len(kept(t, `{"sample": {"fraction": 0.5, "key": "k"}}`, in)); n < 400 || n > 600 {
		t.Errorf("%d of 1000 are kept, want about half", n)
	}
}

// TestEqualKeysShareTheirVerdict writes keys in several ways, and mixes batches.
func TestEqualKeysShareTheirVerdict(t *testing.T) {
	spellings := [][]string{
		{`{"k":1}`, `{"k":1.0}`, `{"k":1e0}`, `{"other":[],"k": 1 }`},
		{`{"k":"é"}`, `{"k":"\u00e9"}`},
		{`{"k":{"a":1,"b":[2]}}`, `{"k":{"b":[2.0],"a":1.0}}`},
	}
	rapid.Check(t, func(rt *rapid.T) {
		small := rapid.Float64Range(0, 1).Draw(rt, "fraction")
		large := rapid.Float64Range(small, 1).Draw(rt, "larger fraction")
		seed := rapid.Uint64().Draw(rt, "seed")
		step := func(f float64) string {
			return fmt.Sprintf(`{"sample": {"fraction": %v, "key": "k", "seed": %d}}`, f, seed)
		}
		for _, alike := range spellings {
			n, more := len(kept(t, step(small), alike)), len(kept(t, step(large), alike))
			if n != 0 && n != len(alike) {
				rt.Fatalf("%d of %q are kept, want all or none", n, alike)
			}
			if more < n {
				rt.Fatalf("%v keeps %q, the larger %v does not", small, alike, large)
			}
		}
	})
}

func TestSampleRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no fraction", Step: `{"sample": {"key": "k"}}`, Want: "fraction"},
		{Name: "more than all", Step: `{"sample": 1.01}`, Want: "at most 1"},
		{Name: "a percentage", Step: `{"sample": 10}`, Want: "at most 1"},
		{Name: "less than none", Step: `{"sample": {"fraction": -0.1}}`, Want: "at least 0"},
		{Name: "no number", Step: `{"sample": ".nan"}`, Want: "number"},
		{Name: "infinity", Step: `{"sample": "Inf"}`, Want: ""},
		{Name: "a negative seed", Step: `{"sample": {"fraction": 0.1, "seed": -1}}`, Want: "seed"},
		{Name: "a peer's word", Step: `{"sample": {"retain": 10}}`, Want: "`fraction`"},
	})
}

func TestSampleConforms(t *testing.T) {
	steptest.Conforms(t, `{"sample": {"fraction": 1, "key": "this.a"}}`, `{"a":1}`, `{"b":2}`)
}

func TestSampleAllocatesNothingPerMessage(t *testing.T) {
	p := enginetest.New(t, engine.Processors, `{"sample": {"fraction": 1, "key": "name"}}`)
	in := users(256)
	per := func(n int) float64 {
		b := enginetest.Batch(in[:n]...)
		return testing.AllocsPerRun(20, func() {
			if err := p.Process(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := per(16), per(256); many > few+2 {
		t.Errorf("16 messages take %v allocations, 256 take %v", few, many)
	}
}
