package tap

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/operations/observe"
)

// run sends messages through a pipeline that a hub observes: odd numbers are filtered, and 4 fails.
func run(t *testing.T, h *Hub, n int) {
	t.Helper()
	src := &Source{}
	for i := range n {
		src.Payloads = append(src.Payloads, fmt.Sprintf(`{"n":%d}`, i))
	}
	step := Step("even", func(_ context.Context, m *engine.Message) error {
		switch body := string(m.Bytes()); {
		case body == `{"n":4}`:
			return engine.Errorf(engine.Permanent, "four")
		case strings.ContainsAny(body, "13579"):
			m.Drop()
		}
		return nil
	})
	p := &engine.Pipeline{Name: "p", Inputs: Named("in", src.Input()), Processors: engine.Steps{step},
		Outputs: Named("out", (&Sink{}).Output()),
		Engine:  engine.EngineSpec{Workers: 1, OnFailure: engine.EngineFailure{Retry: &engine.Retry{MaxAttempts: 1}}}}
	plan, problems := runtime.Build(p, runtime.Options{Observers: []engine.Observer{h}})
	if plan == nil {
		t.Fatal(problems)
	}
	plan.Run(t.Context(), t.Context())
}

// taken returns what a tap has, as text.
func taken(tap *Tap) (all []string) {
	for {
		select {
		case r := <-tap.C:
			all = append(all, fmt.Sprintf("%s: %s %s %s %s", r.Message, r.Kind, r.Name, r.Passage, r.Payload))
		default:
			return all
		}
	}
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestATapFollowsMessagesToTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		tap := h.Open(Query{Where: expr.MustCond("n == 4 or n == 5")})
		defer tap.Close()
		tap.query.Rate = MaxRate
		run(t, h, 8)
		wantLines(t, taken(tap), `in 5: input in passed {"n":4}`, `in 6: input in passed {"n":5}`,
			`in 5: step even failed {"n":4}`, `in 6: step even filtered {"n":5}`, `in 5: end dropped dropped `, `in 6: end filtered filtered `)
		if len(tap.followed) != 0 {
			t.Errorf("%d messages are still followed", len(tap.followed))
		}
	})
}

func TestATapOfAComponent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, want := range map[string][]string{
			"even":        {`in 1: step even passed {"n":0}`, `in 2: step even filtered {"n":1}`},
			"step even":   {`in 1: step even passed {"n":0}`, `in 2: step even filtered {"n":1}`},
			"out":         {`in 1: output out written {"n":0}`},
			"output even": nil,
		} {
			h := &Hub{}
			tap := h.Open(Query{Component: name})
			run(t, h, 2)
			if name == "even" {
				tap.Close()
			}
			got := taken(tap)
			if name == "even" || name == "step even" { // Rate allows one message at once
				want = want[:1]
				if n := tap.Missed(); n != 1 {
					t.Errorf("%s: %d messages were not shown, want 1", name, n)
				}
			}
			wantLines(t, got, want...)
		}
	})
}

func TestATapOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		tap := h.Open(Query{Failed: true})
		other := h.Open(Query{Failed: true, Where: expr.MustCond("n == 3")})
		run(t, h, 200)
		wantLines(t, taken(tap), `in 5: step even failed {"n":4}`)
		wantLines(t, taken(other))
	})
}

func TestARareMessageIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		one, all := h.Open(Query{Where: expr.MustCond("n == 4000")}), h.Open(Query{Where: expr.MustCond("n > 0")})
		run(t, h, 4500)
		wantLines(t, taken(one), `in 4001: input in passed {"n":4000}`, `in 4001: step even passed {"n":4000}`,
			`in 4001: output out written {"n":4000}`, "in 4001: end delivered delivered ")
		if got := taken(all); len(got) < 3 || len(got) > 4 || all.Missed() < 4000 {
			t.Errorf("the rate allows one message at once, but the tap shows %q", got)
		}
	})
}

func TestASlowReaderHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{}
		tap := h.Open(Query{Component: "in", Rate: MaxRate * 100})
		run(t, h, 10_000)
		got, missed := len(taken(tap)), int(tap.Missed())
		if got > mostWaiting || got+missed != 10_000 {
			t.Errorf("%d shown and %d not shown, of 10,000", got, missed)
		}
	})
}

func TestTapsAreBounded(t *testing.T) {
	h := &Hub{}
	for range mostTaps {
		if h.Open(Query{}) == nil {
			t.Fatal("refused too early")
		}
	}
	if h.Open(Query{}) != nil {
		t.Error("one more tap than allowed")
	}
}

func TestAStreamHidesSecretsAndCutsLargePayloads(t *testing.T) {
	h := &Hub{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := ParseQuery(r.URL.Query())
		if err == nil {
			err = h.Serve(w, r, q, NewRedactor([]string{"email"}, nil))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	defer server.Close()
	if res, err := http.Get(server.URL + "?where=n+%3D"); err != nil || res.StatusCode != http.StatusBadRequest {
		t.Fatal(res, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	query := Query{Component: "in", Rate: MaxRate, Where: expr.MustCond("size() > 2")}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"?"+query.Values().Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	src := &Source{Payloads: []string{
		`{"password": "a", "user": {"email": "b", "Api_Key": 1}, "n": 4111111111111111, ` +
			`"note": "call 4111-1111-1111-1111", "id": 4111111111111112}`,
		`{"large": "` + strings.Repeat("x", 1<<20) + `"}`,
		"plain eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.abc https://user:pw@host/",
	}}
	p := &engine.Pipeline{Name: "p", Inputs: Named("in", src.Input()), Outputs: Named("out", (&Sink{}).Output())}
	plan, problems := runtime.Build(p, runtime.Options{Observers: []engine.Observer{h}})
	if plan == nil {
		t.Fatal(problems)
	}
	plan.Run(t.Context(), t.Context())
	var payloads []string
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for len(payloads) < 3 && lines.Scan() {
		var l Line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Record != nil {
			payloads = append(payloads, string(l.Payload))
		}
	}
	if len(payloads) != 3 {
		t.Fatal(payloads, lines.Err())
	}
	wantLines(t, payloads[:1], `{"id":4111111111111112,"n":"[redacted]","note":"call [redacted]","password":"[redacted]",`+
		`"user":{"Api_Key":"[redacted]","email":"[redacted]"}}`)
	if n := len(payloads[1]); n > MostPayload+100 || !strings.HasSuffix(payloads[1], "… (1048589 bytes)") {
		t.Errorf("a large payload has %d bytes and ends with %q", n, payloads[1][n-20:])
	}
	wantLines(t, payloads[2:], "plain [redacted] https://user:[redacted]@host/")
}

func TestRedactedRecordsHaveNoSecretsAnywhere(t *testing.T) {
	const secret = "AKIAABCDEFGHIJKLMNOP"
	json := `"` + secret + `"`
	r := observe.Record{Payload: observe.Payload(secret), Meta: map[string]any{"a": secret, "authorization": "x" + secret},
		Changes:   []observe.Change{{Path: "a", From: json, To: json}, {Path: "user.token", To: `"plain"`}},
		Condition: &observe.Condition{Text: "a == " + json, Values: []observe.Setting{{Name: "a", Value: json}}},
		To:        []observe.Setting{{Name: "topic", Value: json, Error: secret}}, Batch: &observe.Batch{Key: json},
		Error: &observe.Failure{Message: secret}}
	NewRedactor(nil, nil).Record(&r)
	if text := fmt.Sprintf("%+v %s %+v %+v %+v", r, r.Payload, r.Condition, r.Batch, r.Error); strings.Contains(text, secret) ||
		strings.Contains(text, "plain") {
		t.Error(text)
	}
}

func BenchmarkWants(b *testing.B) {
	h := &Hub{}
	at := &engine.Spot{Pipeline: "p", Kind: engine.StepSpot, Name: "filter"}
	for b.Loop() {
		h.Wants(at, 256)
	}
}
