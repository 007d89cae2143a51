package service

import (
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
)

func TestABucketLinksToTheLatestTraceInIt(t *testing.T) {
	x := &Exemplars{}
	for i, took := range []time.Duration{300 * time.Millisecond, 20 * time.Millisecond, 400 * time.Millisecond, time.Hour} {
		x.Observe("orders", took, strings.Repeat("a", 31)+string("0123"[i]), "b000000000000000")
	}
	x.Observe("other", 300*time.Millisecond, strings.Repeat("f", 32), "b000000000000000")
	s := engine.Snapshot{Pipeline: "orders", Latency: engine.Histogram{Bounds: []float64{0.1, 0.5, 1}, Counts: []uint64{1, 2, 0, 1}, Count: 4}}
	p := &fake{snapshots: []engine.Snapshot{s}}
	get := func(x *Exemplars) (kind string, found []string) {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0,text/plain;q=0.5")
		metricsHandler(Config{Exemplars: x}, p, nil, slog.New(slog.DiscardHandler)).ServeHTTP(w, r)
		for line := range strings.Lines(w.Body.String()) {
			if bucket, exemplar, ok := strings.Cut(line, " # "); ok {
				_, le, _ := strings.Cut(bucket, "le=")
				_, trace, _ := strings.Cut(exemplar, `trace_id="`)
				found = append(found, le+" "+trace[:32]+" "+strings.Fields(exemplar)[1])
			}
		}
		return w.Header().Get("Content-Type"), found
	}
	kind, got := get(x)
	id := strings.Repeat("a", 31)
	want := []string{`"0.1"} 1 ` + id + "1 0.02", `"0.5"} 3 ` + id + "2 0.4", `"+Inf"} 4 ` + id + "3 3600.0"}
	if !strings.HasPrefix(kind, "application/openmetrics-text") || !slices.Equal(got, want) {
		t.Errorf("%s has\n%q, want\n%q", kind, got, want)
	}
	if kind, got := get(nil); !strings.HasPrefix(kind, "text/plain") || got != nil {
		t.Errorf("without traces, %s has %q", kind, got)
	}
}
