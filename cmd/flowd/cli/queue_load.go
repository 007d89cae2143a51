package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/spf13/cobra"
)

func newQueueLoad() *cobra.Command {
	var n, skip int64
	cmd := &cobra.Command{
		Use:   "load [URL] QUEUE FILE",
		Short: "Send the messages of a file to a queue",
		Long: `Load sends the messages of a file written by flowd queue dump, or by an output with
framing messages; - is stdin. A line that is not a message is listed, and the others
are sent. If interrupted, load says which --skip continues from there.`,
		Example: `  flowd queue load orders saved.jsonl
  flowd queue load orders saved.jsonl --skip 1200     the first 1200 have been sent already`,
		RunE: onQueues("QUEUE and FILE", 2, 2, func(c *queueCall, args []string) error {
			name, path := args[0], args[1]
			in := c.cmd.InOrStdin()
			if path != "-" {
				f, err := os.Open(path)
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			writers := writers{c: c}
			defer writers.close()
			if _, err := writers.of(name); err != nil {
				return err
			}
			t := &transfer{queueCall: c, label: path + " → " + name, verb: "sent", limit: n, total: -1}
			return t.load(c.until(in, path), skip,
				func(ms []queue.Message) []error { return writers.write(c.kill, name, ms) })
		}),
	}
	addLimit(cmd, &n)
	cmd.Flags().Int64Var(&skip, "skip", 0, "skip this many lines at the beginning")
	cmd.PreRunE = notNegative("-n and --skip", &n, &skip)
	return cmd
}

// maxMessage is the largest message that load reads, in bytes.
const maxMessage = 64 << 20

// load sends the messages of a file in batches. t.seen counts lines.
func (t *transfer) load(in io.Reader, skip int64, put func([]queue.Message) []error) error {
	t.began = time.Now()
	form := framing.Config{Framing: framing.Framing{Messages: &framing.Plain{}}, MaxRecord: maxMessage}
	r := form.Reader(in)
	var ms []queue.Message
	var lines []int
	bytes, last := 0, int(skip)
	send := func() {
		if len(ms) == 0 || t.stop.Err() != nil {
			return
		}
		errs := put(ms)
		for i := range ms {
			if errs != nil && errs[i] != nil {
				t.fails(fmt.Sprintf("line %d%s", lines[i], idOf(ms[i])), errs[i])
				continue
			}
			t.done++
		}
		ms, lines, bytes = ms[:0], lines[:0], 0
		t.show()
	}
	var err error
	for err == nil && t.canContinue() {
		var rec framing.Record
		if rec, err = r.Next(); err != nil {
			break
		}
		if int64(rec.Line) <= skip {
			continue
		}
		last = rec.Line
		t.seen++
		if rec.Err != nil {
			t.fails(fmt.Sprintf("line %d", rec.Line), rec.Err)
			continue
		}
		ms = append(ms, queue.Message{Payload: rec.Body, Meta: metaOf(rec)})
		lines = append(lines, rec.Line)
		if bytes += len(rec.Body); len(ms) == mostAtOnce || bytes >= bytesAtOnce {
			send()
		}
	}
	send()
	if len(lines) > 0 { // lines that were not sent
		last = lines[0] - 1
	}
	if t.stop.Err() != nil || t.failed >= mostFailures {
		fmt.Fprintf(t.con, "continue with --skip %d\n", last)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return t.ended(err)
}

// until reads in until a signal arrives: a read of stdin may wait for ever.
func (c *queueCall) until(in io.Reader, path string) io.Reader {
	if path != "-" {
		return in
	}
	r, w := io.Pipe()
	go func() { // ends with stdin or with the process
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	context.AfterFunc(c.stop, func() { _ = w.CloseWithError(context.Canceled) })
	return r
}

func metaOf(rec framing.Record) map[string]any {
	if rec.Meta == nil {
		return nil
	}
	return rec.Meta(engine.Meta{}).Map()
}
