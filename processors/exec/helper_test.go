package exec

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"unicode/utf8"
)

// TestMain lets the test binary act as the program that the steps run.
func TestMain(m *testing.M) {
	switch os.Getenv("FLOWD_TEST_PROGRAM") {
	case "once":
		runOnce()
	case "stream":
		runStream()
	case "hang":
		hang(os.Getenv("FLOWD_TEST_ADDR"))
	case "idle": // reads nothing, writes nothing
	default:
		os.Exit(m.Run())
	}
}

// runOnce does what its input says.
func runOnce() {
	in, _ := io.ReadAll(os.Stdin)
	word, rest, _ := strings.Cut(string(in), " ")
	switch word {
	case "exit":
		fmt.Fprint(os.Stderr, "first line\nhas \x1b[31mred and hunter2-hunter2\n")
		code, _ := strconv.Atoi(rest)
		os.Exit(code)
	case "hang":
		hang(rest)
	case "flood":
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
				os.Exit(1)
			}
		}
	case "child": // leaves a child behind that has its output, or hangs beside it
		child(rest)
	case "parent":
		child(rest)
		hang(rest)
	case "killed":
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		time.Sleep(time.Hour)
	case "env":
		fmt.Println(os.Getenv(rest), os.Getenv("PATH") != "")
	case "dir":
		dir, _ := os.Getwd()
		fmt.Println(dir)
	case "json":
		fmt.Println(rest)
	default:
		os.Stdout.Write(bytes.ToUpper(in))
	}
}

// runStream answers each line.
func runStream() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "crash":
			fmt.Fprintln(os.Stderr, "can't go on")
			os.Exit(2)
		case "hang":
			hang(rest)
		case "two":
			fmt.Println("1\n2")
		case "long":
			fmt.Println(strings.Repeat("x", 1<<12))
		case "say":
			fmt.Fprintln(os.Stderr, rest)
			fmt.Println("said")
		case "pid":
			fmt.Println(os.Getpid())
		case "error":
			fmt.Println("ERROR " + rest)
		case "last": // exits with 0 after its answer
			fmt.Println("bye")
			os.Exit(0)
		default:
			if line = strings.TrimSuffix(line, "\n"); utf8.ValidString(line) {
				line = strings.ToUpper(line)
			}
			fmt.Println(line)
		}
	}
	if os.Getenv("FLOWD_TEST_DEAF") != "" {
		hang(os.Getenv("FLOWD_TEST_DEAF"))
	}
}

// hang hangs. It keeps a connection to addr open, so that the witness knows.
func hang(addr string) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		os.Exit(9)
	}
	fmt.Fprintln(c, "here")
	if os.Getenv("FLOWD_TEST_ADDR") != "" {
		os.NewFile(3, "parent").Close()
	}
	time.Sleep(time.Hour)
}

// child starts a program that hangs, and returns once it hangs.
func child(addr string) {
	hangs, tells, err := os.Pipe()
	if err != nil {
		os.Exit(9)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FLOWD_TEST_PROGRAM=hang", "FLOWD_TEST_ADDR="+addr)
	cmd.Stdout, cmd.ExtraFiles = os.Stdout, []*os.File{tells}
	if err := cmd.Start(); err != nil {
		os.Exit(9)
	}
	tells.Close()
	_, _ = hangs.Read(make([]byte, 1))
}

// witness counts programs that hang, and those that have ended.
type witness struct {
	net.Listener
	t *testing.T
}

func newWitness(t *testing.T) witness {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return witness{l, t}
}

func (w witness) addr() string { return w.Addr().String() }

// sees waits for another program that hangs. gone waits for its end.
func (w witness) sees() (gone func()) {
	c, err := w.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			w.t.Errorf("the program lives on: %v", err)
		}
	}
}

// untilNow is a context whose deadline the test controls.
type untilNow struct {
	context.Context
	passed chan struct{}
}

func newDeadline(t *testing.T) untilNow { return untilNow{t.Context(), make(chan struct{})} }

func (c untilNow) Done() <-chan struct{} { return c.passed }

func (c untilNow) Err() error {
	select {
	case <-c.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// component returns a step that runs the test program. more has further fields, after variables: env:"A": "b"; and so on.
func component(program, more string) string {
	mode := perMessage
	if program == "stream" || program == "idle stream" {
		mode, program = stream, strings.TrimSuffix(program, " stream")
	}
	self, _ := json.Marshal(os.Args[0])
	// With the race detector, a program waits for a second before it exits.
	env := `"GORACE": "atexit_sleep_ms=0", "FLOWD_TEST_PROGRAM": "` + program + `"`
	if rest, ok := strings.CutPrefix(more, "env:"); ok {
		var vars string
		vars, more, _ = strings.Cut(rest, ";")
		env += ", " + vars
	}
	return fmt.Sprintf(`{"exec": {"command": [%s], "mode": %q, "env": {%s} %s}}`, self, mode, env, more)
}

// opened returns an open step. It is closed when the test ends.
func opened(t *testing.T, component string) engine.Processor {
	t.Helper()
	p := enginetest.New(t, engine.Processors, component)
	if err := p.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, ok := p.(engine.Closer); ok {
		t.Cleanup(func() {
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	return p
}

// outcomes returns the payloads in order, or "CLASS: error" for failed ones.
func outcomes(t *testing.T, ctx context.Context, p engine.Processor, payloads ...string) []string {
	t.Helper()
	b := enginetest.Batch(payloads...)
	var all []*engine.Message
	for m := range b.All() {
		all = append(all, m)
	}
	if err := p.Process(ctx, b); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		if e := m.Err(); e != nil {
			got = append(got, string(e.Class)+": "+e.Error())
		} else {
			got = append(got, string(m.Bytes()))
		}
	}
	return got
}

// match compares outcomes with patterns. … matches any text.
func match(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	for i := range want {
		before, after, open := strings.Cut(want[i], "…")
		if got[i] != want[i] && !(open && strings.HasPrefix(got[i], before) &&
			strings.Contains(got[i][len(before):], after)) {
			t.Errorf("message %d:\ngot  %q\nwant %q", i, got[i], want[i])
		}
	}
}
