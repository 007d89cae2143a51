package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/deadletters"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

func newDlqEdit() *cobra.Command {
	var pick dlqPick
	var assign []string
	cmd := &cobra.Command{
		Use:   "edit SOURCE",
		Short: "Change the payloads of dead letters",
		Long: `Edit changes the payloads of dead letters, which stay where they are, with their
reasons: one after the other in the editor that VISUAL or EDITOR names, or all of
them with --set, as the step set does. A payload that is left as it was, or emptied,
is not changed; neither is one that was JSON, and is not JSON any more.`,
		Example: `  flowd dlq edit dead.ndjson --group 7f3a9c -n 1
  flowd dlq edit dead.ndjson --where 'qty == nil' --set 'qty=1' --set 'note="corrected"'`,
		RunE: onLetters(&pick, func() bool { return true }, func(c *dlqCall) error {
			change := inEditor
			if len(assign) > 0 {
				set, err := assignment(assign)
				if err != nil {
					return err
				}
				change = set
			}
			var letters []deadletters.Letter // all of them first, since a queue gets the new ones
			if _, err := c.each(c.stop, c.pick.n, func(l deadletters.Letter) error {
				if l.Broken == nil {
					letters = append(letters, l)
				}
				return nil
			}); err != nil {
				return c.interrupted(err)
			}
			return c.edit(letters, change, len(assign) == 0)
		}),
	}
	pick.add(cmd, 0, "edit at most this many letters")
	cmd.Flags().StringArrayVar(&assign, "set", nil, "set a field, as `FIELD=EXPRESSION`; may be repeated")
	return cmd
}

// edit changes letters and puts them in the place of the old ones: one by one, or together.
func (c *dlqCall) edit(letters []deadletters.Letter, change func(context.Context, []byte) ([]byte, error), oneByOne bool) error {
	edited, unchanged, wrong := int64(0), int64(0), 0
	var with []queue.Message
	replace := func() error {
		if len(with) == 0 {
			return nil
		}
		err := c.source.Replace(c.kill, with)
		if err == nil {
			edited += int64(len(with))
		}
		with = with[:0]
		return err
	}
	var err error
	for i := range letters {
		if c.stop.Err() != nil || err != nil {
			break
		}
		l := &letters[i]
		payload, failure := change(c.kill, l.Payload)
		switch {
		case failure == nil && json.Valid(l.Payload) && !json.Valid(payload):
			failure = errors.New("the payload would not be valid JSON any more")
			fallthrough
		case failure != nil:
			if wrong++; wrong <= mostFailures {
				fmt.Fprintln(c.con, c.hide(oneLine(cmp.Or(l.Where, "a letter"))+": "+failure.Error()))
			}
		case bytes.Equal(payload, l.Payload):
			unchanged++
		default:
			m := l.Message
			m.Payload, m.Raw = payload, nil
			if with = append(with, m); oneByOne || len(with) == 1000 {
				err = replace()
			}
		}
	}
	err = joined(err, replace())
	text := fmt.Sprintf("%s: %s edited", c.name, agreeing(edited, "dead letter", "dead letters"))
	if unchanged > 0 {
		text += fmt.Sprintf(", %s unchanged", amount(unchanged))
	}
	if wrong > 0 {
		text += fmt.Sprintf(", %d failed", wrong)
	}
	fmt.Fprintln(c.con, c.hide(text))
	switch {
	case c.stop.Err() != nil:
		return exit(handedBack)
	case err != nil:
		return err
	case wrong > 0:
		return exit(failed)
	}
	return nil
}

// assignment makes a change of assignments as the step set has them.
func assignment(all []string) (func(context.Context, []byte) ([]byte, error), error) {
	step := &schema.Node{Kind: schema.MapNode}
	for _, a := range all {
		name, text, found := strings.Cut(a, "=")
		if !found || name == "" || text == "" {
			return nil, usage(fmt.Sprintf("--set %s: write FIELD=EXPRESSION, such as qty=1", a))
		}
		step.Keys = append(step.Keys, &schema.Node{Kind: schema.TextNode, Text: strings.TrimSpace(name)})
		step.Items = append(step.Items, &schema.Node{Kind: schema.TextNode, Text: text})
	}
	if engine.Processors.Lookup("set") == nil {
		return nil, errors.New("this build of flowd has no step set")
	}
	root := &schema.Node{Kind: schema.MapNode, Keys: []*schema.Node{{Kind: schema.TextNode, Text: "set"}}, Items: []*schema.Node{step}}
	var steps engine.Steps
	d := schema.NewDecoder(nil)
	d.Decode(&schema.Node{Kind: schema.ListNode, Items: []*schema.Node{root}}, &steps)
	for _, p := range d.Problems() {
		if !p.Warning {
			return nil, usage("--set: " + strings.TrimPrefix(p.String(), "[0].set."))
		}
	}
	set, err := steps[0].Use.Build(engine.Env{Name: "set"})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, payload []byte) ([]byte, error) {
		b := engine.NewBatch(1)
		m := b.Add(bytes.Clone(payload))
		if err := set.Process(ctx, b); err != nil {
			return nil, err
		}
		if m.Err() != nil {
			return nil, m.Err()
		}
		return bytes.Clone(m.Bytes()), nil
	}, nil
}

// inEditor lets the user edit a payload. JSON is indented for that.
func inEditor(ctx context.Context, payload []byte) ([]byte, error) {
	editor := strings.Fields(cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi"))
	dir, err := os.MkdirTemp("", "flowd-dlq-") // only this user may read it
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	text, ext := bytes.Clone(payload), ".txt"
	var indented bytes.Buffer
	isJSON := json.Indent(&indented, payload, "", "  ") == nil
	if isJSON {
		text, ext = append(indented.Bytes(), '\n'), ".json"
	}
	path := filepath.Join(dir, "letter"+ext)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, editor[0], append(editor[1:], path)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("editor %s: %w", editor[0], err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	switch {
	case bytes.Equal(after, text), len(bytes.TrimSpace(after)) == 0:
		return payload, nil
	case isJSON && json.Compact(&compact, after) == nil:
		return compact.Bytes(), nil
	}
	return after, nil
}
