package singer

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// TestMain lets the test binary act as the tap.
func TestMain(m *testing.M) {
	if os.Getenv("FLOWD_TEST_TAP") == "" {
		os.Exit(m.Run())
	}
	runTap()
}

// tapConfig says what the tap does.
type tapConfig struct {
	Lines []string // writes these lines
	Text  string   // then this text
	IDs   int      // instead: writes records with the ids from the state's on up to this one, and a state after every fifth
	Pad   string   // in each of these records
	Fails int      // exits in front of this id, unless it begins with a state
	Args  bool     // instead: writes a record with its arguments and the content and mode of the files that they name
	Child bool     // starts a process that keeps its output open
	Hangs bool     // does not end
	Says  string   // to standard error
	Exit  int
}

const testSchema = `{"type":"SCHEMA","stream":"users","schema":{"type":"object","properties":{"id":{"type":"integer"}}},` +
	`"key_properties":["id"]}`

func runTap() {
	var c tapConfig
	files := map[string]string{}
	record := map[string]any{"args": os.Args[1:], "pid": os.Getpid()}
	for i, arg := range os.Args {
		if i > 0 && strings.HasPrefix(os.Args[i-1], "--") {
			text, err := os.ReadFile(arg)
			info, err2 := os.Stat(arg)
			if err != nil || err2 != nil {
				fmt.Fprintln(os.Stderr, err, err2)
				os.Exit(9)
			}
			files[os.Args[i-1]] = string(text)
			record[os.Args[i-1]] = string(text) + " " + info.Mode().String()
		}
	}
	if err := json.Unmarshal([]byte(files["--config"]), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	fmt.Fprint(os.Stderr, c.Says)
	if slices.Contains(os.Args, "--discover") {
		fmt.Println(os.Getenv("FLOWD_TEST_CATALOG"))
		os.Exit(c.Exit)
	}
	if c.Child {
		cmd := exec.Command("sleep", "1000")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			os.Exit(9)
		}
	}
	w := bufio.NewWriter(os.Stdout)
	if c.Args {
		text, _ := json.Marshal(record)
		fmt.Fprintf(w, "%s\n{\"type\":\"RECORD\",\"stream\":\"users\",\"record\":%s}\n", testSchema, text)
	}
	for _, line := range c.Lines {
		fmt.Fprintln(w, line)
	}
	if c.IDs > 0 {
		var from struct{ ID int }
		_ = json.Unmarshal([]byte(files["--state"]), &from)
		fmt.Fprintln(w, testSchema)
		for id := from.ID + 1; id <= c.IDs; id++ {
			if from.ID == 0 && id == c.Fails {
				w.Flush()
				os.Exit(1)
			}
			fmt.Fprintf(w, "{\"type\":\"RECORD\",\"stream\":\"users\",\"record\":{\"id\":%d,\"pid\":%d,\"pad\":%q}}\n", id, os.Getpid(), c.Pad)
			if id%5 == 0 {
				fmt.Fprintf(w, "{\"type\":\"STATE\",\"value\":{\"id\":%d}}\n", id)
			}
		}
	}
	fmt.Fprint(w, c.Text)
	w.Flush()
	if c.Hangs {
		time.Sleep(time.Hour)
	}
	os.Exit(c.Exit)
}

// component returns an input that runs the test tap. more has further fields, each after a comma.
func component(tap tapConfig, more string, env ...string) string {
	self, _ := json.Marshal(os.Args[0])
	config, _ := json.Marshal(tap)
	vars := `"GORACE": "atexit_sleep_ms=0", "FLOWD_TEST_TAP": "1"` // with the race detector, a program waits before it exits
	for i := 0; i+1 < len(env); i += 2 {
		value, _ := json.Marshal(env[i+1])
		vars += fmt.Sprintf(`, %q: %s`, env[i], value)
	}
	return fmt.Sprintf(`{"singer": {"command": [%s], "config": %s, "env": {%s} %s}}`, self, config, vars, more)
}

func made(t *testing.T, component string) *input {
	t.Helper()
	return enginetest.New(t, engine.Inputs, component).(*input)
}

// opened returns an open input. It is closed when the test ends.
func opened(t *testing.T, component string) *input {
	t.Helper()
	in := made(t, component)
	reopen(t, in)
	t.Cleanup(func() { closed(t, in) })
	return in
}

func reopen(t *testing.T, in *input) {
	t.Helper()
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func closed(t *testing.T, in *input) {
	t.Helper()
	if err := in.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// read calls Read until it brings messages or fails, with room for n messages. It copies them.
func read(t *testing.T, in *input, n int) (all []message, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	b := engine.NewBatch(n)
	_, err = in.Read(ctx, b)
	for m := range b.All() {
		all = append(all, message{string(m.Bytes()), m.Meta, m.Ref})
	}
	return all, err
}

type message struct {
	body string
	meta engine.Meta
	ref  uint64
}

// rest reads until an error.
func rest(t *testing.T, in *input) (all []message, err error) {
	t.Helper()
	for err == nil {
		var some []message
		some, err = read(t, in, 100)
		all = append(all, some...)
	}
	return all, err
}

func settle(t *testing.T, in *input, fate engine.Fate, all ...message) {
	t.Helper()
	var rs []engine.Result
	for _, m := range all {
		rs = append(rs, engine.Result{Ref: m.ref, Fate: fate})
	}
	if _, err := in.places.Ack(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
}

// numbers are the fields of a record of the test tap.
type numbers struct{ ID, PID int }

func (m message) numbers(t *testing.T) (n numbers) {
	t.Helper()
	if err := json.Unmarshal([]byte(m.body), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
