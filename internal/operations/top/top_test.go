package top

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/flowd-io/flowd/internal/components/controls"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the files in testdata")

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// orders is a pipeline after so many seconds: a slow output holds up its input.
func orders(seconds int64) service.Pipeline {
	read, written := 1000*seconds, 900*seconds
	return service.Pipeline{
		Name: "orders", State: "running", Since: start, Started: start,
		Messages:       service.Counts{Received: read, Delivered: written, DeadLettered: 2 * seconds, InFlight: 10000},
		Latency:        service.Latency{Count: written, Mean: 0.5, P50: 0.4, P90: 0.9, P99: 2},
		CreditMessages: service.Share{Used: 10000, Max: 10000}, CreditBytes: service.Share{Used: 4 << 20, Max: 64 << 20},
		Lanes: service.Share{Used: 1, Max: 4}, Waiting: 30, Retrying: 20, DeadLetters: 2 * seconds, OldestUnsettled: 12,
		Inputs: []service.Input{
			{Name: "web", Type: "http_server", State: "waiting", Received: read, Bytes: read * 100},
			{Name: "bus", Type: "kafka", State: "reading", Progress: &service.Progress{Unit: "messages", Lag: 12345, Count: 3}},
		},
		Steps: []service.Step{
			{Place: "input web", Name: "check", Type: "http", Received: read, Latency: service.Latency{Count: read, Mean: 0.002, P99: 0.01}},
			{Place: "processors", Name: "parse", Type: "set", Received: read, Failed: 3 * seconds,
				Latency: service.Latency{Count: read, Mean: 0.00001, P99: 0.0001}},
			{Place: "processors", Name: "embed", Type: "pool", Received: read, Pool: &service.Pool{Waiting: 7, InFlight: 3, Slots: 8,
				Workers: []service.Worker{{Name: "gpu-1", Version: "v1.2.0", Slots: 8, Busy: 3, Heard: 1.5, Refused: "no \x1b memory"}}}},
		},
		Batchers: []service.Batcher{{Name: "archive", Open: 120, Batches: map[string]int64{"size": 9, "timeout": 2}}},
		Outputs: []service.Output{
			{Name: "lake", Type: "s3", Queued: 9000, QueuedBytes: 1 << 20, Writes: service.Share{Used: 4, Max: 4}, Written: written,
				Retries: 5 * seconds, Latency: service.Latency{Count: seconds, Mean: float64(seconds), P99: 3}, Breaker: "closed"},
			{Name: "dead", Type: "file", DeadLetter: true, Written: 2 * seconds, Writes: service.Share{Max: 1}, Breaker: "closed"},
		},
		Limits: []service.Rate{{Name: "engine", Messages: 5000, Per: 1, Waited: 3}},
		Waits: []service.Wait{
			{Who: "output lake", Why: service.WhyBusy, Detail: "4 of 4 writes under way, 9000 messages queued"},
			{Who: "input web", For: "output lake", Why: service.WhyBackPressure, Detail: "10000 of 10000 messages in flight"},
		},
		Edges: []service.Edge{{From: "batcher archive", To: "output lake"}, {From: "output lake", To: "output dead", Failed: true}},
	}
}

func seen(addr string, at time.Time, pipelines ...service.Pipeline) Seen {
	return Seen{Addr: addr, At: at, State: service.State{Pipelines: pipelines, Ready: service.Health{Status: "ok"}, Memory: 50 << 20}}
}

func twoSeconds() Frame {
	return Of([]Seen{seen("a:9600", start.Add(100*time.Second), orders(100))},
		[]Seen{seen("a:9600", start.Add(102*time.Second), orders(102)), {Addr: "b:9600", At: start, Err: errors.New("nothing listens at b")}})
}

func TestRatesAreTakenFromTwoStates(t *testing.T) {
	f := twoSeconds()
	p := f.Processes[0].Pipelines[0]
	if f.Interval != 2 || p.In != 1000 || p.Out != 900 || p.Failed != 2 {
		t.Errorf("interval %v: in %v, out %v, failed %v", f.Interval, p.In, p.Out, p.Failed)
	}
	byName := map[string]Component{}
	for _, c := range p.Components {
		byName[c.Kind+" "+c.Name] = c
	}
	// The writes of 2 seconds: their mean follows from the sums before and after.
	if c := byName["output lake"]; c.Rate != 900 || c.Latency != (102.*102-100.*100)/2 || !c.Bottleneck {
		t.Errorf("lake %+v", c)
	}
	if c := byName["input web"]; c.Rate != 1000 || c.Bottleneck {
		t.Errorf("web %+v", c)
	}
	if f.Processes[1].Error != "nothing listens at b" || f.Processes[1].Pipelines == nil {
		t.Errorf("b: %+v", f.Processes[1])
	}
}

// A pipeline that has started again counts from zero, and one that is new has no rate yet.
func TestWithoutAStateBeforeThereAreNoRates(t *testing.T) {
	again := orders(1)
	again.Started = start.Add(time.Minute)
	for _, before := range [][]Seen{nil, {seen("a", start, again)}, {{Addr: "a", Err: errors.New("down")}}, {seen("b", start, orders(1))}} {
		f := Of(before, []Seen{seen("a", start.Add(time.Second), orders(100))})
		if p := f.Processes[0].Pipelines[0]; p.In != 0 || p.Components[0].Rate != 0 || p.ratesAreKnown {
			t.Errorf("in %v, input %v", p.In, p.Components[0].Rate)
		}
		if text := textOf(f, View{}, 80); strings.Contains(text, "0/s") || !strings.Contains(text, "in -, out -") {
			t.Errorf("it shows\n%s", text)
		}
	}
}

func TestBottlenecks(t *testing.T) {
	wait := func(who, what, why string) service.Wait {
		return service.Wait{Who: who, For: what, Why: why, Detail: "…"}
	}
	lanes := wait("lanes", "step old", service.WhyBusy)
	tests := []struct {
		name        string
		before, now []service.Wait
		state       string // of the input
		want        string
	}{
		{"nothing", nil, nil, "reading", ""},
		{"a moment is none", nil, []service.Wait{lanes}, "reading", ""},
		{"what lasts is one", []service.Wait{lanes}, []service.Wait{lanes}, "reading", "step b busy"},
		{"so is what makes inputs wait", nil, []service.Wait{lanes}, "waiting", "step b busy"},
		{"what lasts comes first", []service.Wait{wait("output x", "", service.WhyBusy)},
			[]service.Wait{wait("output y", "", service.WhyBusy), wait("output x", "", service.WhyBusy)}, "waiting", "output x busy"},
		{"a breaker", nil, []service.Wait{wait("output x", "", service.WhyBreaker)}, "reading", "output x breaker"},
		{"messages that wait for a retry", nil, []service.Wait{wait("messages", "a retry of output x", service.WhyHold)}, "reading",
			"output x hold"},
		{"a limit", nil, []service.Wait{wait("input in", "limit engine", service.WhyLimit)}, "limited", "input in limit"},
		{"a schedule is none", nil, []service.Wait{wait("input in", "", service.WhySchedule)}, "reading", ""},
		{"a pause is none", nil, []service.Wait{wait("input in", "operator", service.WhyPaused)}, "paused", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			state := func(waits []service.Wait, calls int64) Seen {
				took := func(mean float64) service.Latency { return service.Latency{Count: calls, Mean: mean} }
				return seen("a", start.Add(time.Duration(calls)), service.Pipeline{Name: "p", Waits: waits, Limits: []service.Rate{{Name: "engine"}},
					Inputs: []service.Input{{Name: "in", State: tt.state}},
					Steps: []service.Step{{Place: "processors", Name: "a", Latency: took(0.1)},
						{Place: "processors", Name: "b", Latency: took(0.3)}, {Place: "input in", Name: "c", Latency: took(9)}}})
			}
			p := Of([]Seen{state(tt.before, 1)}, []Seen{state(tt.now, 2)}).Processes[0].Pipelines[0]
			got := ""
			if p.Bottleneck != nil {
				got = p.Bottleneck.Component + " " + p.Bottleneck.Why
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if last := p.Components[len(p.Components)-1]; last.Bottleneck != (tt.name == "a limit") {
				t.Error("the limit is marked wrongly")
			}
		})
	}
}

func textOf(f Frame, v View, width int) string { return joined(f.Lines(v, width)) }

func joined(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(l.Text + "\n")
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestText(t *testing.T) {
	f := twoSeconds()
	golden(t, "80.txt", textOf(f, View{}, 80))
	golden(t, "200.txt", textOf(f, View{}, 200))
	golden(t, "sorted.txt", textOf(f, View{Sort: "queue", Filter: "OUTPUT"}, 80))
	golden(t, "output.txt", joined(f.Detail(Key{Addr: "a:9600", Pipeline: "orders", Kind: "output", Name: "lake"}, 80)))
	golden(t, "step.txt", joined(f.Detail(Key{Addr: "a:9600", Pipeline: "orders", Kind: "step", Name: "embed"}, 80)))
	golden(t, "pipeline.txt", joined(f.Detail(Key{Addr: "a:9600", Pipeline: "orders"}, 80)))
	if text := textOf(f, View{Filter: "nothing"}, 80); strings.Contains(text, "orders") {
		t.Errorf("a filter leaves\n%s", text)
	}
	if text := joined(f.Detail(Key{Addr: "a:9600", Pipeline: "gone"}, 80)); !strings.Contains(text, "it is gone") {
		t.Errorf("a pipeline that is gone: %s", text)
	}
}

func TestSorts(t *testing.T) {
	f := twoSeconds()
	for sort, first := range map[string]string{"flow": "web", "rate": "web", "latency": "lake", "queue": "bus", "failures": "parse"} {
		if rows := f.Processes[0].Pipelines[0].rows(View{Sort: sort}); rows[0].Name != first {
			t.Errorf("by %s: %s is first, want %s", sort, rows[0].Name, first)
		}
	}
}

// Hostile names and errors neither control the terminal nor leave their columns, and a megabyte is no slower than a word.
func TestHostileTextIsShownAndCut(t *testing.T) {
	hostile := []string{"\x1b[2J\x1b]0;title\x07", "a\u202eb\u2066c", "\xff\xfe\x9b31m", "two\nlines\r", strings.Repeat("x", 1<<20),
		strings.Repeat("\u0301", 1<<20), strings.Repeat("日", 1000), "👩‍👩‍👧‍👦" + strings.Repeat("👩‍👩‍👧‍👦", 99), ""}
	for _, text := range hostile {
		p := orders(100)
		p.Name, p.State = text, text
		p.Inputs[0].Name, p.Inputs[0].State, p.Inputs[0].Error = text, text, text
		p.Inputs[0].Sources = []service.Source{{Name: text, State: text, Error: text}}
		p.Outputs[0].Name, p.Outputs[0].Error, p.Outputs[0].Breaker = text, text, text
		p.Waits = []service.Wait{{Who: "output " + text, Why: service.WhyBreaker, Detail: text}}
		s := seen(text, start.Add(time.Second), p)
		s.State.Ready = service.Health{Status: text, Checks: []service.Check{{Pipeline: text, Indicator: text, Error: text, Cause: text}}}
		f := Of(nil, []Seen{s, {Addr: text, Err: errors.New(text)}})
		for _, width := range []int{1, 40, 80, 200} {
			lines := f.Lines(View{Filter: ""}, width)
			for _, kind := range []string{"", "input", "output"} {
				lines = append(lines, f.Detail(Key{Addr: text, Pipeline: text, Kind: kind, Name: text}, width)...)
			}
			for _, l := range lines {
				if w := ansi.StringWidth(l.Text); w > max(width, 40) {
					t.Errorf("%d columns of %d: %.200q", w, width, l.Text)
				}
				if !utf8.ValidString(l.Text) || strings.ContainsFunc(l.Text, controls.Is) {
					t.Errorf("it controls the terminal: %.200q", l.Text)
				}
			}
		}
		if _, err := json.Marshal(f); err != nil {
			t.Error(err)
		}
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[float64]string{0: "0", 0.123: "0.12", 7: "7", 999.4: "999", 999.6: "1k", 12345: "12.3k", 2e6: "2M", 3e12: "3T"} {
		if got := short(n); got != want {
			t.Errorf("%v: got %s, want %s", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "-", 1e-9: "1µs", 0.0005: "500µs", 0.0033: "3.3ms", 0.25: "250ms", 12.34: "12.3s",
		3600: "1h0m", 1e6: "11d"} {
		if got := span(n); got != want {
			t.Errorf("%v: got %s, want %s", n, got, want)
		}
	}
}
