package deadletters

import (
	"maps"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/systems/queue"
)

func TestCausesAreReadFromTypedMetadataAndFromHeaders(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := Cause{Class: "rejected", Message: "no\n ^", Output: "crm", Attempt: 3, Part: 2, FirstFailed: at}
	for name, meta := range map[string]map[string]any{
		"typed": {"error_class": "rejected", "error_message": "no\n ^", "error_step": "", "error_output": "crm",
			"error_attempt": 3, "error_part": 2, "error_first_failed": at},
		"text": {"error_class": "rejected", "error_message": "no\n ^", "error_output": "crm", "error_attempt": "3",
			"error_part": "2", "error_first_failed": "2026-01-02T03:04:05Z"},
		"after two failures": {"error_class": []any{"timeout", "rejected"}, "error_message": []any{"slow", "no\n ^"},
			"error_output": "crm", "error_attempt": []any{"5", "3"}, "error_part": 2, "error_first_failed": at},
	} {
		l := NewLetter(queue.Message{Meta: meta})
		if l.Cause != want || l.Cause.Place() != "output crm" || l.Cause.Reason() != "no" {
			t.Errorf("%s: got %+v", name, l.Cause)
		}
	}
	l := NewLetter(queue.Message{Meta: map[string]any{"x-first-death-reason": "expired", "x-first-death-queue": "q"}})
	if want := `dead-lettered by RabbitMQ: expired in queue "q"`; l.Cause.Message != want {
		t.Errorf("got %q, want %q", l.Cause.Message, want)
	}
}

func TestAReplayedMessageHasTheMetadataWithWhichItWasRead(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := NewLetter(queue.Message{Meta: map[string]any{"error_class": "rejected", "error_step": "", "trace": "t1",
		"topic": "dead", "partition": 0, "offset": 7, "timestamp": at.Add(time.Hour), "headers": []any{}, "key": "k",
		"original_topic": "orders", "original_partition": []any{"1", "2"}, "original_offset": "12",
		"original_timestamp": "2026-01-02T03:04:05Z", "original_price": 5}})
	got := l.Original()
	want := map[string]any{"trace": "t1", "topic": "orders", "partition": 2, "offset": 12, "timestamp": at, "key": "k",
		"original_price": 5}
	if all := got.Map(); !maps.Equal(all, want) {
		t.Errorf("got %v, want %v", all, want)
	}
	if sent := maps.Collect(got.Added()); !maps.Equal(sent, map[string]any{"trace": "t1", "original_price": 5}) {
		t.Errorf("outputs send %v", sent)
	}
}

func TestLettersAreGroupedByCause(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	letter := func(output, message string, after time.Duration) Letter {
		return NewLetter(queue.Message{Payload: []byte(message), Meta: map[string]any{"error_class": "rejected",
			"error_output": output, "error_message": message, "error_first_failed": at.Add(after)}})
	}
	var s Summary
	s.Add(letter("crm", "order 1 is unknown", 2*time.Hour))
	s.Add(letter("crm", "order 2 is unknown", 0))
	s.Add(letter("lake", "order 1 is unknown", 0))
	s.Add(letter("crm", `no field "a"`, 0))
	s.Add(letter("crm", `no field "a"`, time.Minute))
	s.Add(letter("crm", "order 3 is unknown", 2*time.Hour))
	s.Add(Letter{Broken: errTest, Where: "line 7"})
	groups := s.Groups()
	if len(groups) != 3 || s.Letters != 6 || s.Broken != 1 || s.Missing != "line 7" {
		t.Fatalf("%d groups of %d letters, %d broken", len(groups), s.Letters, s.Broken)
	}
	g := groups[0]
	if g.Letters != 3 || g.Place() != "output crm" || g.Reason != "order … is unknown" ||
		string(g.Example.Payload) != "order 1 is unknown" || !g.First.Equal(at) || !g.Last.Equal(at.Add(2*time.Hour)) {
		t.Errorf("got %+v", g)
	}
	if groups[1].Reason != `no field "a"` || groups[1].ID == g.ID || groups[2].ID == g.ID {
		t.Errorf("got %+v", groups[1])
	}
	begin, width, counts := g.Times.Bars(24)
	if !begin.Equal(at.Truncate(15*time.Minute)) || width != 15*time.Minute || len(counts) != 9 || counts[0] != 1 ||
		counts[8] != 2 {
		t.Errorf("from %v by %v: %v", begin, width, counts)
	}
}

func TestAHistogramStaysSmall(t *testing.T) {
	var h Histogram
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const n = 100_000
	for i := range n { // most of a year
		h.Add(at.Add(time.Duration(i) * 5 * time.Minute))
	}
	_, width, counts := h.Bars(24)
	sum := int64(0)
	for _, k := range counts {
		sum += k
	}
	if len(h.at) > mostSpans || len(counts) > 24 || sum != n || width < 7*24*time.Hour {
		t.Errorf("%d spans, %d bars of %v with %d events", len(h.at), len(counts), width, sum)
	}
}
