package singer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/components/programs"
)

func TestInput(t *testing.T) {
	lines := []string{testSchema}
	want := []string{`{"id":1}`, `{ "id" : 12345678901234567890, "price": 1.10 }`, `{"id":"\u00e9"}`, `{"id":4}`}
	for _, record := range want {
		lines = append(lines, `{"record":`+record+`,"stream":"users","type":"RECORD"}`, `{"type":"STATE","value":{"at":`+record+`}}`)
	}
	for name, more := range map[string]string{"without a checkpoint": "", "with a checkpoint": "x"} {
		t.Run(name, func(t *testing.T) {
			enginetest.Input(t, func(t *testing.T) engine.Input {
				if more != "" {
					more = fmt.Sprintf(`, "checkpoint": %q`, filepath.Join(t.TempDir(), "c"))
				}
				return made(t, component(tapConfig{Lines: lines}, more))
			}, want...)
		})
	}
}

func TestMetadata(t *testing.T) {
	record := func(more string) string { return `{"type":"RECORD","stream":"users","record":{"id":1}` + more + `}` }
	lines := []string{"", testSchema, record(""), record(`,"version":12345678901234567,"time_extracted":"2024-01-01T00:00:00Z"`),
		record(`,"version":null`), `{"type":"ACTIVATE_VERSION","stream":"users","version":7}`, testSchema, record("")}
	const plain = `{"key_properties":["id"],"schema":{"properties":{"id":{"type":"integer"}},"type":"object"},"stream":"users"`
	want := []string{plain + "}", plain + `,"time_extracted":"2024-01-01T00:00:00Z","version":12345678901234567}`, plain + "}", plain + "}"}
	for _, schema := range []bool{true, false} {
		in := opened(t, component(tapConfig{Lines: lines}, fmt.Sprintf(`, "schema": %v`, schema)))
		got, err := rest(t, in)
		if err != engine.ErrEnd || len(got) != len(want) {
			t.Fatalf("%d messages, %v", len(got), err)
		}
		for i, m := range got {
			text, err := json.Marshal(m.meta.Map())
			expected := want[i]
			if !schema {
				expected = strings.Replace(expected, `"schema":{"properties":{"id":{"type":"integer"}},"type":"object"},`, "", 1)
			}
			if string(text) != expected || err != nil {
				t.Errorf("message %d: got %s, %v, want %s", i, text, err, expected)
			}
			for name := range m.meta.Added() {
				t.Errorf("%s is not the input's own", name)
			}
		}
	}
}

// An output that fails, taps that are killed, and restarts of flowd: every record arrives, and no state is saved before
// everything in front of it is delivered.
func TestNothingIsLost(t *testing.T) {
	const rounds = 20
	more := fmt.Sprintf(`, "checkpoint": %q`, filepath.Join(t.TempDir(), "c"))
	delivered, last := map[int]bool{}, 0                                // ids
	endless := tapConfig{IDs: 1 << 30, Pad: strings.Repeat("x", 1<<10)} // so that a pipe holds little
	in := made(t, component(endless, more))
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 2 * rounds {
		reopen(t, in)
		first, killed := true, false
		for {
			got, err := read(t, in, 1+random.IntN(40))
			if len(got) == 0 {
				if !killed {
					t.Fatal(err)
				}
				var e *engine.Error
				if !errors.As(err, &e) || e.Class != engine.Transient || !strings.Contains(err.Error(), "signal: killed") {
					t.Fatalf("got %v, want the end of the tap", err)
				}
				break
			}
			n := got[0].numbers(t)
			last = max(last, got[len(got)-1].numbers(t).ID)
			for id := 1; first && id < n.ID; id++ {
				if !delivered[id] && round%2 == 0 { // a new input begins behind the saved state
					t.Fatalf("round %d begins at %d, and %d was not delivered", round, n.ID, id)
				}
			}
			first = false
			lost := random.IntN(20) == 0
			for _, m := range got {
				if fate := engine.Delivered; !lost {
					settle(t, in, fate, m)
					delivered[m.numbers(t).ID] = true
				} else {
					settle(t, in, engine.Returned, m)
				}
			}
			if !killed && random.IntN(4) == 0 {
				kill(t, n.PID)
				killed = true
			}
			if round%2 == 1 && random.IntN(8) == 0 {
				break
			}
		}
		closed(t, in)
		if round%2 == 1 {
			in = made(t, component(endless, more))
		}
	}
	in = opened(t, component(tapConfig{IDs: last}, more))
	got, err := rest(t, in)
	if err != engine.ErrEnd {
		t.Fatal(err)
	}
	for _, m := range got {
		delivered[m.numbers(t).ID] = true
	}
	if len(delivered) != last {
		t.Errorf("%d of %d records were delivered", len(delivered), last)
	}
}

func TestAPipelineRunsAFailedTapAgain(t *testing.T) {
	var dst enginetest.Sink
	in := made(t, component(tapConfig{IDs: 12, Fails: 8}, ""))
	rep := enginetest.Run(t, &engine.Pipeline{
		Inputs: enginetest.Named("in",
			engine.InputSpec{Use: engine.Use(func(engine.Env) (engine.Input, error) { return in, nil })}),
		Outputs: enginetest.Named("out", dst.Output()),
		Engine:  engine.EngineSpec{Workers: 1},
	}, nil)
	var got []int
	for _, body := range dst.Bodies() {
		got = append(got, message{body: body}.numbers(t).ID)
	}
	if want := []int{1, 2, 3, 4, 5, 6, 7, 6, 7, 8, 9, 10, 11, 12}; rep.Err != nil || !slices.Equal(got, want) {
		t.Errorf("err %v, got %v, want %v", rep.Err, got, want)
	}
}

func TestATapThatFails(t *testing.T) {
	const record = `{"type":"RECORD","stream":"users","record":{"id":1}}`
	line := func(text string) tapConfig { return tapConfig{Lines: []string{text}} }
	tests := []struct {
		name string
		tap  tapConfig
		want string // class: error
	}{
		{"a status", tapConfig{Exit: 3, Says: "no\x1b such host\n"}, "transient: the program ended: exit status 3: no  such host"},
		{"the middle of a line", tapConfig{Exit: 1, Text: record[:20]}, "transient: the program ended: exit status 1"},
		{"a last line that is cut short", tapConfig{Text: record[:20]},
			`decode: line 3 of the tap's output is not a Singer message, "{\"type\":\"RECORD\",\"st": not a JSON document`},
		{"other output", tapConfig{Lines: []string{"Syncing users"}, Says: "verbose\n"},
			`decode: line 3 of the tap's output is not a Singer message, "Syncing users": not a JSON document: `},
		{"with what it says", tapConfig{Lines: []string{"x"}, Says: "bad option -v\n"}, "; standard error: bad option -v"},
		{"no object", line("[]"), "line 3 of the tap's output is not a Singer message"},
		{"not a number", line(`{"type":"RECORD","stream":"users","record":{"id":NaN}}`), "is not a Singer message"},
		{"a long line", line(strings.Repeat("x", 3000)), "line 3 of the tap's output is longer than max_line, 2KB (raise it)"},
		{"no schema", line(`{"type":"RECORD","stream":"orders","record":{"id":1}}`),
			`line 3 of the tap's output has a record of the stream "orders", which has no SCHEMA yet (a tap must write it before the first record)`},
		{"no type", line(`{}`), "has no field type"},
		{"another type", line(`{"type":"LOG"}`), `has the type "LOG", which is not a type of Singer messages`},
		{"a type that is not a text", line(`{"type":7}`), "has a field type that is a number, not a string"},
		{"files", line(`{"type":"BATCH","stream":"users"}`), "remove batch_config"},
		{"no record", line(`{"type":"RECORD","stream":"users"}`), "has no field record"},
		{"no stream", line(`{"type":"RECORD","record":{}}`), "has no field stream"},
		{"an empty stream", line(`{"type":"RECORD","stream":"","record":{}}`), "has a field stream that is empty"},
		{"half a character", line(`{"type":"RECORD","stream":"\ud800","record":{}}`), "empty or not valid text"},
		{"a record that is not an object", line(`{"type":"RECORD","stream":"users","record":[1]}`),
			"has a field record that is an array, not an object"},
		{"a version", line(`{"type":"RECORD","stream":"users","record":{},"version":"1"}`),
			"has a field version that is a string, not a number"},
		{"a time", line(`{"type":"RECORD","stream":"users","record":{},"time_extracted":1}`), "has a field time_extracted"},
		{"a state", line(`{"type":"STATE","value":7}`), "has a field value that is a number, not an object"},
		{"no state", line(`{"type":"STATE"}`), "has no field value"},
		{"a type in lower case", line(`{"type":"record"}`), "has the type \"record\""},
		{"a schema", line(`{"type":"SCHEMA","stream":"users","schema":true,"key_properties":[]}`),
			"has a field schema that is a boolean"},
		{"no keys", line(`{"type":"SCHEMA","stream":"users","schema":{}}`), "has no field key_properties"},
		{"keys", line(`{"type":"SCHEMA","stream":"users","schema":{},"key_properties":"id"}`),
			"has a field key_properties that is a string, not an array"},
		{"depth", line(`{"type":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `}`), "is not a Singer message"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.tap.Lines = append([]string{testSchema, record}, tt.tap.Lines...)
			tt.tap.Hangs = tt.tap.Exit == 0 && tt.tap.Text == ""
			in := opened(t, component(tt.tap, `, "max_line": 2000`))
			got, err := rest(t, in)
			e := engine.ErrorOf(err, engine.Panicked)
			if text := string(e.Class) + ": " + e.Error(); !strings.Contains(text, tt.want) || e.Class == engine.Permanent {
				t.Errorf("got  %s\nwant %s", text, tt.want)
			}
			if len(got) != 1 {
				t.Errorf("%d messages came before, want 1", len(got))
			}
		})
	}
}

func TestATapIsRunAgainFromItsLastState(t *testing.T) {
	state := func(id int) string {
		return fmt.Sprintf(`{"type":"STATE","value":{"id":%d,"big":12345678901234567890}}`, id)
	}
	in := opened(t, component(tapConfig{Lines: []string{state(1), state(2)}, Args: true}, `, "interval": "1ms"`))
	want := ""
	for range 3 {
		got, err := read(t, in, 10)
		if err != nil {
			t.Fatal(err)
		}
		var args struct {
			State string `json:"--state"`
		}
		if err := json.Unmarshal([]byte(got[0].body), &args); err != nil || args.State != want {
			t.Errorf("got state %q, %v, want %q", args.State, err, want)
		}
		want = `{"id":2,"big":12345678901234567890} -rw-------`
	}
}

func TestArguments(t *testing.T) {
	tap := tapConfig{Args: true}
	inline, err := json.Marshal(tap)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	catalog := filepath.Join(dir, "catalog.json")
	const streams = `{"streams":[{"stream":"users"},{"stream":"orders"}]}`
	if err := os.WriteFile(catalog, []byte(streams), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	selected := func(users, orders bool) string {
		return fmt.Sprintf(`{"streams":[{"metadata":[{"breadcrumb":[],"metadata":{"selected":%v}}],"stream":"users"},`+
			`{"metadata":[{"breadcrumb":[],"metadata":{"selected":%v}}],"stream":"orders"}]} -rw-------`, users, orders)
	}
	const private = " -rw-------"
	tests := []struct {
		name, more string
		want       map[string]string
	}{
		{"a configuration", "", map[string]string{"--config": string(inline) + private}},
		{"a catalog", `, "catalog": ` + streams, map[string]string{"--config": string(inline) + private, "--catalog": streams + private}},
		{"a file of it", `, "catalog": "catalog.json"`, map[string]string{"--config": string(inline) + private, "--catalog": streams + private}},
		{"selected streams", `, "catalog": "catalog.json", "select": ["users"]`,
			map[string]string{"--config": string(inline) + private, "--catalog": selected(true, false)}},
		{"selected streams of an old tap", `, "catalog": "catalog.json", "select": ["*"], "properties": true`,
			map[string]string{"--config": string(inline) + private, "--properties": selected(true, true)}},
		{"discovered streams", `, "select": ["ord*"]`,
			map[string]string{"--config": string(inline) + private, "--catalog": selected(false, true)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := component(tap, tt.more, "FLOWD_TEST_CATALOG", streams)
			got, err := rest(t, opened(t, text))
			if err != engine.ErrEnd || len(got) != 1 {
				t.Fatalf("%d messages, %v", len(got), err)
			}
			var record map[string]any
			if err := json.Unmarshal([]byte(got[0].body), &record); err != nil {
				t.Fatal(err)
			}
			for _, arg := range record["args"].([]any) {
				if path := arg.(string); strings.HasPrefix(path, os.TempDir()) && !strings.HasPrefix(path, dir) {
					if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("%s is left behind", path)
					}
				}
			}
			delete(record, "args")
			delete(record, "pid")
			if fmt.Sprint(record) != fmt.Sprint(tt.want) {
				t.Errorf("got  %v\nwant %v", record, tt.want)
			}
		})
	}
}

func TestAMistakeInTheSelection(t *testing.T) {
	tests := []struct{ name, catalog, want string }{
		{"another name", `{"streams":[{"stream":"users"}]}`, `rejected: select: no stream matches "user" (the catalog has users)`},
		{"no such stream", `{"streams":[{"stream":"orders"}]}`, `rejected: select: no stream matches "user" (the catalog has orders)`},
		{"no streams", `{"streams":[]}`, `rejected: select: no stream matches "user" (the catalog has no streams)`},
		{"not JSON", `Traceback`, "decode: the catalog is not valid: "},
		{"no list", `{"streams":7}`, "decode: the catalog is not valid: "},
		{"no object", `{"streams":[7]}`, "decode: the catalog is not valid: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rest(t, opened(t, component(tapConfig{}, `, "select": ["user"]`, "FLOWD_TEST_CATALOG", tt.catalog)))
			e := engine.ErrorOf(err, engine.Panicked)
			if got := string(e.Class) + ": " + e.Error(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	_, err := rest(t, opened(t, component(tapConfig{Exit: 2, Says: "no such host"}, `, "select": ["user"]`)))
	if e := engine.ErrorOf(err, ""); e.Class != engine.Transient || e.Error() != "--discover: the program ended: exit status 2: no such host" {
		t.Errorf("got %s: %v", e.Class, err)
	}
}

func TestStreamsAreSelectedInBothWays(t *testing.T) {
	const catalog = `{"streams": [
		{"tap_stream_id": "public-users", "stream": "users", "schema": {"properties": {
			"id": {"multipleOf": 0.10}, "blob": {"inclusion": "unsupported"}, "secret": {"selected": false}, "old": {}}},
		 "metadata": [{"breadcrumb": [], "metadata": {"selected": false, "table-key-properties": ["id"]}},
			{"breadcrumb": ["properties", "id"], "metadata": {"inclusion": "automatic"}},
			{"breadcrumb": ["properties", "blob"], "metadata": {"inclusion": "unsupported"}},
			{"breadcrumb": ["properties", "secret"], "metadata": {"selected": false}}]},
		{"tap_stream_id": "public-logs", "schema": {"selected": true, "properties": {"id": {}}}}]}`
	const want = `{"streams":[{"metadata":[{"breadcrumb":[],"metadata":{"selected":true,"table-key-properties":["id"]}},` +
		`{"breadcrumb":["properties","id"],"metadata":{"inclusion":"automatic","selected":true}},` +
		`{"breadcrumb":["properties","blob"],"metadata":{"inclusion":"unsupported"}},` +
		`{"breadcrumb":["properties","secret"],"metadata":{"selected":false}},` +
		`{"breadcrumb":["properties","old"],"metadata":{"selected":true}}],` +
		`"schema":{"properties":{"blob":{"inclusion":"unsupported"},"id":{"multipleOf":0.10,"selected":true},"old":{"selected":true},` +
		`"secret":{"selected":false}},"selected":true},"stream":"users","tap_stream_id":"public-users"},` +
		`{"metadata":[{"breadcrumb":[],"metadata":{"selected":false}}],"schema":{"properties":{"id":{}},"selected":false},` +
		`"tap_stream_id":"public-logs"}]}`
	for _, pattern := range []string{"public-users", "users", "u*"} {
		if got, err := selectStreams([]byte(catalog), []string{pattern}); string(got) != want || err != nil {
			t.Errorf("%s: got %s, %v\nwant %s", pattern, got, err, want)
		}
	}
}

func TestWhatATapStartsEndsWithIt(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, hangs := range []bool{false, true} {
		in := opened(t, component(tapConfig{IDs: 1, Child: true, Hangs: hangs}, ""))
		got, err := read(t, in, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !hangs {
			if _, err := rest(t, in); err != engine.ErrEnd {
				t.Errorf("got %v, want the end", err)
			}
		}
		closed(t, in)
		if alive(got[0].numbers(t).PID) {
			t.Error("the tap is still running")
		}
	}
}

// A tap that does not wait for its reader would fill the memory.
func TestATapWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		tap := &tap{in: &input{}, ctx: ctx, batches: make(chan []item, 1)}
		chunks := 0
		go func() {
			for tap.flush() == nil {
				chunks++
				tap.items = []item{{record: []byte("{}")}}
			}
		}()
		for taken := range 5 {
			synctest.Wait()
			if chunks != taken+2 { // including the empty one at the beginning
				t.Fatalf("%d chunks were read, and %d taken", chunks, taken)
			}
			if err := tap.fill(ctx, engine.NewBatch(1)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestSecretsAreMasked(t *testing.T) {
	t.Setenv("FLOWD_TEST_PASSWORD", "hunter2-hunter2")
	in := opened(t, strings.Replace(component(tapConfig{Says: "SAYS", Exit: 1}, ""), "SAYS",
		`wrong password ${FLOWD_TEST_PASSWORD}`, 1))
	var log enginetest.Transcript
	in.logged = programs.NewLog(slog.New(slog.NewTextHandler(&log, nil)), "tap", in.prog.Secrets)
	_, err := rest(t, in)
	if err == nil || strings.Contains(err.Error()+log.String(), "hunter2") || !strings.Contains(log.String(), "wrong password ***") ||
		!strings.HasSuffix(err.Error(), "wrong password ***") {
		t.Errorf("got %v, log %s", err, log.String())
	}
}

func TestATapThatIsNotThere(t *testing.T) {
	err := made(t, `{"singer": "no-such-tap"}`).Open(t.Context())
	if e := engine.ErrorOf(err, ""); e.Class != engine.Permanent || !strings.Contains(e.Error(), "is not in PATH") {
		t.Errorf("got %v", err)
	}
}

func TestSeveralInstancesAreRefused(t *testing.T) {
	env := enginetest.Env()
	env.Instances = 2
	if _, err := newInput(Config{Command: []string{"x"}}, env); err == nil || !strings.Contains(err.Error(), "concurrency") {
		t.Errorf("got %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(testSchema), []byte(`{"type":"RECORD","stream":"users","record":{"id":1.10},"version":1,"time_extracted":"x"}`), false)
	f.Add([]byte(`{"type":"STATE","value":{}}`), []byte(`{"type":"ACTIVATE_VERSION","stream":"users","version":7}`), true)
	f.Fuzz(func(t *testing.T, first, second []byte, cut bool) {
		d := decoder{streams: map[string]*stream{}, withSchema: true}
		_, err := d.decode(bytes.Clone(first), cut)
		it, err2 := d.decode(second, false)
		for _, err := range []error{err, err2} {
			if err != nil && engine.ErrorOf(err, "").Class != engine.Decode {
				t.Errorf("got %v", err)
			}
		}
		if it.record != nil && (!json.Valid(it.record) || !bytes.Contains(second, it.record) || it.meta.Len() < 2) {
			t.Errorf("a record %s with %v", it.record, it.meta.Map())
		}
		if it.state != nil && !json.Valid(it.state) {
			t.Errorf("a state %s", it.state)
		}
	})
}

func FuzzSelect(f *testing.F) {
	f.Add(`{"streams":[{"stream":"users","schema":{"properties":{"id":{}}},"metadata":[{"breadcrumb":[{}],"metadata":{}}]}]}`, "u*")
	f.Fuzz(func(t *testing.T, catalog, pattern string) {
		got, err := selectStreams([]byte(catalog), []string{pattern})
		if err == nil && !json.Valid(got) {
			t.Errorf("got %s", got)
		}
		if again, err2 := selectStreams(got, []string{pattern}); err == nil && (err2 != nil || !slices.Equal(got, again)) {
			t.Errorf("selected again: %s, %v, before %s", again, err2, got)
		}
	})
}
