package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sdkOf returns the folder of the module for a language.
func sdkOf(language string) string { return filepath.Join(repo, "sdk", language) }

// python returns a step that runs a file with the module for Python. more has further fields.
func python(file, more string) string {
	return fmt.Sprintf("{program: {command: [python3, %s], env: {PYTHONPATH: %q}%s}}", file, sdkOf("python"), more)
}

const raisesOn13 = `
import os
import flowd

seen = 0

@flowd.setup
def load(config):
    print("loaded by", os.getpid())

@flowd.step
def check(msg):
    global seen
    seen += 1
    if msg.doc == 13:
        raise ValueError(f"{msg.doc} is unlucky")
    msg.doc = {"n": msg.doc, "pid": os.getpid(), "seen": seen}
`

// TestAnExceptionFailsOneMessage runs a step in Python that raises on message 13 of 30, also on a worker of a pool.
func TestAnExceptionFailsOneMessage(t *testing.T) {
	t.Parallel()
	needsInterpreter(t, "python")
	run := func(t *testing.T, f *fleet, want int) {
		write(t, f.dir, "check.py", raisesOn13)
		f.hub.Send(numbers(1, 30))
		pid, lines := 0.0, 0
		for lines < 29 {
			var doc struct{ N, Pid, Seen float64 }
			if err := json.Unmarshal([]byte(f.hub.Line()), &doc); err != nil {
				t.Fatal(err)
			}
			if lines++; pid == 0 {
				pid = doc.Pid
			}
			if doc.Pid != pid {
				t.Errorf("message %v was processed by %v, others by %v", doc.N, doc.Pid, pid)
			}
		}
		f.eventually("a dead letter", func() bool { return len(f.deadLetters()) == 1 })
		var letter struct {
			Payload json.RawMessage
			Meta    map[string]any
		}
		if err := json.Unmarshal([]byte(read(t, f.dir, "dead.ndjson")), &letter); err != nil {
			t.Fatal(err)
		}
		detail, _ := letter.Meta["error_detail"].(string)
		message, _ := letter.Meta["error_message"].(string)
		if string(letter.Payload) != `"13"` || letter.Meta["error_class"] != "permanent" || !strings.HasSuffix(message, "13 is unlucky") ||
			!strings.Contains(detail, "Traceback") || !strings.Contains(detail, "check.py") || !strings.Contains(detail, "ValueError") {
			t.Errorf("got %s %v", letter.Payload, letter.Meta)
		}
		f.hub.Stdin.Close()
		f.hub.Wait().Want(t, want, "29 delivered, 1 dead-lettered")
	}
	t.Run("in the pipeline", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, inProcess)
		write(t, f.dir, "check.py", raisesOn13)
		f.startHub(write(t, f.dir, "p.yaml", "inputs: {in: {stdin: {}}}\nprocessors: ["+python("check.py", "")+"]\n"+
			"outputs: {out: {stdout: {}}, dead: {file: {path: dead.ndjson, framing: messages}}}\n"+
			"engine: {on_failure: {then: dead_letter, dead_letter: dead}}\n"))
		run(t, f, 0)
	})
	t.Run("in a pool", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, onLoopback)
		write(t, f.dir, "check.py", raisesOn13)
		f.serveWithWorkers(1, pipeline{do: python("check.py", "")})
		run(t, f, 0)
	})
}

const tellsPID = `
import os
import flowd

@flowd.step
def tell(msg):
    msg.doc = {"n": msg.doc, "pid": os.getpid()}
`

// killer kills processes when it sees their first messages, and collects the messages.
type killer struct {
	t     *testing.T
	left  int // processes to kill
	known map[int]bool
	seen  map[int]bool // numbers
}

// line handles a line of output.
func (k *killer) line(line string) {
	var doc struct{ N, PID int }
	if err := json.Unmarshal([]byte(line), &doc); err != nil {
		k.t.Fatalf("%q: %v", line, err)
	}
	k.seen[doc.N] = true
	if !k.known[doc.PID] && k.left > 0 {
		k.left--
		_ = syscall.Kill(doc.PID, syscall.SIGKILL)
	}
	k.known[doc.PID] = true
}

// TestAKilledStepLosesNothing kills a step in Python twenty times, with a thousand messages in flight.
func TestAKilledStepLosesNothing(t *testing.T) {
	t.Parallel()
	needsInterpreter(t, "python")
	const all = 40_000
	run := func(t *testing.T, f *fleet) {
		k := &killer{t: t, left: 20, known: map[int]bool{}, seen: map[int]bool{}}
		for len(k.seen) < all {
			k.line(f.hub.Line())
		}
		if k.left > 0 {
			t.Errorf("%d of 20 processes were not killed", k.left)
		}
	}
	t.Run("in the pipeline", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, inProcess)
		write(t, f.dir, "tell.py", tellsPID)
		write(t, f.dir, "in", numbers(1, all))
		f.startHub(write(t, f.dir, "p.yaml", "inputs: {in: {file: {path: in}}}\nprocessors: ["+
			python("tell.py", ", window: 1000, restart: {backoff: 10ms}")+"]\noutputs: {out: {stdout: {}}}\n"))
		run(t, f)
		f.hub.Wait().Want(t, 0, "40,000 delivered")
	})
	t.Run("in a pool", func(t *testing.T) {
		t.Parallel()
		f := newFleet(t, onLoopback)
		write(t, f.dir, "tell.py", tellsPID)
		write(t, f.dir, "in", numbers(1, all))
		f.serveWithWorkers(2, pipeline{input: "{file: {path: in}}", batch: "batch: {size: 500}",
			do: python("tell.py", ", window: 1000, restart: {backoff: 10ms}"), rest: "outputs: {out: {stdout: {}}}\n"})
		run(t, f)
		f.hub.Wait().Want(t, 0, "40,000 delivered")
	})
}

const nodeNumbers = `
import * as flowd from "%s";

flowd.input(function* ({ config, position }) {
  for (let n = (position ?? 0) + 1; n <= config.to; n++) {
    yield new flowd.Message({ n, pid: process.pid }, { position: n });
  }
});
`

// TestAKilledInputLosesNothing kills an input in Node.js ten times, and flowd ten times. The positions of what arrives have no
// gap.
func TestAKilledInputLosesNothing(t *testing.T) {
	t.Parallel()
	needsInterpreter(t, "node")
	const all, lives = 100_000, 10
	dir := t.TempDir()
	write(t, dir, "numbers.mjs", fmt.Sprintf(nodeNumbers, "file://"+filepath.Join(sdkOf("node"), "index.js")))
	config := write(t, dir, "p.yaml", `
inputs:
  numbers: {program: {command: [node, numbers.mjs], config: {to: `+strconv.Itoa(all)+`}, checkpoint: position, restart: {backoff: 10ms}}}
outputs:
  out: {stdout: {}}
engine: {restart: {backoff: 10ms}}
`)
	k := &killer{t: t, known: map[int]bool{}, seen: map[int]bool{}}
	for range lives {
		k.left = 1
		p := start(t, dir, "-c", config)
		for next := len(k.seen) + all/lives/2; len(k.seen) < next; { // the killed program is started again meanwhile
			k.line(p.Line())
		}
		p.Signal(syscall.SIGKILL)
		for line := range strings.Lines(p.Wait().Stdout) {
			if whole, ok := strings.CutSuffix(line, "\n"); ok { // the last line may be incomplete
				k.line(whole)
			}
		}
	}
	got := flowd(t, dir, "", "-c", config)
	got.Want(t, 0, "delivered")
	for line := range strings.Lines(got.Stdout) {
		k.line(strings.TrimSuffix(line, "\n"))
	}
	if len(k.seen) != all || !k.seen[1] || !k.seen[all] {
		t.Errorf("%d numbers arrived, want %d", len(k.seen), all)
	}
}

const tellsModel = `
import os
import flowd

@flowd.setup
def load(config):
    global model
    if not isinstance(config.get("model"), str):
        raise flowd.SettingError("model", "is not a text")
    model = config["model"]

@flowd.step
def tell(msg):
    msg.doc = {"pid": os.getpid(), "model": model}
`

// TestAReloadReplacesAProgram reloads a pipeline with another configuration of its program. It then kills flowd, with which the
// program ends, and starts it with a configuration that the program refuses.
func TestAReloadReplacesAProgram(t *testing.T) {
	t.Parallel()
	needsInterpreter(t, "python")
	dir := t.TempDir()
	write(t, dir, "tell.py", tellsModel)
	configure := func(model string) string {
		return write(t, dir, "p.yaml", "inputs: {in: {stdin: {}}}\nprocessors: ["+python("tell.py", ", config: {model: "+model+"}")+
			"]\noutputs: {out: {stdout: {}}}\n")
	}
	p := start(t, dir, "-c", configure("small"))
	ask := func(want string) (pid int) {
		t.Helper()
		p.Send("{}\n")
		var doc struct {
			PID   int
			Model string
		}
		if err := json.Unmarshal([]byte(p.Line()), &doc); err != nil || doc.Model != want {
			t.Errorf("got %+v, %v, want %s", doc, err, want)
		}
		return doc.PID
	}
	first := ask("small")

	configure("large")
	p.Signal(syscall.SIGHUP)
	p.Says("reloaded")
	second := ask("large")
	if second == first {
		t.Error("the process is the same")
	}
	ended(t, first)

	p.Signal(syscall.SIGKILL)
	p.Wait()
	ended(t, second)

	flowd(t, dir, "", "-c", configure("[]")).Want(t, 1, "step program: config.model: is not a text\n")
}

// ended waits until a process has ended.
func ended(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(deadline); syscall.Kill(pid, 0) == nil; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}
