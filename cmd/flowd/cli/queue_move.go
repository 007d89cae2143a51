package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/spf13/cobra"
)

func newQueueMv() *cobra.Command {
	var n int64
	var yes bool
	cmd := &cobra.Command{
		Use:   "mv [URL] FROM TO",
		Short: "Move messages from one queue to another",
		Example: `  flowd queue mv orders orders-2
  flowd queue mv orders orders-2 -n 100 --yes`,
		RunE: onQueues("FROM and TO", 2, 2, func(c *queueCall, args []string) error {
			from, to := args[0], args[1]
			if from == to {
				return usage("FROM and TO are the same queue")
			}
			ready := c.ready(from)
			what := about(ready)
			if n > 0 && (ready < 0 || n < ready) {
				what = "at most " + about(n)
			}
			if err := c.confirm(yes, fmt.Sprintf("Move %s from %s to %s?", what, from, to)); err != nil {
				return err
			}
			writers := writers{c: c}
			defer writers.close()
			if _, err := writers.of(to); err != nil {
				return err
			}
			t := &transfer{queueCall: c, label: from + " → " + to, verb: "moved", limit: n, total: ready,
				remove: true}
			return t.run(from, func(ctx context.Context, ms []queue.Message) ([]error, error) {
				return writers.write(ctx, to, ms), nil
			})
		}),
	}
	addLimit(cmd, &n)
	addYes(cmd, &yes)
	return cmd
}

func newQueueRedrive() *cobra.Command {
	var n int64
	var to string
	cmd := &cobra.Command{
		Use:   "redrive [URL] DEAD_LETTERS",
		Short: "Send dead letters back to the queues they came from",
		Long: `Redrive sends dead letters back to the queues they came from, or to the one that
--to names. Dead letters that arrive meanwhile are not sent: redrive stops after as
many as there were when it started, if the broker reports that number.`,
		Example: `  flowd queue redrive orders-dead
  flowd queue redrive orders-dead -n 1             try it with one
  flowd queue redrive orders-dead --to orders-2`,
		RunE: onQueues("DEAD_LETTERS", 1, 1, func(c *queueCall, args []string) error {
			dlq := args[0]
			origin, ok := c.server.(queue.Origin)
			switch {
			case to == dlq:
				return usage("--to is the queue of the dead letters itself")
			case to == "" && !ok:
				return usage("this broker does not say where dead letters came from (add --to QUEUE)")
			}
			r := &redrive{writers: writers{c: c}, dlq: dlq, to: to, origin: origin}
			defer r.close()
			if to != "" {
				if _, err := r.of(to); err != nil {
					return err
				}
			}
			t := &transfer{queueCall: c, label: dlq, verb: "sent back", limit: n, total: c.ready(dlq),
				remove: true}
			if t.total > 0 {
				t.limit = t.expected()
			}
			return t.run(dlq, r.put)
		}),
	}
	addLimit(cmd, &n)
	cmd.Flags().StringVar(&to, "to", "", "`QUEUE` to send all of them to")
	return cmd
}

// redrive sends dead letters to the queues that they came from.
type redrive struct {
	writers
	dlq, to string
	origin  queue.Origin
}

// put groups messages by their queue. Within a queue, they keep their order.
func (r *redrive) put(ctx context.Context, ms []queue.Message) ([]error, error) {
	errs := make([]error, len(ms))
	at := map[string][]int{}
	for i, m := range ms {
		to, err := r.target(ctx, m)
		if err != nil {
			errs[i] = err
			continue
		}
		at[to] = append(at[to], i)
	}
	for _, to := range slices.Sorted(maps.Keys(at)) {
		group := make([]queue.Message, 0, len(at[to]))
		for _, i := range at[to] {
			group = append(group, ms[i])
		}
		failed := r.write(ctx, to, group)
		for j, i := range at[to] {
			if failed != nil && failed[j] != nil {
				errs[i] = fmt.Errorf("to %s: %w", to, failed[j])
			}
		}
	}
	return errs, nil
}

// target returns the queue that a dead letter goes to.
func (r *redrive) target(ctx context.Context, m queue.Message) (string, error) {
	if r.to != "" {
		return r.to, nil
	}
	to, err := r.origin.Origin(ctx, r.dlq, m)
	switch {
	case err != nil:
		return "", err
	case to == "":
		return "", errors.New("it does not say where it came from (add --to QUEUE)")
	case to == r.dlq:
		return "", errors.New("it came from this queue itself (add --to QUEUE)")
	}
	return to, nil
}

// mostWriters bounds the writers that stay open.
const mostWriters = 64

// writers holds the open writers, by queue.
type writers struct {
	c    *queueCall
	open map[string]queue.Writer
}

func (w *writers) of(name string) (queue.Writer, error) {
	if x := w.open[name]; x != nil {
		return x, nil
	}
	if len(w.open) >= mostWriters {
		w.close()
	}
	x, err := w.c.server.Writer(w.c.kill, name)
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", name, err)
	}
	if w.open == nil {
		w.open = map[string]queue.Writer{}
	}
	w.open[name] = x
	return x, nil
}

// write sends messages to a queue. It returns nil, or an error (or nil) for each message.
func (w *writers) write(ctx context.Context, name string, ms []queue.Message) []error {
	x, err := w.of(name)
	if err != nil {
		return slices.Repeat([]error{err}, len(ms))
	}
	errs := x.Write(ctx, ms)
	if errs != nil && len(errs) != len(ms) {
		err := errors.New("the broker's answer does not say which messages it accepted")
		return slices.Repeat([]error{err}, len(ms))
	}
	return errs
}

func (w *writers) close() {
	for name, x := range w.open {
		if err := x.Close(); err != nil { // the broker has confirmed everything
			fmt.Fprintln(w.c.con, w.c.hide(fmt.Sprintf("queue %s: close: %v", name, err)))
		}
	}
	w.open = nil
}
