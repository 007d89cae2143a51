package metric

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/metrics"
	"github.com/flowd-io/flowd/internal/testing/steptest"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

// gathered returns the registry as name{label=value} = number, one line per series. A histogram has its count and sum.
func gathered(t *testing.T, env engine.Env) []string {
	t.Helper()
	families, err := metrics.Registry(env.Shared).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := fmt.Sprint(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			if h := m.GetHistogram(); h != nil {
				value = fmt.Sprintf("%d of %v", h.GetSampleCount(), h.GetSampleSum())
			}
			lines = append(lines, fmt.Sprintf("%s{%s} = %s", f.GetName(), strings.Join(labels, ","), value))
		}
	}
	return lines
}

func made(t testing.TB, c Config, env engine.Env) engine.Processor {
	t.Helper()
	if c.MaxSeries == 0 {
		c.MaxSeries = defaults.MaxSeries
	}
	p, err := build(c, env)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func labels(pairs ...string) schema.Map[expr.Expr] {
	var all []schema.Entry[expr.Expr]
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, schema.Entry[expr.Expr]{Key: pairs[i], Value: expr.MustCompile(pairs[i+1])})
	}
	return schema.MapOf(all...)
}

func TestMetric(t *testing.T) {
	m := "m"
	tests := []struct {
		name   string
		config Config
		in     []string
		want   []string
	}{
		{"a counter counts messages", Config{Counter: &m}, []string{`{}`, `nope`, ``}, []string{"m{} = 3"}},
		{"a counter without labels shows from the start", Config{Counter: &m}, nil, []string{"m{} = 0"}},
		{"a counter adds values", Config{Counter: &m, Value: expr.MustCompile("n")},
			[]string{`{"n":1}`, `{"n":2.5}`, `{"n":0}`}, []string{"m{} = 3.5"}},
		{"an integer beyond int64 is a number", Config{Counter: &m, Value: expr.MustCompile("n")},
			[]string{`{"n":100000000000000000000}`}, []string{"m{} = 1e+20"}},
		{"a gauge is the last value", Config{Gauge: &m, Value: expr.MustCompile("n")}, []string{`{"n":1}`, `{"n":-2}`},
			[]string{"m{} = -2"}},
		{"a histogram counts values", Config{Histogram: &m, Value: expr.MustCompile("n")},
			[]string{`{"n":1}`, `{"n":-2}`, `{"n":5}`}, []string{"m{} = 3 of 4"}},
		{"a duration counts in seconds", Config{Gauge: &m, Value: expr.MustCompile(`duration("1500ms")`)},
			[]string{`{}`}, []string{"m{} = 1.5"}},
		{"labels come from the message", Config{Counter: &m, Labels: labels("b", "y", "a", "x")},
			[]string{`{"x":"p","y":"q"}`, `{"x":"p","y":"q"}`, `{"x":"q","y":"p"}`},
			[]string{"m{a=p,b=q} = 2", "m{a=q,b=p} = 1"}},
		{"labels are text of scalars", Config{Counter: &m, Labels: labels("a", "x")},
			[]string{`{"x":1}`, `{"x":1.0}`, `{"x":true}`, `{"x":null}`, `{}`, `{"x":""}`, `{"x":"1"}`, `{"x":1.5}`},
			[]string{"m{a=} = 3", "m{a=1} = 3", "m{a=1.5} = 1", "m{a=true} = 1"}},
		{"escapes are read", Config{Counter: &m, Labels: labels("a", "x")},
			[]string{`{"x":"a\"\u0041"}`}, []string{"m{a=a\"A} = 1"}},
		{"a long label is cut between characters", Config{Counter: &m, Labels: labels("a", "x")},
			[]string{`{"x":"` + strings.Repeat("x", 255) + `äz"}`, `{"x":"` + strings.Repeat("x", 255) + `ö"}`},
			[]string{"m{a=" + strings.Repeat("x", 255) + "} = 2"}},
		{"beyond max_series all labels say other",
			Config{Counter: &m, Labels: labels("a", "x", "b", `"k"`), MaxSeries: 1}, []string{`{"x":1}`, `{"x":2}`,
				`{"x":3}`, `{"x":1}`}, []string{"m{a=1,b=k} = 2", "m{a=other,b=other} = 2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := enginetest.Env()
			for _, o := range enginetest.Apply(t, made(t, tt.config, env), tt.in...) {
				if o.Fate != "live" {
					t.Errorf("%s: %s %v", o.Body, o.Fate, o.Err)
				}
			}
			if diff := cmp.Diff(tt.want, gathered(t, env)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestMetadataOfAnyKindIsALabel(t *testing.T) {
	env, name := enginetest.Env(), "m"
	p := made(t, Config{Counter: &name, Labels: labels("a", `meta("k")`)}, env)
	b := enginetest.Batch(`{}`)
	for m := range b.All() {
		m.Meta = m.Meta.With("k", "\xff\xfe!")
	}
	if err := p.Process(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := gathered(t, env); len(got) != 1 || !strings.Contains(got[0], "\ufffd!} = 1") {
		t.Errorf("%q", got)
	}
}

func TestAnInvalidValueFailsOnlyItsMessage(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "text", Step: `{"metric": {"counter": "m", "value": "n"}}`, In: []string{`{"n":"1"}`, `{"n":1}`},
			Want: []string{`{"n":1}`, "failed expression: value of metric m: n is a string, not a number"}},
		{Name: "nothing", Step: `{"metric": {"gauge": "m", "value": "n"}}`, In: []string{`{}`},
			Want: []string{"failed expression: value of metric m: n is null, not a number"}},
		{Name: "less than nothing for a counter", Step: `{"metric": {"counter": "m", "value": "n"}}`,
			In: []string{`{"n":-1}`}, Want: []string{"failed expression: value of counter m is -1"}},
		{Name: "no document", Step: `{"metric": {"counter": "m", "labels": {"a": "n"}}}`, In: []string{`{`},
			Want: []string{"failed decode: "}},
		{Name: "a list as a label", Step: `{"metric": {"counter": "m", "labels": {"a": "n"}}}`,
			In: []string{`{"n":[1]}`}, Want: []string{"failed expression: label a is an array"}},
		{Name: "a number out of range", Step: `{"metric": {"gauge": "m", "value": "n"}}`,
			In: []string{`{"n":1e999}`, `{"n":1` + strings.Repeat("0", 400) + `}`},
			Want: []string{"failed expression: n: the number 1e999 is out of range",
				"failed expression: value of metric m"}},
	})
}

func TestRefused(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "no kind", Step: `{"metric": {"value": "1"}}`, Want: "needs one of counter, gauge, histogram"},
		{Name: "two kinds", Step: `{"metric": {"counter": "a", "gauge": "b"}}`, Want: "exclude each other"},
		{Name: "a name", Step: `{"metric": {"counter": "a-b"}}`, Want: "not a valid metric name"},
		{Name: "a label", Step: `{"metric": {"counter": "a", "labels": {"b-c": "1"}}}`, Want: "not a valid label name"},
		{Name: "a gauge without a value", Step: `{"metric": {"gauge": "a"}}`, Want: "a gauge needs a value"},
		{Name: "buckets of a counter", Step: `{"metric": {"counter": "a", "buckets": [1]}}`,
			Want: "a counter has no buckets"},
		{Name: "buckets in no order", Step: `{"metric": {"histogram": "a", "value": "1", "buckets": [2, 1]}}`,
			Want: "ascending order"},
		{Name: "no series", Step: `{"metric": {"counter": "a", "max_series": 0}}`, Want: "at least 1"},
	})
	env, name := enginetest.Env(), "m"
	made(t, Config{Counter: &name}, env)
	if _, err := build(Config{Gauge: &name, MaxSeries: 1000}, env); err == nil ||
		!strings.Contains(err.Error(), "counter in another step") {
		t.Errorf("error %v, want one about the counter", err)
	}
}

func TestProcessor(t *testing.T) {
	steptest.Conforms(t, `{"metric": {"histogram": "m", "value": "n", "labels": {"a": "x"}}}`, `{"n":1,"x":"a"}`,
		`{"n":2}`)
}

func TestACounterAllocatesNothingPerMessage(t *testing.T) {
	name, b := "m", engine.NewBatch(256)
	for i := range 256 {
		b.Add(fmt.Appendf(nil, `{"n":%d,"country":"%c"}`, i%100, 'A'+i%26))
	}
	for about, c := range map[string]struct {
		config Config
		most   float64
	}{
		"plain":   {Config{Counter: &name}, 0},
		"labeled": {Config{Counter: &name, Labels: labels("a", "country", "b", "n")}, 4},
	} {
		p := made(t, c.config, enginetest.Env())
		run := func() {
			if err := p.Process(context.Background(), b); err != nil {
				t.Fatal(err)
			}
		}
		run()
		if n := testing.AllocsPerRun(50, run); n > c.most {
			t.Errorf("%s: %v allocations for 256 messages, want at most %v", about, n, c.most)
		}
	}
}

func BenchmarkLabels(b *testing.B) {
	name := "m"
	p := made(b, Config{Histogram: &name, Value: expr.MustCompile("n"), Labels: labels("a", "country")},
		enginetest.Env())
	batch := engine.NewBatch(256)
	for i := range 256 {
		batch.Add(fmt.Appendf(nil, `{"n":%d,"country":"%c"}`, i%100, 'A'+i%26))
	}
	start := time.Now()
	for b.Loop() {
		_ = p.Process(context.Background(), batch)
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(b.N)/256, "ns/msg")
}
