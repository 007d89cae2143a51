package state_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
)

func contains(body, text string) bool { return strings.Contains(body, text) }

// list is a step that collects the v of the messages with each k.
const list = `{"state": {"key": "k", "set": {"all": "concat(state(\"all\") ?? [], [v])"}, "into": "all"}}`

func with(step, more string) string { return strings.Replace(step, `"key"`, more+`, "key"`, 1) }

func TestTheFateOfAMessageDecidesAboutItsState(t *testing.T) {
	tests := []struct {
		name  string
		p     pipeline
		in    []string
		out   []string // messages in the order of their delivery
		fates []string
		state string // of k == 1 afterwards
	}{
		{
			"a message that fails leaves no trace, and counts when it comes again",
			pipeline{steps: `[` + list + `]`, orderBy: "k", sink: &enginetest.Sink{Fail: failing(1, `"v":1`)}},
			[]string{`{"k":1,"v":1}`},
			[]string{`{"k":1,"v":1,"all":{"all":[1]}}`},
			[]string{`{"k":1,"v":1} returned`, `{"k":1,"v":1} delivered`},
			`{"all":[1]}`,
		},
		{
			"a dead letter leaves no trace, in the state of those behind it either",
			pipeline{steps: `[` + list + `]`, sink: &enginetest.Sink{Delay: time.Second, Fail: failing(1, `"v":1`)},
				dead: &enginetest.Sink{}},
			[]string{`{"k":1,"v":1}`, `{"k":1,"v":2}`, `{"k":1,"v":3}`},
			[]string{`{"k":1,"v":2,"all":{"all":[1,2]}}`, `{"k":1,"v":3,"all":{"all":[1,2,3]}}`},
			[]string{`{"k":1,"v":1} dead_lettered`, `{"k":1,"v":2} delivered`, `{"k":1,"v":3} delivered`},
			`{"all":[2,3]}`,
		},
		{
			"what is filtered counts",
			pipeline{steps: `[` + list + `, {"filter": "v != 2"}]`, orderBy: "k", sink: &enginetest.Sink{}},
			[]string{`{"k":1,"v":1}`, `{"k":1,"v":2}`, `{"k":1,"v":3}`},
			[]string{`{"k":1,"v":1,"all":{"all":[1]}}`, `{"k":1,"v":3,"all":{"all":[1,2,3]}}`},
			[]string{`{"k":1,"v":1} delivered`, `{"k":1,"v":2} filtered`, `{"k":1,"v":3} delivered`},
			`{"all":[1,2,3]}`,
		},
		{
			"who ends first does not count first",
			pipeline{steps: `[` + list + `, {"filter": "v == 1"}]`, orderBy: "k", sink: &enginetest.Sink{Delay: time.Second}},
			[]string{`{"k":1,"v":1}`, `{"k":1,"v":2}`, `{"k":1,"v":3}`},
			[]string{`{"k":1,"v":1,"all":{"all":[1]}}`},
			[]string{`{"k":1,"v":1} delivered`, `{"k":1,"v":2} filtered`, `{"k":1,"v":3} filtered`},
			`{"all":[1,2,3]}`,
		},
		{
			"who ends first stays when the one before it fails",
			pipeline{steps: `[` + list + `, {"filter": "v == 1"}]`, orderBy: "k", dead: &enginetest.Sink{},
				sink: &enginetest.Sink{Delay: time.Second, Fail: failing(1, `"v":1`)}},
			[]string{`{"k":1,"v":1}`, `{"k":1,"v":2}`, `{"k":1,"v":3}`},
			nil,
			[]string{`{"k":1,"v":1} dead_lettered`, `{"k":1,"v":2} filtered`, `{"k":1,"v":3} filtered`},
			`{"all":[2,3]}`,
		},
		{
			"with wait each finds what is final",
			pipeline{steps: `[` + with(list, `"wait": true`) + `]`, sink: &enginetest.Sink{Delay: time.Second,
				Fail: failing(1, `"v":1`)}, dead: &enginetest.Sink{}},
			[]string{`{"k":1,"v":1}`, `{"k":1,"v":2}`, `{"k":1,"v":3}`},
			[]string{`{"k":1,"v":2,"all":{"all":[2]}}`, `{"k":1,"v":3,"all":{"all":[2,3]}}`},
			[]string{`{"k":1,"v":1} dead_lettered`, `{"k":1,"v":2} delivered`, `{"k":1,"v":3} delivered`},
			`{"all":[2,3]}`,
		},
		{
			"who waits and fails then lets the next one go on",
			pipeline{steps: `[{"state": {"key": "k", "wait": true, "set": {"all": "concat(state(\"all\") ?? [], [v + 0])"}, "into": "all"}}]`,
				orderBy: "k", sink: &enginetest.Sink{Delay: time.Second}, dead: &enginetest.Sink{}},
			[]string{`{"k":1,"v":1}`, `{"k":1,"v":"x"}`, `{"k":1,"v":3}`},
			[]string{`{"k":1,"v":1,"all":{"all":[1]}}`, `{"k":1,"v":3,"all":{"all":[1,3]}}`},
			[]string{`{"k":1,"v":"x"} dead_lettered`, `{"k":1,"v":1} delivered`, `{"k":1,"v":3} delivered`},
			`{"all":[1,3]}`,
		},
		{
			"parts of one message do not wait for each other",
			pipeline{steps: `[{"split": "list"}, {"state": {"key": "1", "wait": true, "set": {"all": "concat(state(\"all\") ?? [], [this])"}}}]`,
				sink: &enginetest.Sink{}},
			[]string{`{"list":[1,2,3]}`},
			[]string{"1", "2", "3"},
			[]string{`{"list":[1,2,3]} delivered`},
			`{"all":[1,2,3]}`,
		},
		{
			"a write that is tried again counts once",
			pipeline{steps: `[` + list + `]`, orderBy: "k", attempts: 3, sink: &enginetest.Sink{Fail: failing(2, `"v":1`)}},
			[]string{`{"k":1,"v":1}`, `{"k":1,"v":2}`},
			[]string{`{"k":1,"v":1,"all":{"all":[1]}}`, `{"k":1,"v":2,"all":{"all":[1,2]}}`},
			[]string{`{"k":1,"v":1} delivered`, `{"k":1,"v":2} delivered`},
			`{"all":[1,2]}`,
		},
		{
			"steps that are tried again together count once",
			pipeline{steps: `[{"switch": [{"do": [` + list + `, {"test_flaky": "x"}]}], "retry": {"max_attempts": 3}}]`, orderBy: "k",
				sink: &enginetest.Sink{}},
			[]string{`{"k":1,"v":1,"x":2}`, `{"k":1,"v":2,"x":0}`},
			[]string{`{"k":1,"v":1,"x":2,"all":{"all":[1]}}`, `{"k":1,"v":2,"x":0,"all":{"all":[1,2]}}`},
			[]string{`{"k":1,"v":1,"x":2} delivered`, `{"k":1,"v":2,"x":0} delivered`},
			`{"all":[1,2]}`,
		},
		{
			"a step with steps inside that is tried again counts once",
			pipeline{steps: `[{"each": {"in": "list", "do": [{"state": {"key": "1", "set": {"n": "(state(\"n\") ?? 0) + 1"}}}, {"test_flaky": ` +
				`"this"}]}}]`,
				attempts: 5, sink: &enginetest.Sink{}},
			[]string{`{"list":[0,2,0]}`},
			[]string{`{"list":[0,2,0]}`},
			[]string{`{"list":[0,2,0]} delivered`},
			`{"n":3}`,
		},
		{
			"a batch commits as a whole",
			pipeline{steps: `[` + list + `]`, orderBy: "k", sink: &enginetest.Sink{Ordered: true},
				batcher: `{"batch": {"size": 100, "timeout": "5s"}, "output": "out"}`},
			[]string{`{"k":1,"v":1}`, `{"k":1,"v":2}`, `{"k":1,"v":3}`},
			[]string{`{"k":1,"v":1,"all":{"all":[1]}}`, `{"k":1,"v":2,"all":{"all":[1,2]}}`, `{"k":1,"v":3,"all":{"all":[1,2,3]}}`},
			[]string{`{"k":1,"v":1} delivered`, `{"k":1,"v":2} delivered`, `{"k":1,"v":3} delivered`},
			`{"all":[1,2,3]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flaky = map[string]int{}
				src := steptest.NewBroker(tt.in...)
				tt.p.src = src
				tt.p.cache = cachetest.New(t, `{"memory": {}}`)
				tt.p.steps = strings.ReplaceAll(tt.p.steps, `{"state": {`, `{"state": {"cache": "c", `)
				tt.p.run(t, t.Context())
				slices.Sort(src.Fates[max(0, len(src.Fates)-len(tt.in)):])
				slices.Sort(tt.fates[max(0, len(tt.fates)-len(tt.in)):])
				want(t, "fates", src.Fates, tt.fates)
				want(t, "delivered", tt.p.sink.Bodies(), tt.out)
				if got := cachetest.Get(t, tt.p.cache, "state:1"); got != tt.state {
					t.Errorf("the state is %s, want %s", got, tt.state)
				}
			})
		})
	}
}

// flakyConfig configures how often messages fail.
type flakyConfig struct {
	Times expr.Expr `yaml:"times,main" doc:"How often."`
}

// flaky counts how often messages have failed in test_flaky, by payload.
var (
	flakyMu sync.Mutex
	flaky   map[string]int
)

func init() {
	engine.Register(engine.Processors, "test_flaky", "Fails as often as the field says.", flakyConfig{},
		func(c flakyConfig, _ engine.Env) (engine.Processor, error) {
			return engine.ProcessorFunc(func(_ context.Context, m *engine.Message) error {
				v, err := c.Times.Eval(m)
				if err != nil {
					return err
				}
				flakyMu.Lock()
				defer flakyMu.Unlock()
				if flaky[string(m.Bytes())]++; flaky[string(m.Bytes())] <= v.(int) {
					return engine.WithClass(engine.Transient, errScripted)
				}
				return nil
			}), nil
		})
}

// TestWhoFailsAndGoesOnHoldsUpNobody lets the second message fail in the step, continue, and stay in a batch for a long time. The third
// message waits for the first only, and is delivered before the second.
func TestWhoFailsAndGoesOnHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		src := steptest.NewBroker(`{"k":1,"v":1}`, `{"k":1,"v":"x","slow":true}`, `{"k":1,"v":3}`)
		p := pipeline{src: src, sink: &enginetest.Sink{Delay: time.Second},
			steps:   `[{"state": {"key": "k", "wait": true, "set": {"sum": "(state(\"sum\") ?? 0) + v"}}, "on_error": "continue"}]`,
			batcher: `{"batch": {"size": 9, "timeout": "1m", "flush": "slow == nil"}, "key": "string(v)", "output": "out"}`}
		p.run(t, t.Context())
		if took := time.Since(began); took > 63*time.Second {
			t.Errorf("it took %v", took)
		}
		want(t, "delivered", p.sink.Bodies(), []string{`{"k":1,"v":1}`, `{"k":1,"v":3}`, `{"k":1,"v":"x","slow":true}`})
	})
}

// Parts that wait for their key keep their credits. Parts of earlier messages that are still missing get credits nevertheless.
func TestPartsThatWaitLeaveRoomForOthers(t *testing.T) {
	for _, p := range []pipeline{{workers: 1}, {workers: 2}, {workers: 1, orderBy: "k"}, {workers: 2, orderBy: "k"}} {
		synctest.Test(t, func(t *testing.T) {
			p.steps, p.room = `[{"split": "items"}, `+with(list, `"wait": true`)+`]`, 10
			var in []string
			for i := range 200 {
				k := strconv.Itoa(i % 3)
				in = append(in, `{"items":[{"k":`+k+`,"v":0},{"k":`+k+`,"v":1}]}`)
			}
			p.src, p.sink = &enginetest.Source{Payloads: in}, &enginetest.Sink{Delay: time.Millisecond}
			if got := p.run(t, t.Context()).Stats.Roots.Ended[engine.Delivered]; got != 200 {
				t.Errorf("%d workers, order by %q: %d of 200 messages were delivered", p.workers, p.orderBy, got)
			}
		})
	}
}
