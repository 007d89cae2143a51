package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/operations/deadletters"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/spf13/cobra"
)

const (
	// A dry run runs so many letters, and roughly so many bytes, in one process.
	dryAtOnce = 5000
	dryBytes  = 16 << 20

	dryTimeout = 5 * time.Minute // of one process
)

// dryRun says how many letters would pass.
func (r *dlqReplay) dryRun(c *dlqCall) error {
	if _, err := r.loaded(c); err != nil {
		return err
	}
	d := &dlqDry{r: r, c: c, passes: map[string]int64{}}
	size := 0
	_, err := c.each(c.stop, c.pick.n, func(l deadletters.Letter) error {
		d.letters = append(d.letters, l)
		if size += len(l.Payload); len(d.letters) < dryAtOnce && size < dryBytes {
			return nil
		}
		size = 0
		return d.run()
	})
	if err = joined(err, d.run()); err != nil {
		return c.interrupted(err)
	}
	return d.report()
}

// loaded reads the pipeline file without building it, and finds the pipeline.
func (r *dlqReplay) loaded(c *dlqCall) (*config.Loaded, error) {
	set, err := c.load(r.files, config.Options{Set: r.set, Plugins: r.plugins, Secrets: c.secrets, Testing: true})
	if err != nil {
		return nil, err
	}
	return choosePipeline(set, r.pipeline)
}

// dlqDry is a dry run.
type dlqDry struct {
	r       *dlqReplay
	c       *dlqCall
	letters []deadletters.Letter // of the next process

	all     deadletters.Summary
	passes  map[string]int64 // by id of the group
	passed  int64
	fails   deadletters.Summary // why letters would fail
	skipped []string
}

// dryAnswer is what the process of a dry run answers.
type dryAnswer struct {
	Outcomes []deadletters.Outcome
	Skipped  []string
}

// run runs the letters in a process, since each run in virtual time needs one of its own.
func (d *dlqDry) run() error {
	if len(d.letters) == 0 {
		return nil
	}
	var in bytes.Buffer
	for i := range d.letters {
		line, err := envelope(&d.letters[i])
		if err != nil {
			return err
		}
		in.WriteString(strings.TrimRight(string(line), "\n") + "\n")
	}
	answer, err := d.r.ask(d.c.stop, &in)
	if err != nil {
		return err
	}
	if len(answer.Outcomes) != len(d.letters) {
		return errors.New("the process of the dry run has not answered for all letters")
	}
	d.skipped = answer.Skipped
	for i, o := range answer.Outcomes {
		l := d.letters[i]
		d.all.Add(l)
		if o.Passes {
			d.passed++
			d.passes[l.Cause.ID()]++
			continue
		}
		d.fails.Add(deadletters.Letter{Message: queue.Message{Ref: l.Ref}, Cause: o.Why})
	}
	d.letters = d.letters[:0]
	return nil
}

// ask starts a process for letters in the form of framing messages.
func (r *dlqReplay) ask(ctx context.Context, letters *bytes.Buffer) (a dryAnswer, err error) {
	exe, err := os.Executable()
	if err != nil {
		return a, fmt.Errorf("flowd can't find its own executable: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, dryTimeout)
	defer cancel()
	args := []string{"dlq", "replay", "-", "--dry-run", "--worker", "--pipeline=" + r.pipeline, "--input=" + r.input,
		"--live=" + strconv.FormatBool(r.live), "--from-start=" + strconv.FormatBool(r.fromStart)}
	for _, f := range r.files {
		args = append(args, "--config="+f)
	}
	for _, s := range r.set {
		args = append(args, "--set="+s)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	var out bytes.Buffer
	var said head
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = letters, &out, &said, time.Second
	if err := cmd.Run(); err != nil {
		return a, fmt.Errorf("the process of the dry run ended: %w\n%s", err, crash(said.String()))
	}
	return a, json.Unmarshal(out.Bytes(), &a)
}

// rehearse is the process of a dry run: it reads letters from stdin.
func (r *dlqReplay) rehearse(cmd *cobra.Command) error {
	answer := messages(cmd.OutOrStdout())
	os.Stdout = os.Stderr // a step's prints must not mix with the answer
	runtime.GOMAXPROCS(1)
	set, problems := config.Load(r.files, config.Options{Set: r.set, Plugins: r.plugins, Testing: true})
	if n, _ := count(problems); n > 0 {
		return errors.New("the files have changed meanwhile")
	}
	p, err := choosePipeline(set, r.pipeline)
	if err != nil {
		return err
	}
	var letters []deadletters.Letter
	in := bufio.NewReader(cmd.InOrStdin())
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			letters = append(letters, letterOf(bytes.TrimSuffix(line, []byte{'\n'})))
		}
		if err != nil {
			break
		}
	}
	target := targetIn(p.Spec)
	if r.fromStart {
		target = nil
	}
	var a dryAnswer
	if a.Outcomes, a.Skipped, err = deadletters.Rehearse(set, *p, r.input, letters, target, r.live); err != nil {
		return err
	}
	return json.NewEncoder(answer).Encode(a)
}

// letterOf reads a line in the form of framing messages.
func letterOf(line []byte) deadletters.Letter {
	rec, err := framing.ReadMessage(line)
	if err == nil && rec.Err != nil {
		err = rec.Err
	}
	if err != nil {
		return deadletters.Letter{Broken: fmt.Errorf("not a message in the form that framing messages writes: %w", err)}
	}
	return deadletters.NewLetter(queue.Message{Payload: rec.Body, Meta: rec.Meta(engine.Meta{}).Map()})
}

// report says how many letters would pass.
func (d *dlqDry) report() error {
	out := d.c.cmd.OutOrStdout()
	total := d.all.Letters + d.all.Broken
	if d.r.json {
		return d.reportJSON(total)
	}
	color, columns := colored(out), columnsOf(out)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s of %s would pass now\n", d.c.name, amount(d.passed), agreeing(total, "dead letter", "dead letters"))
	list := func(g *deadletters.Group, id, count string) {
		head := []string{count}
		for _, part := range []string{g.Class, g.Place()} {
			if part != "" {
				head = append(head, part)
			}
		}
		b.WriteString(id + cut(strings.Join(head, "  "), columns-8) + "\n")
		b.WriteString(cut("        "+oneLine(g.Reason), columns) + "\n")
	}
	for _, g := range d.all.Groups() {
		list(g, paint(color, bold, g.ID)+"  ", amount(d.passes[g.ID])+" of "+agreeing(g.Letters, "letter", "letters"))
	}
	if groups := d.fails.Groups(); len(groups) > 0 {
		b.WriteString("\nwould fail:\n")
		for _, g := range groups[:min(len(groups), shownGroups)] {
			list(g, "        ", agreeing(g.Letters, "letter", "letters"))
		}
	}
	if len(d.skipped) > 0 {
		fmt.Fprintf(&b, "\nnot called: %s (letters passed unchanged; --live makes the calls)\n", strings.Join(d.skipped, ", "))
	}
	if _, err := fmt.Fprint(out, d.c.secrets.Mask(b.String())); err != nil {
		return err
	}
	return d.code(total)
}

func (d *dlqDry) code(total int64) error {
	if d.passed < total {
		return exit(failed)
	}
	return nil
}

// dryGroupJSON is the JSON form of a group of letters in a dry run.
type dryGroupJSON struct {
	ID      string `json:"id,omitempty"`
	Class   string `json:"class,omitempty"`
	Place   string `json:"place,omitempty"`
	Reason  string `json:"reason"`
	Letters int64  `json:"letters"`
	Pass    *int64 `json:"pass,omitempty"`
}

func (d *dlqDry) reportJSON(total int64) error {
	list := func(s *deadletters.Summary, passes map[string]int64) []dryGroupJSON {
		all := []dryGroupJSON{} // [] instead of null
		for _, g := range s.Groups() {
			j := dryGroupJSON{ID: g.ID, Class: g.Class, Place: g.Place(), Reason: d.c.secrets.Mask(g.Reason), Letters: g.Letters}
			if passes != nil {
				n := passes[g.ID]
				j.Pass = &n
			}
			all = append(all, j)
		}
		return all
	}
	err := writeJSON(d.c.cmd.OutOrStdout(), struct {
		Letters   int64          `json:"letters"`
		Pass      int64          `json:"pass"`
		Groups    []dryGroupJSON `json:"groups"`
		Fail      []dryGroupJSON `json:"fail"`
		NotCalled []string       `json:"not_called"`
	}{total, d.passed, list(&d.all, d.passes), list(&d.fails, nil), append([]string{}, d.skipped...)})
	return joined(d.code(total), err)
}
