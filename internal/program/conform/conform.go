// Package conform checks programs against the protocol of docs/programs.md. Start at [Check], which plays cases with a program
// and reports what it does wrong. player.go has one process of the program, and sent.go judges the frames that it sends. The
// cases are in steps.go, inputs.go and ends.go.
package conform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/program/frame"
)

// Options say what to check.
type Options struct {
	Program programs.Program  // Find was called
	Kind    string            // such as frame.Step
	Config  []byte            // JSON; nil: none
	Sample  [][]byte          // payloads that the program accepts; none: JSON documents with a text
	Cases   []string          // play only these, and the cases that they need; none: all
	Timeout time.Duration     // longest silence of a program that has work, and longest time for an exit
	Start   time.Duration     // longest time until the program is ready
	Said    func(line []byte) // gets each line that the program prints; it may be called concurrently, and must not keep the line
}

// Verdict says how a case has ended.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Wrong   Verdict = "wrong"
	Warning Verdict = "warning" // it is not forbidden, but operators will not like it
	Skipped Verdict = "skipped"
)

// Outcome is the result of a case.
type Outcome struct {
	Case    string  `json:"case"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text,omitempty"`    // what the program did, or why the case was skipped
	Section string  `json:"section,omitempty"` // heading of docs/programs.md
	Rule    string  `json:"rule,omitempty"`    // what the section says
	Frame   string  `json:"frame,omitempty"`   // the frame that shows it
}

// finding ends a case that is not OK.
type finding struct {
	Outcome
	gaveUp bool // the program has sent an "error" frame
}

func (f *finding) Error() string { return f.Text }

func wrong(r rule, format string, args ...any) *finding {
	return &finding{Outcome: Outcome{Verdict: Wrong, Text: fmt.Sprintf(format, args...), Section: r.section, Rule: r.text}}
}

func skipped(format string, args ...any) *finding {
	return &finding{Outcome: Outcome{Verdict: Skipped, Text: fmt.Sprintf(format, args...)}}
}

func warning(r rule, format string, args ...any) *finding {
	f := wrong(r, format, args...)
	f.Verdict = Warning
	return f
}

// scenario is a case: what flowd does, and what the program has to do then.
type scenario struct {
	name  string
	play  func(*check) error
	fresh bool   // it starts processes of its own
	need  string // the case that must have succeeded; "": none but the first
}

// The cases that others need.
const (
	starts       = "it starts"
	oneMessage   = "one message"
	manyMessages = "many messages in a batch"
	credits      = "credits"
)

const (
	limitBody   = 64 << 20
	limitWindow = 1024
	batchSize   = 256                    // messages of a batch, unless the program is slow
	settling    = 30 * time.Millisecond  // for frames that a program sends without a reason
	pausing     = 150 * time.Millisecond // for an input that must not send anything
)

// check is a check in progress.
type check struct {
	Options
	ctx    context.Context
	p      *player         // the process that cases share; nil: none is running
	size   int             // messages of a batch
	failed map[string]bool // cases that have not succeeded
}

// Names returns the names of the cases for a kind of program.
func Names(kind string) (all []string) {
	for _, s := range casesOf(kind) {
		all = append(all, s.name)
	}
	return all
}

func casesOf(kind string) []scenario {
	if kind == frame.Input {
		return inputCases
	}
	return stepCases
}

// Check plays the cases, and calls report with the outcome of each, up to the first if the program does not start. It starts
// processes of the program, and ends them along with everything that they have started. The error is that of ctx.
func Check(ctx context.Context, o Options, report func(Outcome)) error {
	c := &check{Options: o, ctx: ctx, size: batchSize, failed: map[string]bool{}}
	defer c.end()
	for _, s := range c.chosen() {
		out := c.play(s)
		if err := ctx.Err(); err != nil {
			return err
		}
		out.Case = s.name
		if out.Verdict == Wrong {
			c.end()
		}
		c.failed[s.name] = out.Verdict == Wrong || out.Verdict == Skipped
		report(out)
		if s.name == starts && out.Verdict == Wrong {
			break
		}
	}
	return nil
}

// chosen returns the cases to play.
func (c *check) chosen() (all []scenario) {
	wanted := map[string]bool{starts: true}
	cases := casesOf(c.Kind)
	for _, s := range slices.Backward(cases) { // a case needs only earlier ones
		if wanted[s.name] || len(c.Cases) == 0 || slices.Contains(c.Cases, s.name) {
			wanted[s.name], wanted[s.need] = true, true
		}
	}
	for _, s := range cases {
		if wanted[s.name] {
			all = append(all, s)
		}
	}
	return all
}

func (c *check) play(s scenario) Outcome {
	if c.failed[s.need] {
		return Outcome{Verdict: Skipped, Text: fmt.Sprintf("it needs the case %q", s.need)}
	}
	if s.fresh {
		c.end()
	}
	err := s.play(c)
	if err == nil && c.p != nil {
		err = c.p.quiet(settling)
	}
	var f *finding
	switch {
	case err == nil:
		return Outcome{Verdict: OK}
	case errors.As(err, &f):
		return f.Outcome
	}
	return Outcome{Verdict: Wrong, Text: err.Error()}
}

// end kills the process that cases share.
func (c *check) end() {
	if c.p != nil {
		c.p.kill()
		c.p = nil
	}
}

// process returns the process that cases share.
func (c *check) process() (*player, error) {
	if c.p == nil {
		p, err := c.start(greeting{})
		if err != nil {
			return nil, err
		}
		c.p = p
	}
	return c.p, nil
}

// rule is a sentence of docs/programs.md.
type rule struct{ section, text string }

var (
	ruleLives    = rule{"Programs in any language", "An error fails one message, and the program lives on."}
	ruleClass    = rule{"What a program does with a message", "The class decides whether a retry makes sense"}
	ruleTerm     = rule{"Crashes, hangs and restarts", "It gets SIGTERM if it has not exited"}
	ruleExec     = rule{"The protocol", "A program sets both descriptors to close on exec"}
	ruleFrames   = rule{"Frames", "Both directions carry frames"}
	ruleHeader   = rule{"Frames", "a JSON object in UTF-8. `type` names the kind of frame"}
	ruleBody     = rule{"Frames", "A body has at most `limits.body` bytes."}
	ruleIgnore   = rule{"Frames", "A receiver ignores fields that it does not know. It ignores frames of an unknown type as well"}
	ruleReady    = rule{"The start", "The program prepares its work (it loads the model, connects to the database), and answers"}
	ruleRefuse   = rule{"The start", "or says why it can't work."}
	ruleContinue = rule{"The start", "the position to continue after"}
	ruleOnce     = rule{"Steps and outputs", "each message exactly once"}
	ruleAhead    = rule{"Steps and outputs", "Further batches may follow before the first one is answered"}
	ruleResult   = rule{"Steps and outputs", "Each result is one of"}
	ruleMeta     = rule{"Steps and outputs", "`meta` has changes"}
	ruleCancel   = rule{"Steps and outputs", "It still answers each of them, with any result"}
	ruleCredit   = rule{"Inputs", "It waits when its credits are used up."}
	ruleMessages = rule{"Inputs", "The program sends messages."}
	ruleFates    = rule{"Inputs", "flowd returns fates, in the order in which messages are settled"}
	ruleNoMore   = rule{"Inputs", "no message follows"}
	ruleGiveUp   = rule{"Inputs", "it can't go on, for example because its server is gone"}
	ruleTell     = rule{"At any time", "From the program"}
	ruleDrain    = rule{"The end", "The program answers the batches that it has"}
	ruleStop     = rule{"The end", "an input sends no further message, and answers with `end`"}
	ruleClose    = rule{"The end", "When the pipe is closed (end of file on descriptor 3), the program exits with status 0."}
	ruleKilled   = rule{"The end", "flowd has been killed: the program exits at once"}
)
