package service

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// worded lists checks as "indicator component".
func worded(h Health) string {
	var all []string
	for _, c := range h.Checks {
		all = append(all, strings.TrimSpace(c.Indicator+" "+c.Component))
	}
	return strings.Join(all, ", ")
}

func TestHealth(t *testing.T) {
	running := func(edit func(*engine.Snapshot)) []engine.Snapshot {
		s := engine.Snapshot{
			Pipeline: "orders", State: engine.Running, MaxMessages: 100,
			Inputs: []engine.InputState{{Name: "web", State: "reading"}},
			Outputs: []engine.OutputState{{Name: "lake", Breaker: "closed"},
				{Name: "dead", DeadLetter: true, Breaker: "closed"}},
		}
		edit(&s)
		return []engine.Snapshot{s}
	}
	ended := func(s *engine.Snapshot) { s.State, s.Inputs[0].State = engine.Stopped, "ended" }
	tests := []struct {
		name        string
		all         []engine.Snapshot
		live, ready string // what fails
	}{
		{"an idle pipeline is both", running(func(*engine.Snapshot) {}), "", ""},
		{"a busy pipeline is both", running(func(s *engine.Snapshot) {
			s.Messages, s.Waiting, s.Inputs[0].State = 100, 49, "waiting"
		}), "", ""},
		{"a paused pipeline is both", running(func(s *engine.Snapshot) {
			s.State, s.Inputs[0].State = engine.Paused, "paused"
		}), "", ""},
		{"a pipeline that has ended beside one that runs is both", append(running(func(*engine.Snapshot) {}),
			running(ended)...), "", ""},
		{"a pipeline that has ended beside one that is paused is both", append(running(ended),
			running(func(s *engine.Snapshot) { s.State = engine.Paused })...), "", ""},
		{"pipelines that have all ended are not ready", append(running(ended), running(ended)...), "", "no_pipeline"},
		{"a pipeline that has failed beside one that runs is neither", append(running(func(*engine.Snapshot) {}),
			running(func(s *engine.Snapshot) { s.State, s.Err = engine.Stopped, "input orders: access denied" })...),
			"pipeline_failed", "pipeline_failed"},
		{"a breaker that says nothing is both", running(func(s *engine.Snapshot) { s.Outputs[0].Breaker = "" }), "",
			""},
		{"past failures are both", running(func(s *engine.Snapshot) {
			s.Outputs[0].Failed, s.Outputs[0].Abandoned = 9, 1
			s.Inputs[0].Restarts, s.Inputs[0].Err = 3, "gone"
		}), "", ""},
		{"a failing output is not ready", running(func(s *engine.Snapshot) { s.Outputs[0].Err = "503" }), "",
			"output_failing output lake"},
		{"a failing dead letter is not ready", running(func(s *engine.Snapshot) { s.Outputs[1].Err = "503" }), "",
			"output_failing output dead"},
		{"an open breaker is not ready", running(func(s *engine.Snapshot) {
			s.Outputs[0].Breaker, s.Outputs[0].Err = "open", "503"
		}), "", "output_breaker_open output lake"},
		{"a probing breaker is not ready", running(func(s *engine.Snapshot) { s.Outputs[0].Breaker = "probing" }), "",
			"output_breaker_open output lake"},
		{"refused credentials are not ready", running(func(s *engine.Snapshot) {
			s.Outputs[0].Breaker, s.Outputs[0].Err = "auth", "401"
		}), "", "output_credentials_refused output lake"},
		{"a stalled output is not ready", running(func(s *engine.Snapshot) { s.Outputs[0].Stalled = "low on memory" }),
			"", "output_stalled output lake"},
		{"some refused messages are both", running(func(s *engine.Snapshot) { s.Outputs[0].Refused = 9 }), "", ""},
		{"an output that refuses all is not ready", running(func(s *engine.Snapshot) { s.Outputs[0].Refused = 10 }), "",
			"output_refusing output lake"},
		{"a lost input is not ready", running(func(s *engine.Snapshot) { s.Inputs[0].State = "restarting" }), "",
			"input_restarting input web"},
		{"an input that can't acknowledge is not ready", running(func(s *engine.Snapshot) {
			s.Inputs[0].AckErr = "no space left on device"
		}), "", "input_ack_failing input web"},
		{"a wedged output is neither",
			running(func(s *engine.Snapshot) { s.Stuck = []engine.Stuck{{Place: "output lake", What: "write"}} }),
			"call_stuck output lake", "call_stuck output lake"},
		{"half the credits waiting is not ready", running(func(s *engine.Snapshot) { s.Waiting = 50 }), "",
			"messages_held"},
		{"an unknown allowance holds nothing", running(func(s *engine.Snapshot) { s.MaxMessages = 0 }), "", ""},
		{"a starting pipeline is not ready", running(func(s *engine.Snapshot) { s.State = engine.Starting }), "",
			"pipeline_starting"},
		{"a draining pipeline is not ready", running(func(s *engine.Snapshot) { s.State = engine.Draining }), "",
			"pipeline_draining"},
		{"a plugin in trouble is not ready", running(func(s *engine.Snapshot) {
			s.Troubles = []engine.Trouble{{Place: "step score", Indicator: "pool_stalled", Impact: "i", Cause: "c",
				Action: "a"}}
		}), "", "pool_stalled step score"},
		{"no pipeline is not ready", nil, "", "no_pipeline"},
		{"one of two", append(running(func(*engine.Snapshot) {}), running(func(s *engine.Snapshot) {
			s.Outputs[0].Err, s.Inputs[0].State = "x", "restarting"
		})...), "", "input_restarting input web, output_failing output lake"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, x := range []struct {
				what, want string
				got        Health
			}{{"live", tt.live, Live(tt.all)}, {"ready", tt.ready, Ready(tt.all)}} {
				if got := worded(x.got); got != x.want || (x.got.Status == "ok") != (x.want == "") {
					t.Errorf("%s: got %s: %s, want %q", x.what, x.got.Status, got, x.want)
				}
				for _, c := range x.got.Checks {
					if c.Impact == "" || c.Cause == "" || c.Action == "" || c.Indicator != noPipeline && c.Pipeline != "orders" {
						t.Errorf("%s does not say all: %+v", c.Indicator, c)
					}
				}
			}
		})
	}
}

func TestAStuckCallSaysWhatCanBeDone(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := map[string]string{}
	for what, word := range map[string]string{
		"write": "raise the output's `timeout`", "step": "kill -TTIN", "batcher": "report it as a bug",
		"ack": "the source of this input", "lane": "prints what every stage is doing", "probe": "restart flowd",
	} {
		c := stuck("orders", engine.Stuck{Place: "output lake", What: what, Since: since})
		if !strings.Contains(c.Action, word) || c.Since != since || c.Pipeline != "orders" {
			t.Errorf("%s: %+v, want %q", what, c, word)
		}
		if other := seen[c.Cause]; other != "" {
			t.Errorf("%s and %s say the same", what, other)
		}
		seen[c.Cause] = what
	}
}

func TestHeldMessagesSayWhatTheyWaitFor(t *testing.T) {
	s := engine.Snapshot{Pipeline: "orders", State: engine.Running, MaxMessages: 10, Waiting: 6, Retries: 6,
		OldestUnsettled: 90*time.Second + time.Millisecond}
	c := held(s)[0]
	if want := "6 of at most 10 messages wait: 6 for a retry, 0 for a limit or for an earlier message with the same key. The oldest " +
		"message in flight is 1m30s old."; c.Cause != want {
		t.Errorf("cause %q, want %q", c.Cause, want)
	}
	if !strings.Contains(c.Action, "max_attempts") {
		t.Errorf("of retries: %s", c.Action)
	}
	s.Held = &engine.Held{At: "input log, path a.log, line 17", For: "a retry of output lake", Err: "refused",
		Age: 80 * time.Second, Due: 5 * time.Second}
	c = held(s)[0]
	if want := " The oldest waiting message is 1m20s old. It waits for a retry of output lake, and continues in 5s."; !strings.HasSuffix(
		c.Cause, want) || c.Position != s.Held.At || c.Error != "refused" {
		t.Errorf("%+v, want %q", c, want)
	}
	s.Retries = 1
	if c = held(s)[0]; !strings.Contains(c.Action, "one failing message holds up all later messages with its key") {
		t.Errorf("of keys: %s", c.Action)
	}
	s.Retries, s.Held = 0, nil
	if c = held(s)[0]; !strings.Contains(c.Action, "flowd ctl limit") {
		t.Errorf("of limits: %s", c.Action)
	}
	s.Outputs = []engine.OutputState{{Name: "fine", Breaker: "closed"}, {Name: "lake", Breaker: "open"},
		{Name: "log", Err: "x"}}
	if c = held(s)[0]; !strings.HasSuffix(c.Action, ": output lake, output log.") {
		t.Errorf("of outputs: %s", c.Action)
	}
}

func TestProbesShowPositionsOnlyWithTheToken(t *testing.T) {
	const secret = "input log, path /home/someone/a.log, line 17"
	p := &fake{snapshots: []engine.Snapshot{{
		Pipeline: "orders", State: engine.Running, MaxMessages: 10, Waiting: 9, OldestAt: secret,
		Held: &engine.Held{At: secret, For: "a retry of output lake", Err: secret},
	}}}
	s := serve(t, Config{}, p)
	if _, body, _ := send(t, s, "GET", "/ready", ""); strings.Contains(body, "someone") ||
		!strings.Contains(body, "a retry of output lake") {
		t.Errorf("shown to everyone: %s", body)
	}
	if _, body, _ := send(t, s, "GET", "/ready", "", withToken...); !strings.Contains(body, `"position":"`+secret) {
		t.Errorf("not shown to the operator: %s", body)
	}
	if _, body, _ := send(t, s, "GET", "/metrics", "", withToken...); strings.Contains(body, "someone") {
		t.Errorf("a metric shows it: %s", body)
	}
}

func TestProbesShowErrorsOnlyWithTheToken(t *testing.T) {
	const secret = "duplicate key (email)=(someone)"
	p := &fake{snapshots: []engine.Snapshot{{Pipeline: "orders", State: engine.Running,
		Outputs: []engine.OutputState{{Name: "lake", Err: secret}}}}}
	s := serve(t, Config{}, p)
	status, body, _ := send(t, s, "GET", "/ready", "")
	var h Health
	if err := json.Unmarshal([]byte(body), &h); err != nil || status != 503 ||
		worded(h) != "output_failing output lake" {
		t.Errorf("got %d %s", status, body)
	}
	if strings.Contains(body, secret) {
		t.Errorf("shown to everyone: %s", body)
	}
	if _, body, _ = send(t, s, "GET", "/ready", "", withToken...); !strings.Contains(body, secret) {
		t.Errorf("not shown to the operator: %s", body)
	}
	if status, body, _ = send(t, s, "GET", "/live", ""); status != 200 || body != `{"status":"ok"}`+"\n" {
		t.Errorf("live: got %d %s", status, body)
	}
}
