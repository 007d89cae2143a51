package pipetest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	_ "github.com/flowd-io/flowd/inputs"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
)

// played runs all tests of a file and gives, by name, what is different.
func played(t *testing.T, file string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for name, res := range results(t, file) {
		all[name] = nil
		for _, d := range res.Differences {
			line := d.At
			for _, part := range [][2]string{{" ", d.Path}, {" - ", d.Want}, {" + ", d.Got}} {
				if part[1] != "" {
					line += part[0] + part[1]
				}
			}
			all[name] = append(all[name], line)
		}
		for _, p := range res.Problems {
			all[name] = append(all[name], p.String())
		}
	}
	return all
}

func results(t *testing.T, file string) map[string]Result {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	set, problems := config.Load([]string{path}, config.Options{Testing: true})
	for _, p := range problems {
		if !p.Warning {
			t.Fatal(p)
		}
	}
	all := map[string]Result{}
	for i, test := range set.Pipelines[0].Tests() {
		res, err := Run(set.Rehearse(set.Pipelines[0], i))
		if err != nil {
			t.Fatalf("%s: %v", test.Name, err)
		}
		all[test.Name] = res
	}
	return all
}

// want checks what played gives.
func want(t *testing.T, file string, want map[string][]string) {
	t.Helper()
	if diff := cmp.Diff(want, played(t, file)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

const orders = `
inputs: {web: {http_server: ":1"}}
processors:
  - filter: total > 0
  - name: check address
    set: {geo.country: '"none"'}
  - set: {seen: now()}
outputs:
  out: {stdout: {}, concurrency: 4}
  dead: {file: {path: dead, framing: messages}}
engine: {on_failure: {dead_letter: dead}}
tests:
`

func TestWhatArrivesIsCompared(t *testing.T) {
	want(t, orders+`
  - name: all as expected
    input: [{json: {total: 1, geo: {zip: 9}}, meta: {topic: a}}, {json: {total: 0}}, {text: "no"}]
    mocks: {check address: {geo: {country: SG}}}
    expect:
      out: [{json: {total: 1.0, geo: {zip: 9, country: SG}, seen: "2000-01-01T00:00:00Z"}, meta: {topic: a}, matches: total == 1}]
      dead: [{text: "no", error: {class: decode, place: step filter, message: not a JSON document}}]
    fates: {delivered: 1, filtered: 1, dead_lettered: 1}
    failures: [{class: decode, fate: dead_lettered}]
  - name: fields
    input: [{json: {total: 1, list: [1, 2], gone: 1}}]
    mocks: {check address: {}}
    expect: {out: [{json: {total: 2, list: [1, 3, 4], more: {a: 1}, seen: null}}]}
  - name: lists
    input: [{json: {total: 1}}, {json: {total: 2}}, {json: {total: 3}}]
    mocks: {check address: {}, set: {}}
    expect: {out: [{json: {total: 2}}, {json: {total: 3}}, {matches: total == 4}], dead: [{}]}
  - name: the rest of a message
    input: [{json: {total: 1}, meta: {topic: a}}]
    mocks: {check address: {}, set: {}}
    expect: {out: [{text: '{"total": 1}', meta: {topic: b, other: 1}, matches: total == 2, error: {class: decode}}]}
  - name: what is not listed
    input: [{json: {total: 1}}]
    mocks: {check address: {}, set: {}}
    expect: {}
  - name: nothing expected
    input: [{json: {total: 1}}]
`, map[string][]string{
		"all as expected": nil,
		"fields": {
			`output out, message 1 gone + 1`, `output out, message 1 list[1] - 3 + 2`,
			`output out, message 1 list[2] - 4`,
			`output out, message 1 more - {"a":1}`, `output out, message 1 seen - null + "2000-01-01T00:00:00Z"`,
			`output out, message 1 total - 2 + 1`,
		},
		"lists": {
			`output dead message 1 is missing - a message`,
			`output out message 1 is not expected + {"total":1}`,
			`output out message 3 is missing - matches: total == 4`,
		},
		"the rest of a message": {
			`output out, message 1 - {"total": 1} + {"total":1}`, `output out, message 1 meta topic - "b" + "a"`,
			`output out, message 1 meta other - 1 + null`,
			`output out, message 1 error - class: decode + it has not failed`,
			`output out, message 1 - matches: total == 2 + {"total":1}`,
		},
		"what is not listed": {`output out message 1 is not expected + {"total":1}`},
		"nothing expected":   {"test + nothing is expected (--update writes what arrived)"},
	})
}

func TestMocksAnswerForSteps(t *testing.T) {
	want(t, `
inputs: {in: {stdin: {}}}
processors:
  - name: look up
    set: {from: '"the real one"'}
    on_error: continue
  - switch:
      - do:
          - name: inner
            set: {inner: 1}
  - steps: shared
resources: {steps: {shared: [{name: of resources, set: {shared: 1}}]}}
outputs: {out: {stdout: {}}}
tests:
  - name: real
    input: [{json: {}}]
    expect: {out: [{json: {from: the real one, inner: 1, shared: 1}}]}
  - name: everywhere
    input: [{json: {a: {b: 1, c: 2}}}]
    mocks: {look up: {a: {b: {x: 1}, d: 3}, e: [1]}, inner: {set: {set: 1}}, of resources: {meta: {m: 1}}}
    expect: {out: [{json: {a: {b: {x: 1}, c: 2, d: 3}, e: [1], set: 1}, meta: {m: 1}}]}
  - name: what a mock set need not be listed
    input: [{json: {a: {c: 2}}}]
    mocks: {look up: {a: {b: {x: 1}}, e: [1]}, inner: {set: {inner: 1}}, of resources: {}}
    expect: {out: [{json: {a: {c: 2}}}]}
  - name: as long as it is what the mock set
    input: [{json: {}}]
    mocks: {look up: {inner: 2, a: {x: 1}}, of resources: {}}
    expect: {out: [{json: {a: {x: 2}}}]}
  - name: by message
    input: [{json: {n: 1}}, {json: {n: 2}}, {json: {n: 3}}, {json: {n: 4}}]
    mocks:
      look up: [{match: n == 1, drop: true}, {match: n == 2, error: "no"}, {match: n == 3, json: {n: 33}}]
      inner: {}
      of resources: {}
    expect: {out: [{json: {n: 2}}, {json: {n: 33}}, {json: {n: 4}}]}
  - name: a payload that is no document
    input: [{json: {}}]
    mocks: {look up: {text: hello}, inner: {}, of resources: {}}
    expect: {out: [{text: hello}]}
  - name: a switch as a whole
    input: [{json: {}}]
    mocks: {switch: {s: 1}, shared: {}}
    expect: {out: [{json: {from: the real one, s: 1}}]}
`, map[string][]string{"real": nil, "everywhere": nil, "what a mock set need not be listed": nil,
		"as long as it is what the mock set": {`output out, message 1 a.x - 2 + 1`, `output out, message 1 inner + 1`},
		"by message":                         nil, "a payload that is no document": nil, "a switch as a whole": nil})
}

// once makes a failed message end after one try.
const once = `engine: {on_failure: {retry: {max_attempts: 1}}}`

func TestFaultsFailOutputsAndSteps(t *testing.T) {
	want(t, `
inputs: {in: {stdin: {}}}
processors: [{name: work, set: {done: true}}]
outputs: {out: {stdout: {}}}
`+once+`
tests:
  - name: an output for a number of writes
    input: [{json: {n: 1}}, {json: {n: 2}, at: 1s}, {json: {n: 3}, at: 2s}]
    fail: {out: {times: 2, message: down, class: rejected}}
    expect: {out: [{json: {n: 3, done: true}}]}
    failures: [{class: rejected, place: output out, message: down, count: 2, fate: returned}]
  - name: an output for a time
    input: [{json: {n: 1}}, {json: {n: 2}, at: 1m}, {json: {n: 3}, at: 2m}]
    fail: {out: {for: 90s, class: permanent}}
    expect: {out: [{json: {n: 3, done: true}}]}
    fates: {delivered: 1, returned: 2}
  - name: an output for some messages
    input: [{json: {n: 1}}, {json: {n: 2}}, {json: {n: 3}}]
    fail: {out: {match: n == 2}}
    expect: {out: [{matches: n == 1}, {matches: n == 3}]}
    failures: [{class: transient, place: output out}]
  - name: a step for a number of messages
    input: [{json: {n: 1}}, {json: {n: 2}}, {json: {n: 3}}]
    fail: {work: {times: 2, class: permanent}}
    expect: {out: [{json: {n: 3, done: true}}]}
    failures: [{class: permanent, place: step work, count: 2}]
  - name: a step for ever
    input: [{json: {n: 1}}, {json: {n: 2}, at: 1h}]
    fail: {work: {class: permanent}}
    mocks: {work: {}}
    expect: {}
    fates: {returned: 2}
  - name: nobody speaks of it
    input: [{json: {n: 1}}]
    fail: {out: {class: permanent}}
    expect: {}
  - name: other failures
    input: [{json: {n: 1}}]
    fail: {out: {class: permanent}}
    failures: [{class: auth, place: output lake, message: else, fate: dropped, count: 2}, {class: late}]
    fates: {delivered: 1}
`, map[string][]string{
		"an output for a number of writes": nil, "an output for a time": nil, "an output for some messages": nil,
		"a step for a number of messages": nil, "a step for ever": nil,
		"nobody speaks of it": {"failures + 1 returned: permanent in output out: failed by the test (first from input in)"},
		"other failures": {
			"fates delivered - 1 + 0", "fates returned - 0 + 1 (input 1)",
			"failures, 1 class - auth + permanent", "failures, 1 place - output lake + output out",
			"failures, 1 message - … else … + failed by the test",
			"failures, 1 fate - dropped + returned", "failures, 1 count - 2 + 1", "failures - class: late, count: 1",
		},
	})
}

func TestTimeIsVirtual(t *testing.T) {
	began := time.Now()
	res := results(t, `
inputs: {a: {stdin: {}}, b: {generate: {body: '{}'}}}
processors: [{set: {from: input(), at: now(), n: attempt()}}, {sleep: 10m, when: slow == true}]
batchers: {all: {batch: {size: 3, timeout: 1h}, output: out}}
outputs: {out: {stdout: {}}}
engine: {timeout: 20m}
tests:
  - name: batches
    input:
      - {json: {}, input: b, at: 30m}
      - {json: {}, input: a}
      - {json: {}, input: b, attempt: 2}
      - {json: {slow: true}, input: a, at: 2h}
    until: 12h
    within: 12h
    expect:
      out:
        batches:
          - trigger: size
            messages:
              - json: {from: a, at: "2000-01-01T00:00:00Z", n: 1}
              - json: {from: b, at: "2000-01-01T00:00:00Z", n: 2}
              - json: {from: b, at: "2000-01-01T00:30:00Z", n: 1}
          - {trigger: timeout, messages: [{matches: slow}]}
  - name: too slow
    input: [{json: {slow: true}, input: a}]
    expect: {out: {any_order: true, batches: [[{}]]}}
    within: 5m
  - name: the end sends what is there
    input: [{json: {}, input: a}, {json: {}, input: b}]
    expect: {out: {batches: [{trigger: end, messages: [{matches: from == "a"}, {matches: from == "b"}]}, {trigger: size, key: 1, messages: [{}]}]}}
`)
	if d := res["batches"].Differences; len(d) > 0 || res["batches"].Took != 12*time.Hour {
		t.Errorf("took %v, differences %v", res["batches"].Took, d)
	}
	if diff := cmp.Diff([]Difference{{At: "time", Want: "at most 5m0s", Got: "10m0s"}},
		res["too slow"].Differences); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Difference{{At: "output out", Path: "batch 2 is missing", Want: "[a message]"}},
		res["the end sends what is there"].Differences); diff != "" {
		t.Error(diff)
	}
	if real := time.Since(began); real > time.Minute {
		t.Errorf("hours of virtual time took %v", real)
	}
}

func TestWhatTheInputTakesBackDecidesWhereFailuresGo(t *testing.T) {
	want(t, `
inputs: {in: {file: x}}
processors: [{filter: n > 0}]
outputs: {out: {stdout: {}}}
tests:
  - {name: one, input: [{json: {n: x}}], fates: {returned: 1}}
  - {name: nothing, takes_back: nothing, input: [{json: {n: x}}], fates: {dropped: 1}}
  - {name: position, takes_back: position, input: [{json: {n: x}}], stops: cannot compare}
  - {name: it does not stop, input: [{json: {n: 1}}], stops: because}
  - {name: it stops, takes_back: position, input: [{json: {n: x}}], fates: {returned: 1}}
`, map[string][]string{
		"one": nil, "nothing": nil, "position": nil, "it does not stop": {"run - stops: because + it did not stop"},
		"it stops": {"run + it stopped: cannot compare text \"x\" with number 0 using >\n  n > 0\n    ^"},
	})
}

func TestEachMessageIsAcknowledgedAsExpected(t *testing.T) {
	want(t, `
inputs: {in: {file: x}}
processors:
  - {filter: n > 0, on_error: [{fail: no number}]}
  - {name: pay, set: {paid: true}}
batchers: {all: {batch: {size: 2, timeout: 1s}, output: out}}
outputs:
  out: {stdout: {}}
tests:
  - name: as they are
    input: [{json: {n: 1}}, {json: {n: 0}}, {json: {n: x}}, {json: {n: 3}}]
    fail: {pay: {match: n == 3, class: rejected, message: no money}}
    acks: [delivered, filtered, {fate: returned, class: permanent, message: no number}, {fate: returned, class: rejected, place: step pay, message: money}]
    expect: {out: [{}]}
  - name: other than expected
    input: [{json: {n: 1}}, {json: {n: 0}}, {json: {n: 3}}, {json: {n: 3}}]
    fail: {pay: {match: n == 3, class: rejected, message: no money}}
    acks: [returned, {delay: 5s}, delivered, {fate: returned, class: auth, delay: 5s}]
  - name: any
    input: [{json: {n: 1}}, {json: {n: x}}]
    acks: [{}, {}]
  - name: sources that take nothing back
    takes_back: nothing
    input: [{json: {n: 1}}, {json: {n: x}}]
    acks: [delivered, dropped]
  - name: a message that was not read
    takes_back: position
    input: [{json: {n: x}}, {json: {n: 1}, at: 5s}]
    stops: no number
    acks: [returned, none]
`, map[string][]string{
		"as they are": nil, "any": nil, "sources that take nothing back": nil, "a message that was not read": nil,
		"other than expected": {
			"input message 1 ack - returned + delivered", "input message 2 delay - 5s + 0s",
			"input message 3 ack - delivered + returned: rejected in step pay: no money",
			"input message 4 delay - 5s + 0s", "input message 4 class - auth + rejected",
		},
	})
	want(t, orders+`
  - name: dead letters
    input: [{text: "no"}]
    acks: [{fate: dead_lettered, place: step filter}]
`, map[string][]string{"dead letters": nil})
	want(t, `
inputs: {in: {stdin: {}}}
outputs: {out: {stdout: {}, retry: {intervals: [5s, 15m]}}}
tests:
  - name: a source that can delay
    max_delay: 12h
    input: [{json: {n: 1}}]
    fail: {out: {}}
    acks: [{fate: returned, delay: 15m, class: transient}]
  - name: a source that can not
    input: [{json: {n: 1}}]
    fail: {out: 2}
    acks: [{fate: delivered, delay: 0s}]
`, map[string][]string{"a source that can delay": nil, "a source that can not": nil})
}

func TestWhatCannotBeBuiltIsSaid(t *testing.T) {
	got := played(t, `
inputs: {in: {stdin: {}}}
processors: [{archive: lines}]
outputs: {out: {stdout: {}}}
tests: [{name: a batch step, input: [{json: {}}], expect: {}}]
`)["a batch step"]
	if len(got) != 1 ||
		!strings.Contains(got[0], "p.yaml:3:15: processors[0].archive: archive works on whole batches") {
		t.Errorf("got %q", got)
	}
}

func TestOneMessageInAnyOrderStandsForOneExpected(t *testing.T) {
	want(t, `
inputs: {in: {stdin: {}}}
outputs: {out: {stdout: {}}}
tests:
  - name: the picky one gets what the other leaves
    input: [{json: {n: 2}}, {json: {n: 1}}]
    expect: {out: {any_order: true, messages: [{}, {json: {n: 2}}]}}
  - name: one each
    input: [{json: {n: 1}}]
    expect: {out: {any_order: true, messages: [{json: {n: 1}}, {json: {n: 1}}]}}
`, map[string][]string{"the picky one gets what the other leaves": nil, "one each": {`output out message 2 is missing - {"n":1}`}})
}

func TestNumbersAreComparedByValue(t *testing.T) {
	want(t, `
inputs: {in: {stdin: {}}}
outputs: {out: {stdout: {}}}
tests:
  - name: equal
    input: [{text: '[1, 1.0, 100, 0.1, 9007199254740993, 123456789012345678901234567890]'}]
    expect: {out: [{json: [1.0, 1, 1e2, 0.10, 9007199254740993, 123456789012345678901234567890]}]}
  - name: different
    input: [{text: '[1, 9007199254740993, 123456789012345678901234567890, "1", null, true]'}]
    expect: {out: [{json: [1.5, 9007199254740992, 123456789012345678901234567891, 1, false, "true"]}]}
`, map[string][]string{"equal": nil, "different": {
		"output out, message 1 [0] - 1.5 + 1", "output out, message 1 [1] - 9007199254740992 + 9007199254740993",
		"output out, message 1 [2] - 123456789012345678901234567891 + 123456789012345678901234567890",
		`output out, message 1 [3] - 1 + "1"`, "output out, message 1 [4] - false + null",
		`output out, message 1 [5] - "true" + true`,
	}})
}

func TestABubbleEndsWhateverHappensInIt(t *testing.T) {
	flags := 0
	flag.VisitAll(func(*flag.Flag) { flags++ })
	var began time.Time
	if err := bubble(func() { began = time.Now(); time.Sleep(time.Hour) }); err != nil ||
		!began.Equal(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("err %v, it began at %v", err, began)
	}
	if err := bubble(func() { <-make(chan int) }); err != errHangs {
		t.Errorf("a deadlock gives %v", err)
	}
	if err := bubble(func() { panic("boo") }); err == nil || err.Error() != "panic: boo" {
		t.Errorf("a panic gives %v", err)
	}
	if err := bubble(func() { go func() { <-make(chan int) }() }); err != nil {
		t.Errorf("what is left behind gives %v", err)
	}
	now := 0
	if flag.VisitAll(func(*flag.Flag) { now++ }); now != flags {
		t.Errorf("there are %d flags, %d before", now, flags)
	}
}

func TestACacheForgets(t *testing.T) {
	err := bubble(func() {
		use := newCache()
		c, err := use.Build(engine.Env{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		get := func() string { v, _, _ := c.Get(ctx, "k"); return string(v) }
		if err := c.Set(ctx, "k", []byte("a"), time.Minute); err != nil || get() != "a" {
			t.Errorf("err %v, value %q", err, get())
		}
		time.Sleep(time.Minute)
		if _, ok, _ := c.Get(ctx, "k"); ok {
			t.Errorf("a key that is too old stays: %q", get())
		}
		if err := c.Set(ctx, "k", []byte("b"), 0); err != nil || get() != "b" {
			t.Errorf("err %v, value %q", err, get())
		}
		if err := c.Delete(ctx, "k"); err != nil || get() != "" {
			t.Errorf("err %v, value %q", err, get())
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestListsAreAlignedByWhatIsTheSame(t *testing.T) {
	same := func(a, b string) func(i, j int) bool { return func(i, j int) bool { return a[i] == b[j] } }
	for _, tt := range []struct {
		a, b string
		want []Pair
	}{
		{"", "", nil},
		{"abc", "abc", []Pair{{0, 0}, {1, 1}, {2, 2}}},
		{"abc", "bc", []Pair{{0, -1}, {1, 0}, {2, 1}}},
		{"bc", "abc", []Pair{{-1, 0}, {0, 1}, {1, 2}}},
		{"axc", "ayc", []Pair{{0, 0}, {1, 1}, {2, 2}}},
		{"ab", "xyz", []Pair{{0, 0}, {1, 1}, {-1, 2}}},
	} {
		if got := Align(len(tt.a), len(tt.b), same(tt.a, tt.b)); !cmp.Equal(got, tt.want) {
			t.Errorf("%q beside %q: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
	const many = 5000 // beyond what is aligned
	if got := Align(many, many, func(i, j int) bool { return i == j+1 }); len(got) != many {
		t.Errorf("%d pairs, want %d", len(got), many)
	}
}

func TestRandomValuesRepeat(t *testing.T) {
	const file = `
inputs: {in: {stdin: {}}}
processors:
  - set: {id: ulid(), n: "random_int(1, 1000000)", u: uuid(), c: counter("x")}
outputs: {out: {stdout: {}}}
tests:
  - name: one
    input: [{expr: '{e: fake("email"), i: counter()}'}, {expr: '{e: fake("email"), i: counter()}'}]
    expect: {}
  - name: another
    seed: 2
    input: [{expr: '{e: fake("email"), i: counter()}'}]
    expect: {}
  - name: broken
    input: [{expr: 'int(fake("name"))'}]
    expect: {}
    failures: [{class: expression, fate: returned}]
`
	bodies := func() map[string][]string {
		all := map[string][]string{}
		for name, res := range results(t, file) {
			for _, w := range res.Came["out"] {
				for _, m := range w.Messages {
					all[name] = append(all[name], string(m.Body))
				}
			}
			if name == "broken" && len(res.Failures) != 1 {
				t.Errorf("got failures %v, want that of the expression", res.Failures)
			}
		}
		return all
	}
	first := bodies()
	if diff := cmp.Diff(first, bodies()); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
	one, other := first["one"], first["another"]
	if len(one) != 2 || len(other) != 1 || one[0] == other[0] || !strings.Contains(one[1], `"i":2,`) ||
		!strings.Contains(one[1], `"c":2`) || !strings.Contains(one[0], `"id":"00VHNCZB00`) {
		t.Errorf("got %v", first)
	}
}
