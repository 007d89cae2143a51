package main

import (
	"bufio"
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRatiosAreTakenWithinARound(t *testing.T) {
	of := func(seconds ...float64) (all []sample) {
		for _, s := range seconds {
			all = append(all, sample{Messages: 1000, Wall: time.Duration(s * 1e9), Peak: int64(s * 1e6)})
		}
		return all
	}
	// The machine was half as fast in the second round, for both.
	a, b := of(1, 2, 1), of(3, 6, 3)
	if got := rate.ratio(a, b); got != 3 {
		t.Errorf("a is %v times as fast, want 3", got)
	}
	if got := rate.ratio(b, a); math.Abs(got-1./3) > 1e-9 {
		t.Errorf("b is %v times as fast, want a third", got)
	}
	if got := peak.ratio(a, b); got != 3 {
		t.Errorf("less memory is %v times better, want 3", got)
	}
	if got := rate.ratio(a, nil); got != 0 {
		t.Errorf("without another contestant: %v, want 0", got)
	}
	if got := rate.median(a); got != 1 {
		t.Errorf("the median is %v k/s, want 1", got)
	}
}

func TestQuantiles(t *testing.T) {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration((i*7919)%1000))
	}
	var s sample
	s.quantiles(all)
	if s.P50 != 500 || s.P99 != 990 || s.P999 != 999 {
		t.Errorf("got %d, %d, %d, want 500, 990, 999", s.P50, s.P99, s.P999)
	}
	s.quantiles(nil) // must not panic
}

// A message is due at a fixed instant, whether or not earlier messages have been answered.
func TestTheScheduleDoesNotWait(t *testing.T) {
	began := time.Unix(0, 0)
	c := contestant{load: 1000}
	if got := c.due(began, 2500).Sub(began); got != 2500*time.Millisecond {
		t.Errorf("message 2500 is due after %v, want 2.5 s", got)
	}
	c.load = 0
	if got := c.due(began, 2500).Sub(began); got != 0 {
		t.Errorf("without a load, message 2500 is due after %v, want at once", got)
	}
	// Late messages are sent at once, in blocks.
	var to bytes.Buffer
	c.load = 1000
	if err := c.send(&to, small, 300, time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(to.Bytes(), []byte("\n")); got != 300 {
		t.Errorf("%d messages were sent, want 300", got)
	}
}

func TestTheLoadOfAnOpenRow(t *testing.T) {
	w := &world{turn: time.Second, messages: 1_000_000}
	turns := []contestant{{name: "flowd"}, {name: "own", ownLoad: true}, {name: "slow"}, {name: "missing"}}
	sizes := make([]int, len(turns))
	w.schedule(turns, []float64{100_000, 100_000, 5000, 0}, sizes)
	for i, want := range []float64{1000, 20_000, 1000, 1000} {
		if turns[i].load != want {
			t.Errorf("%s gets %v messages per second, want %v", turns[i].name, turns[i].load, want)
		}
		if sizes[i] != int(2*want) {
			t.Errorf("%s gets %d messages, want enough for two seconds", turns[i].name, sizes[i])
		}
	}
}

func TestShapesOfCurvesAreRecognised(t *testing.T) {
	at := func(costs ...float64) (all []point) {
		x := 1
		for _, c := range costs {
			all = append(all, point{X: x, Cost: c})
			x *= 10
		}
		return all
	}
	tests := []struct {
		name   string
		want   string
		points []point
		met    bool
	}{
		{"flat, with noise", flat, at(1, 1.3, 0.9, 1.2), true},
		{"more than doubles", flat, at(1, 1.2, 1.5, 2.5), false},
		{"a line", linear, at(3, 12, 102, 1002), true},
		{"grows less than a line", linear, at(3, 3.5, 4, 5), true},
		{"a knee upwards", linear, at(3, 12, 400, 40_000), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if is, met := shape(test.want, test.points); met != test.met {
				t.Errorf("%s: met is %v, want %v", is, met, test.met)
			}
		})
	}
}

func TestBaselinesScanDocuments(t *testing.T) {
	tests := []struct{ name, line, status, total string }{
		{"plain", `{"status":503,"total":1.5}`, "503", "1.5"},
		{"nested fields with the same names", `{"a":{"status":1,"total":[2]},"status":503,"total":1.5}`, "503", "1.5"},
		{"braces and quotes in a string", `{"a":"}\",\"status\":1","status":503,"total":1.5}`, "503", "1.5"},
		{"without the fields", `{"a":[1,{"b":2}]}`, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, total, end, err := scan([]byte(test.line))
			if err != nil || string(status) != test.status || string(total) != test.total || end != len(test.line)-1 {
				t.Errorf("got %q, %q, %d, %v", status, total, end, err)
			}
		})
	}
	for _, line := range []string{"", "x", "[1]", `{"a":1`, `{"a`, `{`, `{"a":"`, `{"a":"\`} {
		if _, _, _, err := scan([]byte(line)); err == nil {
			t.Errorf("%q is accepted as an object", line)
		}
	}
}

// A baseline must not be fast because it does less work.
func TestBaselinesAgree(t *testing.T) {
	var in bytes.Buffer
	for i := range 100 {
		in.Write(append(event(nil, i), '\n'))
	}
	results := map[string][]document{}
	for name, f := range map[string]func(*bufio.Reader, *bufio.Writer) error{"splice": splice,
		"json": decodeAndEncode} {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		if err := f(bufio.NewReader(bytes.NewReader(in.Bytes())), w); err != nil {
			t.Fatal(err)
		}
		w.Flush()
		for line := range strings.Lines(out.String()) {
			d, err := decode([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			results[name] = append(results[name], d)
		}
	}
	same := func(a, b document) bool {
		return a["id"] == b["id"] && a["severity"] == b["severity"] && a["total_eur"] == b["total_eur"]
	}
	if len(results["json"]) != 33 || !slices.EqualFunc(results["splice"], results["json"], same) {
		t.Errorf("the baselines differ, or don't have 33 documents: splice %d, encoding/json %d", len(results["splice"]),
			len(results["json"]))
	}
}

func TestLongLinesAreCopiedWhole(t *testing.T) {
	in := strings.Repeat("x", 3*block) + "\nshort\n"
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	if err := copyLines(bufio.NewReaderSize(strings.NewReader(in), block), w); err != nil {
		t.Fatal(err)
	}
	if w.Flush(); out.String() != in {
		t.Errorf("the copy differs: it has %d bytes, the input %d", out.Len(), len(in))
	}
}
