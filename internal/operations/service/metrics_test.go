package service

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

var update = flag.Bool("update", false, "write testdata anew")

// full is a snapshot that has something everywhere.
func full() engine.Snapshot {
	latency := engine.Histogram{Bounds: []float64{0.01, 0.1}, Counts: []uint64{3, 2, 1}, Sum: 1.5, Count: 6}
	took := engine.Histogram{Bounds: []float64{0.01, 0.1}, Counts: []uint64{3, 2, 1}, Sum: 1.5, Count: 6,
		Native: map[int]int64{-60: 3, -40: 2, 1: 1}}
	behind := 2500 * time.Millisecond
	ended := [5]int64{10, 80, 3, 1, 1} // filtered, delivered, dead-lettered, dropped, returned
	step := func(name, typ string) engine.StepState {
		return engine.StepState{Name: name, Type: typ, In: 40, Failed: 4, Retries: 2, Latency: latency}
	}
	return engine.Snapshot{
		Pipeline: "orders", State: engine.Running, Started: time.UnixMilli(1_750_000_000_500).UTC(),
		Stats: engine.Stats{
			Roots:  engine.Counts{Received: 100, Ended: ended, InFlight: 5},
			Pieces: engine.Counts{Received: 100, Made: 20, Consumed: 10, Ended: [5]int64{10, 90, 3, 1, 1}, InFlight: 5},
		},
		Inputs: []engine.InputState{{
			Name: "web", Type: "http_server", State: "waiting", Received: 100, Bytes: 4096, Restarts: 2, Unacked: 5,
			Err:   "reset",
			Limit: &engine.LimitState{Name: "api", Messages: 50, Per: time.Minute, Limited: 9},
			Steps: []engine.StepState{step("decode", "decode")},
		}, {
			Name: "orders", Type: "kafka", State: "reading", Behind: &behind, Progress: &engine.Progress{Revoked: 2, TakenAway: 7,
				Positions: []engine.Position{{Name: "orders/0", Settled: 40, Read: 45, End: 60},
					{Name: "orders/1", Settled: -1, End: 9}, {Name: "orders/2", Settled: 60, Read: 60, End: 60}}},
		}, {
			Name: "log", Type: "file", State: "reading", Progress: &engine.Progress{Bytes: true,
				Positions: []engine.Position{{Name: "app.log", Settled: 100, Read: 200, End: 4196}}},
		}},
		Steps: []engine.StepState{step("filter", "filter"), step("filter", "filter"), step("check", "http")},
		Batchers: []engine.BatcherState{{
			Name: "archive", Open: 7, Batches: map[engine.Trigger]int64{engine.BySize: 3, engine.ByTimeout: 1,
				"of data": 2},
			Fill:  engine.Histogram{Bounds: []float64{1, 10, 100}, Counts: []uint64{1, 2, 3, 0}, Sum: 210, Count: 6},
			Steps: []engine.StepState{step("compress", "compress")},
		}},
		Outputs: []engine.OutputState{
			{
				Name: "lake", Type: "s3", Queued: 12, QueuedBytes: 960, Writing: 3, Concurrency: 4, Written: 80,
				Failed: 6, Retries: 5, Abandoned: 1,
				Latency: latency, Delivery: took, Breaker: "open", Err: "503 \x1b[31m", FailingSince: time.Unix(1_750_000_100, 0).UTC(),
				Limit: &engine.LimitState{Name: "output lake", Messages: 5, Per: time.Second, Limited: 2},
				Steps: []engine.StepState{step("map", "map")},
			},
			{Name: "dead", Type: "file", DeadLetter: true, Concurrency: 1, Written: 3, Breaker: "closed"},
		},
		// The second user of a shared limit has seen fewer waits.
		Limits: []engine.LimitState{{Name: "engine", Messages: 500, Per: time.Second, Keys: 3, Limited: 1},
			{Name: "api", Messages: 50, Per: time.Minute, Limited: 4}},
		Tables: []engine.TableState{{Name: "items", Format: "csv", Rows: 3, Bytes: 308,
			Read: time.UnixMilli(1_750_000_300_500).UTC(), Reloads: 2, Failed: 1, Err: "line 3: secret"}},
		Lanes: 4, LanesBusy: 1, Messages: 5, MaxMessages: 10000, Bytes: 2048, MaxBytes: 64 << 20,
		Latency: took, Waiting: 4, Retries: 3, OldestUnsettled: 1500 * time.Millisecond, DeadLettered: 3,
		OldestAt: "input web, secret-path",
		Held: &engine.Held{At: "input web, secret-path", For: "a retry of output lake", Err: "secret",
			Age: time.Second, Due: 3 * time.Second},
		Failed: map[engine.Class]int64{engine.Transient: 6, engine.Decode: 4, "secret-of-a-message": 2, "another": 1},
		Stuck:  []engine.Stuck{{Place: "step check", What: "step", Since: time.Unix(1_750_000_200, 0).UTC()}},
	}
}

// scrape gives the metrics of flowd alone, in the text format.
func scrape(t *testing.T, p Process, user prometheus.Gatherer) string {
	t.Helper()
	w := httptest.NewRecorder()
	metricsHandler(Config{Version: "v1.2.3", Revision: "abc"}, p, user, slog.New(slog.DiscardHandler)).ServeHTTP(w,
		httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	var b strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if _, rest, _ := strings.Cut(strings.TrimPrefix(line, "# "), " "); strings.HasPrefix(line, "flowd_") ||
			strings.HasPrefix(rest, "flowd_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestMetricsOfAFullSnapshot(t *testing.T) {
	got := scrape(t, &fake{snapshots: []engine.Snapshot{full()}}, nil)
	golden := filepath.Join("testdata", "metrics.txt")
	goVersion := buildLine(got)
	got = strings.Replace(got, goVersion, "GO", 1)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("metrics (go test -update writes them anew):\n%s", diff)
	}
}

// buildLine is the version of Go in a scrape.
func buildLine(scraped string) string {
	_, rest, _ := strings.Cut(scraped, `goversion="`)
	version, _, _ := strings.Cut(rest, `"`)
	return version
}

func TestMetricsKeepToTheConventions(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{snapshots: (&fake{snapshots: []engine.Snapshot{full(),
		{Pipeline: "empty"}}}).Snapshots})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(allMetrics) {
		t.Errorf("%d of %d families have metrics", len(families), len(allMetrics))
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsSayWhetherAPipelineWorks(t *testing.T) {
	got := scrape(t, &fake{snapshots: []engine.Snapshot{
		{Pipeline: "works", State: engine.Running},
		{Pipeline: "starts", State: engine.Starting},
		{Pipeline: "failed", State: engine.Stopped, Err: "refused"},
		{Pipeline: "ended", State: engine.Stopped},
	}}, nil)
	for pipeline, want := range map[string]string{"works": "1 0", "starts": "0 0", "failed": "0 1", "ended": "1 0"} {
		ready, failed, _ := strings.Cut(want, " ")
		for _, line := range []string{
			fmt.Sprintf("flowd_pipeline_ready{pipeline=%q} %s\n", pipeline, ready),
			fmt.Sprintf("flowd_pipeline_failed{pipeline=%q} %s\n", pipeline, failed),
		} {
			if !strings.Contains(got, line) {
				t.Errorf("the metrics lack %s", line)
			}
		}
	}
}

func TestThePipelinesThatAreGoneVanish(t *testing.T) {
	p := &fake{snapshots: []engine.Snapshot{{Pipeline: "orders"}, {Pipeline: "audit"}}}
	if got := scrape(t, p, nil); !strings.Contains(got, `pipeline="audit"`) {
		t.Fatalf("it was not there: %s", got)
	}
	p.snapshots = p.snapshots[:1]
	if got := scrape(t, p, nil); strings.Contains(got, "audit") || !strings.Contains(got, `pipeline="orders"`) {
		t.Errorf("got %s", got)
	}
}

func TestDataMakesNoSeries(t *testing.T) {
	s := engine.Snapshot{
		Pipeline: "bad \xff\nname\"} 1", State: "odd",
		Failed:   map[engine.Class]int64{},
		Batchers: []engine.BatcherState{{Name: "b", Batches: map[engine.Trigger]int64{}}},
		Inputs:   []engine.InputState{{Name: "i", State: "odd"}},
		Outputs:  []engine.OutputState{{Name: "o", Breaker: "odd", Err: "secret"}},
	}
	before := strings.Count(scrape(t, &fake{snapshots: []engine.Snapshot{s}}, nil), "\n")
	for i := range 1000 {
		word := strings.Repeat("x", i) + "secret"
		s.Failed[engine.Class(word)], s.Batchers[0].Batches[engine.Trigger(word)] = 1, 1
	}
	got := scrape(t, &fake{snapshots: []engine.Snapshot{s}}, nil)
	if after := strings.Count(got, "\n"); after != before {
		t.Errorf("%d lines became %d", before, after)
	}
	if strings.Contains(got, "secret") || strings.Contains(got, `"odd"`) {
		t.Errorf("data is shown:\n%s", got)
	}
	if !strings.Contains(got, `flowd_failures_total{class="other",pipeline="bad �\nname\"} 1"} 1000`) {
		t.Errorf("they are not counted:\n%s", got)
	}
}

// TestManyPositionsMakeFewSeries has more partitions than have a place of their own.
func TestManyPositionsMakeFewSeries(t *testing.T) {
	p := &engine.Progress{}
	for i := range mostPositions + 5 {
		p.Positions = append(p.Positions, engine.Position{Name: fmt.Sprintf("t/%05d", i), Settled: 1, Read: 1, End: 3})
	}
	s := engine.Snapshot{Pipeline: "p", Inputs: []engine.InputState{{Name: "in", Progress: p}}}
	got := scrape(t, &fake{snapshots: []engine.Snapshot{s}}, nil)
	if n := strings.Count(got, "\nflowd_input_lag_messages{"); n != mostPositions+1 {
		t.Errorf("%d series, want %d", n, mostPositions+1)
	}
	for _, want := range []string{`lag_messages{input="in",pipeline="p",position="other"} 10`,
		`lag_messages{input="in",pipeline="p",position="t/00999"} 2`, `positions{input="in",pipeline="p"} 1005`} {
		if !strings.Contains(got, "flowd_input_"+want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
	shown := stateOf([]engine.Snapshot{s}).Pipelines[0].Inputs[0].Progress
	if len(shown.Positions) != mostPositions || shown.Count != 1005 || shown.Lag != 2010 {
		t.Errorf("the state has %d positions of %d and lag %d", len(shown.Positions), shown.Count, shown.Lag)
	}
}

func TestHistogramsHoldWhileMessagesMove(t *testing.T) {
	s := engine.Snapshot{Pipeline: "p", Outputs: []engine.OutputState{
		{Name: "ahead", Latency: engine.Histogram{Bounds: []float64{1}, Counts: []uint64{2, 3}, Count: 4}},
		{Name: "short", Latency: engine.Histogram{Bounds: []float64{1, 2}, Counts: []uint64{2}}},
		{Name: "none"},
	}}
	got := scrape(t, &fake{snapshots: []engine.Snapshot{s}}, nil)
	for _, want := range []string{
		`bucket{output="ahead",pipeline="p",le="+Inf"} 5`, `count{output="ahead",pipeline="p"} 5`,
		`bucket{output="short",pipeline="p",le="1"} 2`, `count{output="short",pipeline="p"} 2`,
		`count{output="none",pipeline="p"} 0`,
	} {
		if !strings.Contains(got, "flowd_output_write_duration_seconds_"+want) {
			t.Errorf("%s is missing:\n%s", want, got)
		}
	}
}

// TestLatenciesAreNativeHistogramsToo: Prometheus rejects a native histogram whose count is not the sum of its buckets.
func TestLatenciesAreNativeHistogramsToo(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{snapshots: (&fake{snapshots: []engine.Snapshot{full()}}).Snapshots})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		if name := f.GetName(); name != "flowd_message_latency_seconds" && name != "flowd_output_message_latency_seconds" {
			continue
		}
		h := f.Metric[len(f.Metric)-1].GetHistogram()
		var sum, at int64
		for _, delta := range h.PositiveDelta {
			at += delta
			sum += at
		}
		if found++; h.GetSchema() != engine.NativeSchema || sum != 6 || h.GetSampleCount() != 6 || len(h.Bucket) != 2 ||
			h.CreatedTimestamp != nil {
			t.Errorf("%s: %v", f.GetName(), h)
		}
	}
	if found != 2 {
		t.Errorf("%d of 2 are there", found)
	}
}

func TestAUsersMetricsStandBesideAndBreakNothing(t *testing.T) {
	user := prometheus.NewRegistry()
	sold := prometheus.NewCounter(prometheus.CounterOpts{Name: "flowd_user_sold_total", Help: "Sold."})
	clash := prometheus.NewGauge(prometheus.GaugeOpts{Name: "flowd_lanes", Help: "Of another kind."})
	user.MustRegister(sold, clash)
	sold.Add(7)
	var log bytes.Buffer
	p := &fake{snapshots: []engine.Snapshot{{Pipeline: "p", Lanes: 3}}}
	h := metricsHandler(Config{}, p, user, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		for _, want := range []string{"flowd_user_sold_total 7\n", `flowd_lanes{pipeline="p"} 3` + "\n",
			"go_goroutines ", "process_"} {
			if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s is missing: %d %s", want, w.Code, w.Body)
			}
		}
	}
	if strings.Count(log.String(), "\n") > 1 {
		t.Errorf("each scrape logs the same:\n%s", &log)
	}
}

func TestEveryMetricAndIndicatorIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range allMetrics {
		if !strings.Contains(string(text), "`"+strings.TrimPrefix(m.name, "flowd_")+"`") {
			t.Errorf("docs/operations.md does not have %s", m.name)
		}
	}
	for _, name := range []string{callStuck, outputFailing, breakerOpen, credentialsRefused, inputRestarting,
		messagesHeld, pipelineStarting, pipelineDraining, noPipeline} {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/operations.md does not have %s", name)
		}
	}
}
