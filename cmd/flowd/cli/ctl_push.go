package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/operations/service"
	"github.com/flowd-io/flowd/schema"
	"github.com/spf13/cobra"
)

func newCtlPush(to *service.Target) *cobra.Command {
	p := pushing{}
	var pace string
	cmd := &cobra.Command{
		Use:   "push PIPELINE[/INPUT]",
		Short: "Send messages into a running pipeline, and wait for their fates",
		Long: `Push reads messages from stdin, one a line, and has an input of a running pipeline
read them, as if they came from its source. The input's own steps and its rate limit
apply, also while the pipeline is paused. INPUT may be left out if there is only one.

Each message that was neither delivered nor filtered is listed with its fate and the
reason. A message that the pipeline would hand back to its source is returned; one
that has no fate when the wait is over is still in flight.

Exit codes: 0 all were delivered or filtered; 1 others were not, or nothing answers;
2 usage; 3 interrupted.`,
		Example: `  echo '{"id": 17}' | flowd ctl push orders
  flowd ctl push orders/web --rate 500/s < sample.jsonl
  flowd queue dump orders-dead - | flowd ctl push orders --messages --json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completePipelines(to),
		RunE: withClient(to, func(cmd *cobra.Command, c *service.Client, args []string) (err error) {
			if pace != "" {
				if p.rate, p.per, err = parseRate(pace); err != nil {
					return err
				}
			}
			if p.wait < time.Second || p.wait > service.MaxPushWait {
				return usage(fmt.Sprintf("--wait must be from 1s to %s", service.MaxPushWait))
			}
			p.client, p.con, p.out = c, newConsole(cmd.ErrOrStderr()), cmd.OutOrStdout()
			p.pipeline, p.input, _ = strings.Cut(args[0], "/")
			return p.run(cmd.Context(), cmd.InOrStdin())
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&p.envelopes, "messages", false, "lines have payload and metadata, as flowd queue dump writes them")
	f.DurationVar(&p.wait, "wait", time.Minute, "how long to wait for the fate of a message")
	f.StringVar(&pace, "rate", "", "at most this many `MESSAGES/TIME`, such as 500/s")
	f.BoolVar(&p.json, "json", false, "write one JSON object per message, for programs")
	return cmd
}

// pushing is one run of flowd ctl push.
type pushing struct {
	client          *service.Client
	con             *console
	out             io.Writer
	pipeline, input string
	envelopes, json bool
	wait            time.Duration
	rate            int // messages in each per; 0: no limit
	per             time.Duration

	fates  engine.Counts
	failed int
}

// pushLine is a message with its line on stdin.
type pushLine struct {
	service.Message
	line int
}

// pushFate is the fate of a message, as --json shows it.
type pushFate struct {
	Line int `json:"line"`
	service.Pushed
}

// pushBytes is how much one request has of messages, in bytes, unless a single message is larger.
const pushBytes = 4 << 20

func (p *pushing) run(ctx context.Context, in io.Reader) error {
	ctx, kill, release := signals(ctx, p.con)
	defer release()
	began, chunks := time.Now(), make(chan []pushLine)
	var readErr error
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with stdin or with the process
		defer close(chunks)
		readErr = gather(reading, p.lines(in), p.most(), chunks)
	}()
	err := p.sendAll(ctx, kill, chunks)
	if err == nil && ctx.Err() == nil {
		err = readErr
	}
	p.summary(time.Since(began))
	switch {
	case err != nil:
		return shownError{err}
	case ctx.Err() != nil:
		return exit(handedBack)
	case p.failed > 0:
		return exit(failed)
	}
	return nil
}

// most is how many messages one request may have, so that a rate is kept evenly.
func (p *pushing) most() int {
	if p.rate == 0 {
		return service.MaxPushed
	}
	return max(1, min(service.MaxPushed, int(float64(p.rate)*0.2/p.per.Seconds())))
}

// sendAll sends chunks one after the other until there are no more, or ctx ends. kill interrupts the wait for fates.
func (p *pushing) sendAll(ctx, kill context.Context, chunks <-chan []pushLine) error {
	due := time.Now()
	for {
		var chunk []pushLine
		select {
		case chunk = <-chunks:
		case <-ctx.Done():
		}
		if chunk == nil {
			return nil
		}
		if p.rate > 0 {
			select {
			case <-time.After(time.Until(due)):
			case <-ctx.Done():
				return nil
			}
			if now := time.Now(); due.Before(now) {
				due = now
			}
			due = due.Add(time.Duration(float64(len(chunk)) / float64(p.rate) * float64(p.per)))
		}
		if err := p.send(kill, chunk); err != nil {
			return err
		}
	}
}

// send sends one chunk, and shows the fates.
func (p *pushing) send(ctx context.Context, chunk []pushLine) error {
	messages := make([]service.Message, len(chunk))
	for i, m := range chunk {
		messages[i] = m.Message
	}
	all, err := p.client.Push(ctx, p.pipeline, p.input, messages, p.wait)
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", chunk[0].line, chunk[len(chunk)-1].line, err)
	}
	for i, fate := range all {
		if err := p.show(pushFate{chunk[i].line, fate}); err != nil {
			return err
		}
	}
	return nil
}

// show counts a fate, and writes it if it is a failure, or as JSON.
func (p *pushing) show(f pushFate) error {
	p.fates.Received++
	p.fates.InFlight++
	for fate := range p.fates.Ended {
		if f.Fate == engine.Fate(fate).String() {
			p.fates.Ended[fate]++
			p.fates.InFlight--
		}
	}
	if !f.Good() {
		p.failed++
	}
	if p.json {
		return writeLine(p.out, f)
	}
	if f.Good() || p.failed > mostFailures {
		return nil
	}
	text := fmt.Sprintf("line %d: %s", f.Line, strings.ReplaceAll(f.Fate, "_", "-"))
	if f.Fate == service.InFlight {
		text = fmt.Sprintf("line %d: still in flight", f.Line)
	}
	if f.At != "" {
		text += " at " + f.At
	}
	if f.Error != "" {
		text += ": " + f.Error
	}
	fmt.Fprintln(p.con, oneLine(text))
	if p.failed == mostFailures {
		fmt.Fprintln(p.con, "further failures are only counted (--json lists all)")
	}
	return nil
}

func (p *pushing) summary(took time.Duration) {
	ends := fates(p.fates)
	if ends != "" {
		ends = ": " + ends
	}
	fmt.Fprintf(p.con, "%s: %s pushed%s in %s\n", oneLine(p.pipeline), amount(p.fates.Received), ends, seconds(took))
}

// lines returns a function that returns the next message of in, or io.EOF.
func (p *pushing) lines(in io.Reader) func() (pushLine, error) {
	form := framing.Config{MaxRecord: schema.Size(service.MaxPushedBytes / 2)}
	if p.envelopes {
		form.Framing.Messages = &framing.Plain{}
	}
	r := form.Reader(in)
	return func() (pushLine, error) {
		rec, err := r.Next()
		switch {
		case err != nil:
			return pushLine{}, err
		case rec.Err != nil:
			return pushLine{}, fmt.Errorf("line %d: %w", rec.Line, rec.Err)
		case rec.Size > 0:
			return pushLine{}, fmt.Errorf("line %d: the message is larger than %s", rec.Line, volume(service.MaxPushedBytes/2))
		}
		return pushLine{service.Message{Payload: rec.Body, Meta: metaOf(rec)}, rec.Line}, nil
	}
}

// gather reads messages and sends them on in chunks of at most most messages: of those that have arrived while the chunk
// before was on its way.
func gather(ctx context.Context, next func() (pushLine, error), most int, to chan<- []pushLine) error {
	one, ended := make(chan pushLine), make(chan error, 1)
	go func() {
		for {
			m, err := next()
			if err != nil {
				ended <- err
				close(one)
				return
			}
			select {
			case one <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	var chunk []pushLine
	bytes, more := 0, (<-chan pushLine)(one)
	for more != nil || len(chunk) > 0 {
		sends, reads := to, more
		if len(chunk) == 0 {
			sends = nil
		} else if len(chunk) == most || bytes >= pushBytes {
			reads = nil
		}
		select {
		case m, ok := <-reads:
			if !ok {
				more = nil
				continue
			}
			chunk, bytes = append(chunk, m), bytes+len(m.Payload)
		case sends <- chunk:
			chunk, bytes = nil, 0
		case <-ctx.Done():
			return nil
		}
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// completePipelines completes the names of pipelines, as the running flowd knows them.
func completePipelines(to *service.Target) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := service.NewClient(*to)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
		defer cancel()
		st, err := c.State(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, p := range st.Pipelines {
			names = append(names, p.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
