package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/evaluate"
	"github.com/flowd-io/flowd/internal/operations/observe"
	"github.com/flowd-io/flowd/internal/operations/pipetest"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

// mostTried bounds the messages of a trial, all of which are in memory with each version of them.
const mostTried = 10_000

// trying holds the arguments of `flowd try`.
type trying struct {
	files, set []string
	plugins    []string
	sampleFlags
	pipeline, input string
	step, until     string
	message         int
	live, json      bool
}

func newTry() *cobra.Command {
	var t trying
	cmd := &cobra.Command{
		Use:   "try [-c] FILE < SAMPLE",
		Short: "Show what a pipeline would do with messages, step by step",
		Long: `Try runs the messages of standard input through a pipeline and shows the way of
each: what each step changed, which case and batcher took it, the batch, what would
leave through which output, and how it would end. A message is a line, or a JSON
document that may span lines.

The pipeline runs on the real engine, in virtual time. No input or output is opened,
and nothing is written. Steps that call other systems (http, sql, redis, exec) answer
as the mocks in the file's tests say; without a mock they are not called, and leave
the message as it is. With --live they are called.

Exit codes: 0 all would be delivered or filtered; 1 a message would fail; 2 invalid
configuration or usage.`,
		Example: `  flowd try orders.yaml < sample.jsonl
  echo '{"total": -1}' | flowd try orders.yaml
  flowd try orders.yaml --message 3 --step 'check address' < sample.jsonl
  flowd try orders.yaml --json < sample.jsonl | jq -r 'select(.fate != "delivered") | .message'`,
		ValidArgsFunction: completeFiles,
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.files = append(t.files, args...); len(t.files) == 0 {
				return usage("no pipeline file is given")
			}
			return t.run(cmd)
		},
	}
	f := cmd.Flags()
	addFiles(cmd, &t.files)
	addSet(cmd, &t.set)
	addPlugins(cmd, &t.plugins)
	t.sampleFlags.add(cmd)
	f.StringVar(&t.pipeline, "pipeline", "", "`NAME` of the pipeline, if the files have several")
	f.StringVar(&t.input, "input", "", "`NAME` of the input that reads the messages; the first by default")
	f.StringVar(&t.step, "step", "", "show only the component with this `NAME`")
	f.StringVar(&t.until, "until", "", "show the way only up to the component with this `NAME`")
	f.IntVar(&t.message, "message", 0, "show only the message with this `NUMBER`, from 1")
	f.BoolVar(&t.live, "live", false, "let steps call other systems")
	addJSON(cmd, &t.json)
	for flag, kinds := range map[string]string{"pipeline": "pipeline", "input": "input", "step": "step batcher output",
		"until": "step batcher output"} {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return t.names(args, kinds), cobra.ShellCompDirectiveNoFileComp
		})
	}
	return cmd
}

// names returns the names of kinds of components in the files, for completion.
func (t *trying) names(files []string, kinds string) (all []string) {
	set, _ := config.Load(append(slices.Clone(t.files), files...), config.Options{Set: t.set, Plugins: t.plugins, Testing: true})
	for _, p := range set.Pipelines {
		add := func(kind, name string) {
			if strings.Contains(kinds, kind) && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
		add("pipeline", p.Spec.Name)
		for name := range p.Spec.Inputs.All() {
			add("input", name)
		}
		r := config.Rehearsal{Pipeline: p.Spec}
		r.EachStep(func(s *engine.StepSpec) { add("step", config.StepName(s)) })
		for name := range p.Spec.Batchers.All() {
			add("batcher", name)
		}
		for name := range p.Spec.Outputs.All() {
			add("output", name)
		}
	}
	return all
}

func (t *trying) run(cmd *cobra.Command) error {
	secrets := &schema.Secrets{}
	set, err := load(cmd.ErrOrStderr(), t.files, config.Options{Set: t.set, Plugins: t.plugins, Testing: true, Secrets: secrets})
	if err != nil {
		return err
	}
	pipeline, err := choosePipeline(set, t.pipeline)
	if err != nil {
		return err
	}
	if err := t.chooseInput(pipeline); err != nil {
		return err
	}
	if isTerminal(cmd.InOrStdin()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "reading messages from standard input; end with Ctrl-D")
	}
	input, err := t.sample(cmd.InOrStdin())
	if err != nil {
		return err
	}
	if t.message > len(input) {
		return usage(fmt.Sprintf("--message %d: the sample has %s", t.message, plural(len(input), "message")))
	}
	rehearsal, problems := set.Trial(*pipeline, input)
	if err := showProblems(newConsole(cmd.ErrOrStderr()), problems); err != nil {
		return err
	}
	stdout := os.Stdout
	os.Stdout = os.Stderr // a step's prints must not mix with the result
	was := runtime.GOMAXPROCS(1)
	trial, err := pipetest.Try(rehearsal, t.live)
	runtime.GOMAXPROCS(was)
	os.Stdout = stdout
	if err != nil {
		return err
	}
	if err := showProblems(newConsole(cmd.ErrOrStderr()), trial.Problems); err != nil {
		return err
	}
	return t.show(cmd, trial, secrets)
}

// chooseInput sets the input that reads the messages: the first, unless one is named.
func (t *trying) chooseInput(p *config.Loaded) error {
	var inputs []string
	for name := range p.Spec.Inputs.All() {
		inputs = append(inputs, name)
	}
	switch {
	case t.input == "" && len(inputs) > 0:
		t.input = inputs[0]
	case !slices.Contains(inputs, t.input):
		return usage(fmt.Sprintf("there is no input %q (there is %s)", t.input, strings.Join(inputs, ", ")))
	}
	return nil
}

// sample reads the messages.
func (t *trying) sample(r io.Reader) (all []config.TestInput, err error) {
	if err := t.parse(); err != nil {
		return nil, err
	}
	messages := evaluate.Read(r, t.framing, t.meta)
	for {
		m, err := messages.Next()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("message %d: %w", len(all)+1, err)
		case len(all) == mostTried:
			return nil, usage(fmt.Sprintf("a trial takes at most %s messages (cut the sample, such as with head)", amount(mostTried)))
		}
		all = append(all, config.InputOf(m.Bytes(), m.Meta, t.input))
	}
}

// show writes the journeys, and returns the exit code.
func (t *trying) show(cmd *cobra.Command, trial pipetest.Trial, secrets *schema.Secrets) error {
	out, note := cmd.OutOrStdout(), cmd.ErrOrStderr()
	p := recordPrinter{out: out, color: colored(out), secrets: secrets}
	wrong, shown := 0, false
	for _, j := range trial.Journeys {
		if t.message > 0 && j.Message != t.message {
			continue
		}
		t.cut(&j)
		shown = shown || len(j.Records) > 0
		if !j.Delivers() {
			wrong++
		}
		var err error
		if t.json {
			err = writeLine(out, j)
		} else {
			err = p.journey(j)
		}
		if err != nil {
			return err
		}
	}
	if len(trial.Uncalled) > 0 {
		fmt.Fprintf(note, "not called: %s (mock them in a test of the file, or use --live)\n", strings.Join(trial.Uncalled, ", "))
	}
	name := t.step + t.until
	switch {
	case trial.Err != nil:
		return fmt.Errorf("the pipeline would stop: %w", trial.Err)
	case name != "" && !shown && len(trial.Journeys) > 0:
		return usage(fmt.Sprintf("no message passes a component %q", name))
	case wrong > 0:
		return exit(failed)
	}
	return nil
}

// cut leaves only the records that the flags ask for.
func (t *trying) cut(j *pipetest.Journey) {
	if t.until != "" {
		last := -1
		for i, r := range j.Records {
			if isNamed(r, t.until) {
				last = i
			}
		}
		j.Records = j.Records[:last+1]
	}
	if t.step != "" {
		j.Records = slices.DeleteFunc(j.Records, func(r observe.Record) bool { return !isNamed(r, t.step) })
	}
}

// isNamed reports whether a record is of the component with a name: the cases of a switch have its name.
func isNamed(r observe.Record, name string) bool {
	return r.Name == name || r.Kind == engine.CaseSpot && strings.HasPrefix(r.Name, name+", case ")
}

// journey writes the way of a message.
func (p *recordPrinter) journey(j pipetest.Journey) error {
	var b strings.Builder
	if p.began {
		b.WriteByte('\n')
	}
	p.began = true
	fmt.Fprintf(&b, "%s %s\n", paint(p.color, bold, fmt.Sprintf("message %d", j.Message)), p.text(string(j.Payload), 80-len("message 000 ")))
	for _, r := range j.Records {
		if r.Kind != engine.InputSpot || r.Passage != engine.PassedOn {
			p.record(&b, r)
		}
	}
	why := j.Error
	if slices.ContainsFunc(j.Records, func(r observe.Record) bool { return r.Passage == engine.FailedThere }) {
		why = nil // it was shown
	}
	p.end(&b, j.Fate, why)
	_, err := io.WriteString(p.out, b.String())
	return err
}
