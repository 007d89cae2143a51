//go:build !no_mcp && (!slim || mcp)

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

// The limits of one call of a tool.
const (
	toolTimeout = time.Minute
	mostAnswer  = 256 << 10 // bytes
)

// changes are the tools that change something, which --allow turns on.
var changes = []string{"pause", "resume", "drain", "reload", "limit", "push"}

func newMCP() *cobra.Command {
	var to service.Target
	var allow []string
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve flowd's commands to assistants, over the Model Context Protocol",
		Long: `Mcp answers an assistant, such as an editor's, on standard input and output. It can
list components, read and search the documentation, lint, test and try pipelines,
evaluate expressions, draw graphs, and look into a running flowd: state, health, live
messages, traces. Each tool is a command of flowd with its --json.

Nothing changes unless --allow names it: ` + strings.Join(changes, ", ") + `.
Tests run only files on disk; their steps may call other systems, as flowd test says.

Exit codes: 0 the assistant has closed the connection; 1 it was lost; 2 usage.`,
		Example: `  flowd mcp
  flowd mcp --addr https://flowd.example:9600 --token-file token --allow pause,resume`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range allow {
				if !slices.Contains(changes, name) {
					return usage(fmt.Sprintf("--allow %s: there are %s", name, strings.Join(changes, ", ")))
				}
			}
			s, err := newToolServer(to, allow)
			if err != nil {
				return err
			}
			in, out := io.NopCloser(cmd.InOrStdin()), nopWriteCloser{messages(cmd.OutOrStdout())}
			err = s.Run(cmd.Context(), &mcp.IOTransport{Reader: in, Writer: out})
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		},
	}
	f := cmd.Flags()
	addTarget(f, &to)
	f.StringSliceVar(&allow, "allow", nil, "also offer tools that change something: `NAMES` separated by commas")
	_ = cmd.RegisterFlagCompletionFunc("allow", cobra.FixedCompletions(changes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

type nopWriteCloser struct{ io.Writer }

func (nopWriteCloser) Close() error { return nil }

// The arguments of tools. The descriptions are for assistants.
type (
	noArgs   struct{}
	docsArgs struct {
		Topic string `json:"topic" jsonschema:"a component, function, guide, section of the file or lint code, such as kafka, upper, failures, engine or unknown-field"`
	}
	searchArgs struct {
		Words string `json:"words" jsonschema:"a few words to search the documentation for"`
	}
	fileArgs struct {
		File string `json:"file,omitempty" jsonschema:"path of a pipeline file; give either file or text"`
		Text string `json:"text,omitempty" jsonschema:"the YAML of a pipeline, instead of a file"`
	}
	testArgs struct {
		File string `json:"file" jsonschema:"path of a pipeline file with a section tests"`
	}
	tryArgs struct {
		File     string `json:"file,omitempty" jsonschema:"path of a pipeline file; give either file or text"`
		Text     string `json:"text,omitempty" jsonschema:"the YAML of a pipeline, instead of a file"`
		Messages string `json:"messages" jsonschema:"the messages, one per line, such as JSON documents"`
	}
	evalArgs struct {
		Expression string `json:"expression" jsonschema:"an expression of flowd, such as upper(user.name)"`
		Messages   string `json:"messages" jsonschema:"the messages to evaluate it on, one per line"`
	}
	tapArgs struct {
		Component string `json:"component,omitempty" jsonschema:"the name of an input, step, batcher or output; all if empty"`
		Where     string `json:"where,omitempty" jsonschema:"an expression: only messages for which it is true"`
		Failed    bool   `json:"failed,omitempty" jsonschema:"only messages that fail"`
		Limit     int    `json:"limit,omitempty" jsonschema:"how many records to wait for, 20 by default; the tool returns after 15 seconds in any case"`
	}
	traceArgs struct {
		ID string `json:"id" jsonschema:"the id of a message, by service.history"`
	}
	pipelineArgs struct {
		Pipeline string `json:"pipeline,omitempty" jsonschema:"the name of a pipeline; all if empty"`
	}
	limitArgs struct {
		Name string `json:"name" jsonschema:"the name of a rate limit as in the state, such as 'input web'"`
		Rate string `json:"rate" jsonschema:"messages per time, such as 500/1s"`
	}
	pushArgs struct {
		Pipeline string `json:"pipeline" jsonschema:"PIPELINE or PIPELINE/INPUT"`
		Messages string `json:"messages" jsonschema:"the messages, one per line"`
	}
)

// tools serves commands of this program.
type tools struct {
	self   string
	target []string // flags for commands that ask a running flowd
	allow  []string
	server *mcp.Server
}

func newToolServer(to service.Target, allow []string) (*mcp.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	t := tools{self: self, allow: allow,
		server: mcp.NewServer(&mcp.Implementation{Name: "flowd", Version: version().Version}, &mcp.ServerOptions{
			Instructions: "flowd runs pipelines written as YAML files. Read the documentation of a component before you write it, " +
				"lint what you write, and try it with sample messages."})}
	for _, flag := range [][2]string{{"addr", to.Addr}, {"token-file", to.TokenFile}, {"ca", to.CA}, {"cert", to.Cert}, {"key", to.Key}} {
		if flag[1] != "" {
			t.target = append(t.target, "--"+flag[0]+"="+flag[1])
		}
	}
	t.looking()
	t.changing()
	return t.server, nil
}

// looking adds the tools that change nothing.
func (t *tools) looking() {
	addTool(t, "list_components", "List the components: inputs, processors, batchers, outputs.", func(noArgs) toolCall {
		return toolCall{args: []string{"list", "--json"}}
	})
	addTool(t, "read_docs", "Read the documentation of a component, function, guide, section or lint code.", func(a docsArgs) toolCall {
		return toolCall{args: []string{"docs", "--", a.Topic}}
	})
	addTool(t, "search_docs", "Search the documentation.", func(a searchArgs) toolCall {
		return toolCall{args: []string{"docs", "--search", "--", a.Words}}
	})
	addTool(t, "lint", "Show every problem of a pipeline, with its remedy.", func(a fileArgs) toolCall {
		return toolCall{args: []string{"lint", "--json"}, on: true, file: a.File, text: a.Text}
	})
	addTool(t, "graph", "Show the routes of messages through a pipeline, and what each guarantees.", func(a fileArgs) toolCall {
		return toolCall{args: []string{"graph", "--json"}, on: true, file: a.File, text: a.Text}
	})
	addTool(t, "test", "Run the tests of a pipeline file.", func(a testArgs) toolCall {
		return toolCall{args: []string{"test", "--json"}, on: true, file: a.File}
	})
	addTool(t, "try", "Show what each step of a pipeline does with messages. Nothing is connected.", func(a tryArgs) toolCall {
		return toolCall{args: []string{"try", "--json"}, on: true, file: a.File, text: a.Text, stdin: a.Messages}
	})
	addTool(t, "eval", "Evaluate an expression on sample messages.", func(a evalArgs) toolCall {
		return toolCall{args: []string{"eval", "--json", "--framing=lines", "--", a.Expression}, stdin: a.Messages}
	})
	addTool(t, "state", "Show what the pipelines of a running flowd are doing.", func(noArgs) toolCall {
		return toolCall{args: append([]string{"ctl", "state", "--json"}, t.target...)}
	})
	addTool(t, "ready", "Check whether the inputs and outputs of a running flowd work, with causes and remedies.", func(noArgs) toolCall {
		return toolCall{args: append([]string{"ctl", "ready", "--json"}, t.target...)}
	})
	addTool(t, "tap", "Show live messages of a running flowd at its components. Secrets in them are hidden.", func(a tapArgs) toolCall {
		limit := a.Limit
		if limit <= 0 {
			limit = 20
		}
		args := append([]string{"tap", "--json", "--limit=" + strconv.Itoa(limit), "--where=" + a.Where,
			"--failed=" + strconv.FormatBool(a.Failed)}, t.target...)
		if a.Component != "" {
			args = append(args, "--", a.Component)
		}
		return toolCall{args: args, within: 15 * time.Second}
	})
	addTool(t, "trace", "Show what became of a message, by its id.", func(a traceArgs) toolCall {
		return toolCall{args: append(append([]string{"trace", "--json"}, t.target...), "--", a.ID)}
	})
}

// changing adds the allowed tools that change something.
func (t *tools) changing() {
	on := func(name, what string) {
		if slices.Contains(t.allow, name) {
			addTool(t, name, what, func(a pipelineArgs) toolCall {
				args := append([]string{"ctl", name}, t.target...)
				if a.Pipeline != "" {
					args = append(args, "--", a.Pipeline)
				}
				return toolCall{args: args}
			})
		}
	}
	on("pause", "Make the inputs of a pipeline stop reading.")
	on("resume", "Make the inputs of a pipeline read again.")
	on("drain", "Finish what is in flight in a pipeline, and stop it.")
	if slices.Contains(t.allow, "reload") {
		addTool(t, "reload", "Read the pipeline files again.", func(noArgs) toolCall {
			return toolCall{args: append([]string{"ctl", "reload"}, t.target...)}
		})
	}
	if slices.Contains(t.allow, "limit") {
		addTool(t, "limit", "Change a rate limit.", func(a limitArgs) toolCall {
			return toolCall{args: append(append([]string{"ctl", "limit"}, t.target...), "--", a.Name, a.Rate)}
		})
	}
	if slices.Contains(t.allow, "push") {
		addTool(t, "push", "Send messages into a running pipeline, and wait for their fates.", func(a pushArgs) toolCall {
			return toolCall{args: append(append([]string{"ctl", "push", "--json"}, t.target...), "--", a.Pipeline), stdin: a.Messages}
		})
	}
}

// toolCall is a command of flowd.
type toolCall struct {
	args       []string
	on         bool   // a pipeline
	file, text string // its path, or its YAML
	stdin      string
	within     time.Duration // what the command has written by then is the answer; 0: toolTimeout, which is an error
}

// addTool adds a tool that runs a command.
func addTool[In any](t *tools, name, what string, command func(In) toolCall) {
	mcp.AddTool(t.server, &mcp.Tool{Name: name, Description: what,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: !slices.Contains(changes, name)}},
		func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
			text, ok, err := t.run(ctx, command(in))
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: !ok}, nil, nil
		})
}

// run runs a command, and returns what it has written, and whether it was used correctly: a finding is an answer.
func (t *tools) run(ctx context.Context, c toolCall) (text string, ok bool, err error) {
	args := c.args
	switch {
	case c.on && (c.file == "") == (c.text == ""):
		return "", false, errors.New("give either file or text")
	case c.text != "":
		dir, err := os.MkdirTemp("", "flowd-mcp-")
		if err != nil {
			return "", false, err
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "pipeline.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			return "", false, err
		}
		args = append(args, "--", file)
	case c.file != "":
		args = append(args, "--", c.file)
	}
	within := toolTimeout
	if c.within > 0 {
		within = c.within
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.self, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Second
	cmd.Stdin = strings.NewReader(c.stdin)
	var out, said bounded
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	text = out.text()
	if notes := said.text(); notes != "" {
		text = strings.TrimLeft(text+"\n"+notes, "\n")
	}
	var exited *exec.ExitError
	switch {
	case ctx.Err() != nil && c.within > 0:
		return text + "\n(nothing more came within " + within.String() + ")", true, nil
	case ctx.Err() != nil:
		return text + "\n(interrupted after " + within.String() + ")", false, nil
	case err == nil:
		return text, true, nil
	case errors.As(err, &exited):
		return text, exited.ExitCode() != invalid || slices.Contains(c.args, "lint"), nil
	}
	return "", false, err
}

// bounded keeps the beginning of what is written.
type bounded struct {
	buf  bytes.Buffer
	left int // bytes that were not kept
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), mostAnswer-b.buf.Len())
	b.buf.Write(p[:n])
	b.left += len(p) - n
	return len(p), nil
}

func (b *bounded) text() string {
	if b.left == 0 {
		return b.buf.String()
	}
	return b.buf.String() + fmt.Sprintf("\n(%d more bytes)", b.left)
}
