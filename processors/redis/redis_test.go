package redis

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
)

// made returns an open step. It is closed when the test ends.
func made(t *testing.T, fields string) engine.Processor {
	t.Helper()
	p := enginetest.New(t, engine.Processors, fmt.Sprintf(`{"redis": {"url": %q, %s}}`, redistest.URL(t), fields))
	if err := p.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.(engine.Closer).Close(t.Context()) })
	return p
}

func TestProcessor(t *testing.T) {
	key := redistest.Key(t)
	enginetest.Processor(t, func(t *testing.T) engine.Processor {
		return enginetest.New(t, engine.Processors,
			fmt.Sprintf(`{"redis": {"url": %q, "command": "HINCRBY", "args": ["'%s'", "a", "1"], "into": "n"}}`, redistest.URL(t), key))
	}, `{"a": 1}`, `{"a": "x"}`)
}

func TestConfig(t *testing.T) {
	for component, want := range map[string]string{
		`{"url": "redis://h"}`:                                                 "command",
		`{"url": "redis://h", "command": " "}`:                                 "is empty",
		`{"url": "redis://h", "command": "subscribe news"}`:                    "choose another command",
		`{"url": "redis://h", "command": "BLPOP"}`:                             "choose another command",
		`{"url": "redis://h", "command": "GET", "reply": "none", "into": "a"}`: "there is no answer",
		`{"url": "redis://h", "command": "GET", "args_mapping": "x"}`:          "write `args`",
		`{"url": "redis://h", "command": "GET", "reply": "xml"}`:               "reply",
		`{"command": "GET"}`:                                                   "write one of `url`, `sentinel` and `cluster`",
	} {
		said := strings.Join(enginetest.Problems(t, engine.Processors, `{"redis": `+component+`}`), "\n")
		if !strings.Contains(said, want) {
			t.Errorf("%s: got %q, want %q in it", component, said, want)
		}
	}
}

func TestAnswers(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	ctx := t.Context()
	c.HSet(ctx, key+"h", "name", "Kim", "plan", `"gold"`)
	c.Set(ctx, key+"json", `{"a": [1, 2.50]}`, 0)
	c.Set(ctx, key+"bytes", "\xff", 0)
	c.RPush(ctx, key+"list", "a", "b", "c")
	arg := func(name string) string { return fmt.Sprintf(`"'%s'"`, key+name) }
	tests := []struct{ name, fields, in, want string }{
		{"text", `"command": "GET", "args": [` + arg("json") + `], "into": "v"`, `{}`, `{"v":"{\"a\": [1, 2.50]}"}`},
		{"JSON", `"command": "GET", "args": [` + arg("json") + `], "into": "v", "reply": "json"`, `{}`, `{"v":{"a": [1, 2.50]}}`},
		{"JSON that is none", `"command": "HGET", "args": [` + arg("h") + `, "'name'"], "reply": "json"`, `{}`, "decode"},
		{"nothing", `"command": "GET", "args": [` + arg("no") + `], "into": "v"`, `{}`, `{"v":null}`},
		{"a number, in place of the payload", `"command": "HLEN", "args": [` + arg("h") + `]`, `no document`, `2`},
		{"a list", `"command": "LRANGE", "args": [` + arg("list") + `, "0", "to"], "into": "v"`, `{"to": 1}`, `{"to": 1,"v":["a","b"]}`},
		{"pairs", `"command": "HGETALL", "args": [` + arg("h") + `], "into": "v", "reply": "pairs"`, `{}`,
			`{"v":{"name":"Kim","plan":"\"gold\""}}`},
		{"pairs of nothing", `"command": "HGETALL", "args": [` + arg("no") + `], "into": "v", "reply": "pairs"`, `{}`, `{"v":{}}`},
		{"pairs that are none", `"command": "LRANGE", "args": [` + arg("list") + `, "0", "-1"], "reply": "pairs"`, `{}`, "rejected"},
		{"none", `"command": "SET", "args": [` + arg("set") + `, "this"], "reply": "none"`, `{"a":  1}`, `{"a":  1}`},
		{"bytes", `"command": "GET", "args": [` + arg("bytes") + `], "into": "v"`, `{}`, "decode"},
		{"words of a command", `"command": "SET ` + key + `w x  EX 100"`, `{}`, `"OK"`},
		{"a key of another type", `"command": "GET", "args": [` + arg("list") + `]`, `{}`, "permanent"},
		{"an argument too many", `"command": "GET", "args": ["a", "a"]`, `{"a": 1}`, "rejected"},
		{"an argument that is null", `"command": "GET", "args": ["a"]`, `{}`, "rejected"},
		{"a payload that is no document", `"command": "GET", "args": [` + arg("json") + `], "into": "v"`, `x`, "decode"},
		{"an answer that is too long", `"command": "GET", "args": [` + arg("json") + `], "max_answer": 5`, `{}`, "permanent"},
		{"a command that is none", `"command": "NOSUCH"`, `{}`, "permanent"},
		{"data is no command", `"command": "GET", "args": ["k"]`, `{"k": "x\r\nFLUSHALL\r\n"}`, "null"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := enginetest.Apply(t, made(t, tt.fields), tt.in)[0]
			said := got.Body
			if got.Err != nil {
				said = string(got.Err.Class)
			}
			if said != tt.want {
				t.Errorf("got %s, want %s (%v)", said, tt.want, got.Err)
			}
		})
	}
	if n := c.Exists(ctx, key+"h").Val(); n != 1 {
		t.Error("data was a command")
	}
}

// Each message gets its own answer or error.
func TestARunIsOnePipeline(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.RPush(t.Context(), key+"1", "x")
	p := made(t, fmt.Sprintf(`"command": "APPEND", "args": ["'%s' + string(id)", "'ab'"], "into": "n"`, key))
	var in, got []string
	for i := range 4 {
		in = append(in, fmt.Sprintf(`{"id": %d}`, i))
	}
	for _, o := range enginetest.Apply(t, p, in...) {
		if o.Err != nil {
			o.Body += " " + string(o.Err.Class)
		}
		got = append(got, o.Body)
	}
	want := `[{"id": 0,"n":2} {"id": 2,"n":2} {"id": 3,"n":2} {"id": 1} permanent]`
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// An answer that is too large fails only its message.
func TestAnAnswerThatEndsTheConnection(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	for i, n := range []int{10, 100 << 10, 20} {
		c.Set(t.Context(), key+strconv.Itoa(i), strings.Repeat("x", n), 0)
	}
	p := made(t, fmt.Sprintf(`"command": "GET", "args": ["'%s' + string(id)"], "max_reply": "64KiB"`, key))
	got := map[int]int{}
	for _, o := range enginetest.Apply(t, p, `{"id": 0}`, `{"id": 1}`, `{"id": 2}`) {
		got[len(o.Body)]++
		if o.Err != nil && (o.Err.Class != engine.TooLarge || !strings.Contains(o.Err.Error(), "max_reply")) {
			t.Error(o.Err)
		}
	}
	if want := map[int]int{12: 1, 22: 1, len(`{"id": 1}`): 1}; !maps.Equal(got, want) {
		t.Errorf("answers of %v bytes, want %v", got, want)
	}
}

func TestAnOutageHolds(t *testing.T) {
	r := redistest.Own(t)
	p := enginetest.New(t, engine.Processors, fmt.Sprintf(`{"redis": {"url": %q, "command": "PING", "into": "v"}}`, r.URL()))
	if err := p.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer p.(engine.Closer).Close(t.Context())
	if o := enginetest.Apply(t, p, `{}`)[0]; o.Err != nil {
		t.Fatal(o.Err)
	}
	r.Stop()
	redistest.Until(t, func() error {
		if o := enginetest.Apply(t, p, `{}`)[0]; o.Err == nil || o.Err.Class != engine.Transient || !o.Err.Holds {
			return fmt.Errorf("%v", o.Err)
		}
		return nil
	})
	r.Start(t)
	redistest.Until(t, func() error {
		if o := enginetest.Apply(t, p, `{}`)[0]; o.Err != nil {
			return o.Err
		}
		return nil
	})
}
