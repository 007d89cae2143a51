package conform

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/program/frame"
	"github.com/flowd-io/flowd/internal/testing/programtest"
)

func TestMain(m *testing.M) { programtest.Main(m) }

// checked returns the outcomes of a program by case, and what it printed.
func checked(t *testing.T, o Options) (map[string]Outcome, string) {
	t.Helper()
	if err := o.Program.Find(); err != nil {
		t.Error(err)
	}
	if o.Start == 0 {
		o.Start = time.Minute
	}
	var mu sync.Mutex
	var printed strings.Builder
	o.Said = func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		printed.Write(append(line, '\n'))
	}
	all := map[string]Outcome{}
	if err := Check(t.Context(), o, func(out Outcome) { all[out.Case] = out }); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return all, printed.String()
}

// wantRight fails the test for each case that is wrong.
func wantRight(t *testing.T, o Options) {
	t.Helper()
	o.Timeout = 20 * time.Second
	outcomes, printed := checked(t, o)
	for name, out := range outcomes {
		if out.Verdict == Wrong {
			t.Errorf("%v: %s: %s: %s (%s: %s)", o.Program.Command, name, out.Text, out.Frame, out.Section, out.Rule)
		} else if out.Verdict != OK {
			t.Logf("%v: %s: %s: %s", o.Program.Command, name, out.Verdict, out.Text)
		}
	}
	if t.Failed() {
		t.Log(printed)
	}
}

// work returns the cases of steps and outputs that share a process. Starts of interpreters take most of the time.
func work() (names []string) {
	for _, s := range stepCases {
		if !s.fresh {
			names = append(names, s.name)
		}
	}
	return names
}

var ends = []string{"it drains", "its pipe is closed", "SIGTERM", "it continues after a position"}

func programNamed(name string) programs.Program {
	command, env := programtest.Command(name)
	return programs.Program{Command: command, Env: env}
}

func TestProgramsThatDoItRight(t *testing.T) {
	for _, o := range []Options{
		{Kind: frame.Step, Program: programNamed("answers")},
		{Kind: frame.Step, Program: programNamed("answers"), Cases: work(),
			Sample: [][]byte{[]byte("up a"), []byte("drop"), []byte("split a,b"), []byte("meta")}},
		{Kind: frame.Output, Program: programNamed("answers"), Cases: work()},
		{Kind: frame.Input, Program: programNamed("numbers"), Config: []byte(`{"to": 1000000}`)},
		{Kind: frame.Input, Program: programNamed("numbers"), Config: []byte(`{"to": 3}`), Cases: ends},
	} {
		t.Run(fmt.Sprintf("%s %s %s", o.Kind, o.Program.Env[1], o.Config), func(t *testing.T) {
			t.Parallel()
			wantRight(t, o)
		})
	}
}

func TestProgramsThatDoItWrong(t *testing.T) {
	const step, output, input = frame.Step, frame.Output, frame.Input
	tests := []struct{ program, kind, name, text string }{
		{"exits", step, starts, "it did not answer `hello`: it exited (exit status 7: no such module: torch)"},
		{"silent", step, starts, "it did not answer `hello`, and sent nothing for 500ms"},
		{"babbles", step, starts, "it sent the lengths 1751477356"},
		{"refuses", step, starts, `it is not ready: config.model: there is no model "smal" (pass its config)`},
		{"old", step, starts, "it speaks version 7 of the protocol, not 1"},
		{"answers before it is ready", step, starts, `it sent a "results" frame before it was ready`},
		{"is ready twice", step, starts, "it sent `ready` twice"},
		{"never answers", step, oneMessage, "messages of batch 1 (the first has index 0), and sent nothing for 500ms"},
		{"never answers", step, "its pipe is closed", "after its pipe was closed without `drain`, it did not exit within 500ms"},
		{"answers twice", output, oneMessage, "it answered the message with index 0 of batch 1 twice"},
		{"answers partly", step, manyMessages, "it did not answer 1 of the "},
		{"answers for a stranger", step, oneMessage, "it answered batch 101, which was not sent"},
		{"answers beyond the batch", step, oneMessage, "it answered the message with index 1 of batch 1, which has 1 messages"},
		{"writes garbage", step, oneMessage, "it sent a header that is not valid"},
		{"lies about a size", step, oneMessage, `the sizes of a "results" frame say more than the 0 bytes of its body`},
		{"exceeds the limit", step, "a small limits.body", "limits.body is 65536"},
		{"invents a class", step, oneMessage, `it answered with an error of class "sunburn", which does not exist`},
		{"rounds integers", step, "metadata", "it returned the metadata 9007199254740993 as 9007199254740992"},
		{"crashes at bad JSON", step, "a failed message among others", "it exited (exit status 1: SyntaxError: unexpected end)"},
		{"needs known fields", step, "fields and frames of later versions", "it exited (exit status 1: KeyError"},
		{"forgets canceled messages", step, "a canceled batch", "it did not answer "},
		{"leaves at drain", step, "it drains", "it exited (exit status 0)"},
		{"leaves at drain", step, "it drains, and its pipe is closed at once", "it exited (exit status 0)"},
		{"closes its pipe", step, oneMessage, "it closed descriptor 4 and did not exit"},
		{"stays", step, "it drains", "after its pipe was closed, it did not exit within 500ms"},
		{"never answers", step, "flowd is killed while it works", "after both pipes were closed, it did not exit within 500ms"},
		{"exits with 1", step, "it drains", "after its pipe was closed, it exited with another status (exit status 1)"},
		{"ignores SIGTERM", step, "SIGTERM", "after SIGTERM, it did not exit within 500ms"},
		{"bequeaths its pipes", step, "child processes", "has inherited a pipe"},
		{"changes what it writes", output, oneMessage, "an output answered a message with something else than null or an error"},
		{"gives up", step, oneMessage, "it gave up: the disk is full"},
		{"misspells results", step, oneMessage, `(it sent a frame of the unknown type "result")`},
		{"flood", input, starts, "it sent 2 messages with credits for 0"},
		{"exceeds its credits", input, credits, "it sent 2 messages with credits for 1"},
		{"sends odd lengths", input, credits, "it sent messages that are not valid"},
		{"sends after the end", input, "it drains", "it sent messages after `end`"},
		{"ignores drain", input, "it drains", "it did not answer `drain` with `end`, and sent nothing for 500ms"},
		{"ignores its position", input, "it continues after a position",
			`started with the position 7, it sent "1" as message 1 after it, instead of "8"`},
		{"ignores SIGTERM", input, "SIGTERM", "after SIGTERM, it did not exit within 500ms"},
	}
	outcomes := make([]map[string]Outcome, len(tests))
	printed := make([]string, len(tests))
	var all errgroup.Group
	all.SetLimit(8) // they mostly wait
	for i, tt := range tests {
		all.Go(func() error {
			o := Options{Kind: tt.kind, Program: programNamed(tt.program), Timeout: 500 * time.Millisecond, Cases: []string{tt.name}}
			if tt.program == "silent" {
				o.Start = o.Timeout
			}
			outcomes[i], printed[i] = checked(t, o)
			return nil
		})
	}
	_ = all.Wait() // none fails
	for i, tt := range tests {
		out := outcomes[i][tt.name]
		if out.Verdict != Wrong || !strings.Contains(out.Text, tt.text) || out.Rule == "" {
			t.Errorf("%s: %s: got %+v\nwant wrong: %s\n%v\n%s", tt.program, tt.name, out, tt.text, outcomes[i], printed[i])
		}
	}
}

func TestAProgramThatExitsLate(t *testing.T) {
	t.Parallel()
	const name = "its pipe is closed"
	outcomes, _ := checked(t, Options{Kind: frame.Step, Program: programNamed("stays for long"), Timeout: time.Minute, Cases: []string{name}})
	if out := outcomes[name]; out.Verdict != Warning || !strings.Contains(out.Text, "it took 2.") {
		t.Errorf("got %+v", out)
	}
}

// Each rule is a sentence of the specification, below its heading.
func TestRulesAreInTheSpecification(t *testing.T) {
	text, err := os.ReadFile("../../../docs/programs.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	heading := ""
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		}
		sections[heading] += strings.TrimSpace(line) + " "
	}
	for _, r := range []rule{ruleLives, ruleClass, ruleTerm, ruleExec, ruleFrames, ruleHeader, ruleBody, ruleIgnore, ruleReady, ruleRefuse,
		ruleContinue, ruleOnce, ruleAhead, ruleResult, ruleMeta, ruleCancel, ruleCredit, ruleMessages, ruleFates, ruleNoMore, ruleGiveUp,
		ruleTell, ruleDrain, ruleStop, ruleClose, ruleKilled} {
		if !strings.Contains(sections[r.section], r.text) {
			t.Errorf("section %q does not say %q", r.section, r.text)
		}
	}
}
