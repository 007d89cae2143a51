package metrics_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/metrics"
	"github.com/google/go-cmp/cmp"
)

// shown is the registry as name{label=value} = number, one line per series.
func shown(t *testing.T, shared *engine.Shared) []string {
	t.Helper()
	families, err := metrics.Registry(shared).Gather()
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
			v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			lines = append(lines, fmt.Sprintf("%s{%s} = %v", f.GetName(), strings.Join(labels, ","), v))
		}
	}
	return lines
}

func declare(t *testing.T, shared *engine.Shared, s metrics.Spec) *metrics.Metric {
	t.Helper()
	s.MaxSeries = max(1, s.MaxSeries)
	m, err := metrics.Declare(shared, s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func record(t *testing.T, m *metrics.Metric, v float64, key string, log *slog.Logger) {
	t.Helper()
	r, err := m.Series([]byte(key), log)
	if err != nil {
		t.Fatal(err)
	}
	r(v)
}

var quiet = slog.New(slog.DiscardHandler)

func TestStepsThatNameOneMetricShareIt(t *testing.T) {
	shared := &engine.Shared{}
	s := metrics.Spec{Name: "orders_total", Kind: metrics.Counter, Labels: []string{"country", "plan"}, MaxSeries: 9}
	record(t, declare(t, shared, s), 1, "SG\xfffree", quiet)
	record(t, declare(t, shared, s), 2, "SG\xfffree", quiet)
	record(t, declare(t, shared, s), 1, "\xff", quiet)
	want := []string{"orders_total{country=,plan=} = 1", "orders_total{country=SG,plan=free} = 3"}
	if diff := cmp.Diff(want, shown(t, shared)); diff != "" {
		t.Error(diff)
	}
	if other := shown(t, &engine.Shared{}); other != nil {
		t.Errorf("another process has %v", other)
	}
}

func TestAMetricHasOneDescription(t *testing.T) {
	first := metrics.Spec{Name: "m", Kind: metrics.Histogram, Labels: []string{"a"}, MaxSeries: 5,
		Buckets: []float64{1}}
	for want, other := range map[string]metrics.Spec{
		"m is a gauge here and a histogram": {Name: "m", Kind: metrics.Gauge, Labels: []string{"a"}, MaxSeries: 5},
		"labels [b] here and [a]": {Name: "m", Kind: metrics.Histogram, Labels: []string{"b"}, MaxSeries: 5,
			Buckets: []float64{1}},
		"max_series 6 here and 5": {Name: "m", Kind: metrics.Histogram, Labels: []string{"a"}, MaxSeries: 6,
			Buckets: []float64{1}},
		"buckets [2] here and [1]": {Name: "m", Kind: metrics.Histogram, Labels: []string{"a"}, MaxSeries: 5,
			Buckets: []float64{2}},
		"belongs to the histogram m": {Name: "m_count", Kind: metrics.Counter, MaxSeries: 5},
	} {
		shared := &engine.Shared{}
		declare(t, shared, first)
		if _, err := metrics.Declare(shared, other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	shared := &engine.Shared{}
	declare(t, shared, metrics.Spec{Name: "m_sum", Kind: metrics.Counter})
	if _, err := metrics.Declare(shared, first); err == nil || !strings.Contains(err.Error(), "m_sum") {
		t.Errorf("error %v, want one about m_sum", err)
	}
}

func TestBeyondItsLimitAMetricHasOneMoreSeries(t *testing.T) {
	shared := &engine.Shared{}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	m := declare(t, shared, metrics.Spec{Name: "m", Kind: metrics.Counter, Labels: []string{"id"}, MaxSeries: 2})
	for i := range 100 {
		record(t, m, 1, fmt.Sprint(i), log)
	}
	record(t, m, 1, "1", log)
	want := []string{"m{id=0} = 1", "m{id=1} = 2", "m{id=other} = 98"}
	if diff := cmp.Diff(want, shown(t, shared)); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(out.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, out.String())
	}
}

func TestManyLanesRecordAtOnce(t *testing.T) {
	shared := &engine.Shared{}
	m := declare(t, shared, metrics.Spec{Name: "m", Kind: metrics.Counter, Labels: []string{"id"}, MaxSeries: 3})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 1000 {
				r, err := m.Series([]byte{byte('a' + i%5)}, quiet)
				if err != nil {
					t.Error(err)
					return
				}
				r(1)
			}
		})
	}
	wg.Wait()
	lines, sum := shown(t, shared), 0
	for _, l := range lines {
		_, number, _ := strings.Cut(l, " = ")
		v, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(l, err)
		}
		sum += v
	}
	if len(lines) != 4 || sum != 8000 {
		t.Errorf("%v, want three series and the rest, 8000 in all", lines)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"orders_total": "", "shop:rate": "", "_x": "",
		"": "not a valid metric name", "1x": "not a valid metric name", "a-b": "not a valid metric name",
		"a b": "not a valid metric name", "zä": "not a valid metric name", "a\n": "not a valid metric name",
		"flowd_x": "flowd's own", "go_x": "flowd's own", "process_x": "flowd's own",
	} {
		check(t, name, metrics.CheckName(name), want)
	}
	for name, want := range map[string]string{"country": "", "le": "bound of a histogram",
		"__name__": "Prometheus' own", "a:b": "not a valid label name", "": "not a valid label name"} {
		check(t, name, metrics.CheckLabel(name, metrics.Histogram), want)
	}
	check(t, "le of a counter", metrics.CheckLabel("le", metrics.Counter), "")
	check(t, "ascending", metrics.CheckBuckets([]float64{1, 2}), "")
	check(t, "equal", metrics.CheckBuckets([]float64{1, 1}), "ascending order")
	check(t, "infinite", metrics.CheckBuckets([]float64{1, math.Inf(1)}), "+Inf is always the last one")
}

func check(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%q: error %v, want %q", name, err, want)
	}
}
