package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/evaluate"
	"github.com/spf13/cobra"
)

// evaluation holds the arguments of `flowd eval`.
type evaluation struct {
	sample string // "": standard input
	sampleFlags
	template bool
	json     bool
}

func newEval() *cobra.Command {
	var e evaluation
	cmd := &cobra.Command{
		Use:   "eval [EXPRESSION]",
		Short: "Evaluate an expression on sample messages",
		Long: `Eval evaluates an expression on each message of standard input or a file, and writes
each value as JSON on a line. A message is a line, or a JSON document that may span
lines. Without a sample, the message is {}.

Without an expression, eval shows a prompt: Tab completes fields of the sample and
functions, the arrow keys recall earlier lines, :help lists the commands.

Exit codes: 0 all evaluated; 1 an evaluation failed; 2 invalid expression or usage.`,
		Example: `  flowd eval 'status >= 500' < sample.ndjson
  flowd eval 'map(items, .sku)' --sample order.json
  flowd eval 'meta("topic") + ": " + raw()' --meta topic=orders < log.txt
  flowd eval --template 'orders/$(customer.id).json' < sample.ndjson
  flowd eval --sample order.json            a prompt`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeCode,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.parse(); err != nil {
				return err
			}
			return e.run(cmd, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.sample, "sample", "", "read messages from a `FILE`")
	e.sampleFlags.add(cmd)
	f.BoolVarP(&e.template, "template", "t", false, "evaluate a template such as 'logs/$(day)', and write text")
	addJSON(cmd, &e.json)
	return cmd
}

// sampleFlags say how a sample becomes messages.
type sampleFlags struct {
	framing string
	pairs   []string          // of metadata
	meta    map[string]string // parsed
}

func (s *sampleFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.framing, "framing", "auto", "how the sample is divided into messages: `auto`, lines, json or whole")
	f.StringArrayVar(&s.pairs, "meta", nil, "metadata of each message, as `NAME=VALUE`; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("framing", cobra.FixedCompletions(evaluate.Framings, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("meta", cobra.NoFileCompletions)
}

// parse checks the flags, and sets the metadata.
func (s *sampleFlags) parse() error {
	s.meta = map[string]string{}
	for _, pair := range s.pairs {
		if err := evaluate.AddMeta(s.meta, pair); err != nil {
			return usage("--meta: " + err.Error())
		}
	}
	if !slices.Contains(evaluate.Framings, s.framing) {
		return usage("--framing must be " + strings.Join(evaluate.Framings, ", "))
	}
	return nil
}

// completeCode completes the last name of an expression.
func completeCode(cmd *cobra.Command, args []string, code string) (all []string, _ cobra.ShellCompDirective) {
	const inside = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	sample := []byte("{}")
	if path, _ := cmd.Flags().GetString("sample"); path != "" {
		if file, err := os.Open(path); err == nil {
			defer file.Close()
			if m, err := evaluate.Read(file, "auto", nil).Next(); err == nil {
				sample = m.Bytes()
			}
		}
	}
	names, from := evaluate.Complete(code, sample)
	for _, name := range names {
		all = append(all, code[:from]+name)
	}
	return all, inside
}

func (e *evaluation) run(cmd *cobra.Command, args []string) error {
	in := cmd.InOrStdin()
	prompt := len(args) == 0
	switch {
	case prompt && (!isTerminal(in) || e.json):
		return usage("no expression is given (without one, eval needs a terminal, and no --json)")
	case e.sample != "":
		file, err := os.Open(e.sample)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	case isTerminal(in):
		in = strings.NewReader("{}")
	}
	messages := evaluate.Read(in, e.framing, e.meta)
	if prompt {
		return e.prompt(cmd, messages)
	}
	code, err := evaluate.Compile(args[0], e.template)
	if err != nil {
		return usage(err.Error())
	}
	warn(cmd.ErrOrStderr(), code)
	return e.all(cmd, code, messages)
}

func warn(w io.Writer, code *evaluate.Code) {
	for _, remark := range code.Warnings() {
		fmt.Fprintln(w, paint(colored(w), yellow, "warning: "+remark.Error()))
	}
}

// evaluated is the JSON form of one evaluation.
type evaluated struct {
	Message int               `json:"message"` // its number, from 1
	Value   json.RawMessage   `json:"value,omitempty"`
	Error   *evaluate.Failure `json:"error,omitempty"`
}

// all evaluates the code on all messages.
func (e *evaluation) all(cmd *cobra.Command, code *evaluate.Code, messages *evaluate.Messages) error {
	out, note := cmd.OutOrStdout(), cmd.ErrOrStderr()
	wrong := false
	for n := 1; ; n++ {
		m, err := messages.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", n, err)
		}
		value, err := code.On(m)
		wrong = wrong || err != nil
		switch {
		case e.json:
			err = e.writeOne(out, code, n, value, err)
		case err != nil:
			_, err = fmt.Fprintf(note, "%s %v\n", paint(colored(note), red, fmt.Sprintf("message %d:", n)), err)
		default:
			_, err = fmt.Fprintf(out, "%s\n", value)
		}
		if err != nil {
			return err
		}
	}
	if wrong {
		return exit(failed)
	}
	return nil
}

func (e *evaluation) writeOne(out io.Writer, code *evaluate.Code, n int, value []byte, err error) error {
	one := evaluated{Message: n, Value: value}
	if err != nil {
		f := evaluate.FailureOf(err)
		one.Value, one.Error = nil, &f
	} else if code.IsText() {
		one.Value, _ = json.Marshal(string(value)) // text is always valid JSON
	}
	return writeLine(out, one)
}

// shownValue is a value at the prompt, cut if it is long, or why there is none.
func shownValue(m *engine.Message, src string, template bool) string {
	code, err := evaluate.Compile(src, template)
	if err != nil {
		return err.Error()
	}
	value, err := code.On(m)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, remark := range code.Warnings() {
		fmt.Fprintf(&b, "warning: %v\n", remark)
	}
	b.WriteString(cutValue(value))
	return b.String()
}

// mostShown bounds what the prompt shows of a value, in bytes.
const mostShown = 2000

func cutValue(value []byte) string {
	if len(value) <= mostShown {
		return string(value)
	}
	return strings.ToValidUTF8(string(value[:mostShown]), "") + fmt.Sprintf("… (%d bytes)", len(value))
}
