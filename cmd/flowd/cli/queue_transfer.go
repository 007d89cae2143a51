package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

const (
	mostAtOnce   = 2000    // messages per read
	firstAtOnce  = 10      // messages of the first read; each further read may have a multiple of the last
	bytesAtOnce  = 4 << 20 // payload bytes per read, roughly, by the size of the previous messages
	mostFailures = 100     // a transfer gives up after these
	showEvery    = 200 * time.Millisecond
)

// transfer moves messages from a queue to another place in batches, so that the memory it needs does not depend on
// their number.
type transfer struct {
	*queueCall
	label  string // "orders → orders-2"
	verb   string // "moved"
	limit  int64  // messages; 0: no limit
	total  int64  // expected messages; -1: unknown
	remove bool   // remove messages from the queue once they are confirmed

	reads        bool // it reads from a queue
	began, shown time.Time
	seen, done   int64
	failed       int
	kept         []uint64 // messages that failed: they go back at the end
	size         int      // of a typical payload, in bytes
	asked        int64    // messages of the last read
}

// put sends messages. It returns nil, or an error (or nil) for each, or an err that ends the transfer.
type put func(ctx context.Context, ms []queue.Message) (errs []error, err error)

// run reads from a queue until it is empty, the limit is reached, too many messages have failed, or a signal
// arrives.
func (t *transfer) run(name string, put put) (err error) {
	t.reads, t.began = true, time.Now()
	defer t.con.status("")
	r, err := t.server.Reader(t.stop, name)
	if err != nil {
		return t.ended(fmt.Errorf("queue %s: %w", name, err))
	}
	defer func() { err = t.ended(joined(err, t.giveBack(r))) }()
	for t.canContinue() {
		ms, err := r.Read(t.stop, t.atOnce())
		if len(ms) > 0 {
			if t.stop.Err() != nil {
				return nil // Close gives the messages back
			}
			if err := t.batch(r, ms, put); err != nil {
				return err
			}
		}
		switch {
		case err == engine.ErrEnd, t.stop.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("queue %s: %w", name, err)
		}
	}
	return nil
}

// canContinue reports whether to read more.
func (t *transfer) canContinue() bool {
	return t.stop.Err() == nil && t.failed < mostFailures && (t.limit == 0 || t.seen < t.limit)
}

// atOnce returns how many messages the next read asks for.
func (t *transfer) atOnce() int {
	n := int64(firstAtOnce)
	if t.size > 0 {
		n = max(1, min(mostAtOnce, 4*t.asked, int64(bytesAtOnce/t.size)))
	}
	t.asked = n
	if t.limit > 0 {
		n = min(n, t.limit-t.seen)
	}
	return int(n)
}

// batch sends messages, removes those that are confirmed, and lists those that failed.
func (t *transfer) batch(r queue.Reader, ms []queue.Message, put put) error {
	sum := 0
	for _, m := range ms {
		sum += len(m.Payload)
	}
	t.size = max(1, sum/len(ms))
	errs, err := put(t.kill, ms)
	if err != nil {
		return err // Close gives the messages back
	}
	var safe []uint64
	for i, m := range ms {
		t.seen++
		if errs != nil && errs[i] != nil {
			t.fails(fmt.Sprintf("message %s%s", amount(t.seen), idOf(m)), errs[i])
			t.kept = append(t.kept, m.Ref)
			continue
		}
		safe = append(safe, m.Ref)
	}
	if t.remove && len(safe) > 0 {
		if err := r.Done(t.kill, safe); err != nil {
			t.done += int64(len(safe))
			return fmt.Errorf("%s were %s, but may still be in the queue, too: %w", plural(len(safe), "message"),
				t.verb, err)
		}
	}
	t.done += int64(len(safe))
	t.show()
	return nil
}

// fails lists a message that could not be sent.
func (t *transfer) fails(what string, err error) {
	if t.failed++; t.failed > mostFailures {
		return // these failed together with the first message
	}
	fmt.Fprintln(t.con, t.hide(what+": "+err.Error()))
}

// idOf names a message by the metadata in which brokers keep its id.
func idOf(m queue.Message) string {
	for _, name := range []string{"message_id", "id"} {
		if id, ok := m.Meta[name].(string); ok && id != "" {
			return fmt.Sprintf(" (%s %q)", name, id)
		}
	}
	return ""
}

// giveBack returns the failed messages to the queue. Closing the reader returns the others that were not
// removed.
func (t *transfer) giveBack(r queue.Reader) error {
	var err error
	if len(t.kept) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.kill), 10*time.Second)
		defer cancel()
		err = r.Return(ctx, t.kept)
	}
	return errors.Join(err, r.Close())
}

// ended prints a summary and returns an exit code.
func (t *transfer) ended(err error) error {
	t.con.status("")
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s", t.label, amount(t.done), t.verb)
	if t.failed > 0 {
		fmt.Fprintf(&b, ", %s failed", amount(int64(t.failed)))
	}
	fmt.Fprintf(&b, " in %s\n", seconds(time.Since(t.began)))
	fmt.Fprint(t.con, t.hide(b.String()))
	switch {
	case t.stop.Err() != nil:
		if err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintf(t.con, "flowd: %s\n", t.hide(err.Error()))
		}
		if t.reads {
			fmt.Fprintln(t.con, "interrupted: the other messages that were taken are handed back")
		}
		return exit(handedBack)
	case err != nil:
		return err
	case t.failed >= mostFailures:
		return fmt.Errorf("gave up after %s had failed", plural(t.failed, "message"))
	case t.failed > 0:
		return exit(failed)
	}
	return nil
}

// show draws the progress line, if there is a terminal.
func (t *transfer) show() {
	if now := time.Now(); t.con.terminal && now.Sub(t.shown) >= showEvery {
		t.shown = now
		t.con.status(fit(bar(t.seen, t.expected(), now.Sub(t.began)), t.con.width()))
	}
}

// expected returns the expected number of messages, or -1.
func (t *transfer) expected() int64 {
	if t.limit > 0 && (t.total < 0 || t.limit < t.total) {
		return t.limit
	}
	return t.total
}

// bar formats a progress line: [=====>    ] 1,200 of 2,400 (610/s).
func bar(done, total int64, took time.Duration) string {
	speed := rate(float64(done) / max(took.Seconds(), 1e-3))
	if total <= 0 {
		return fmt.Sprintf("%s (%s)", amount(done), speed)
	}
	const width = 20
	n := int(min(width, done*width/total))
	head := ""
	if n < width {
		head = ">"
	}
	return fmt.Sprintf("[%-*s] %s of %s (%s)", width, strings.Repeat("=", n)+head, amount(done), amount(total), speed)
}
