package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/controls"
	"github.com/flowd-io/flowd/internal/disk/files"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/spf13/cobra"
)

func newQueueDump() *cobra.Command {
	var n int64
	var remove, yes bool
	cmd := &cobra.Command{
		Use:   "dump [URL] QUEUE [FILE]",
		Short: "Write the messages of a queue to a file",
		Long: `Dump writes each message as one JSON line, payload and metadata, in the form that
inputs with framing messages and flowd queue load read. FILE is QUEUE-TIME.jsonl
by default, and - is stdout. FILE must not exist yet.

The messages stay in the queue, hidden from others until dump ends; with
--delete each is removed once it is safely on disk.`,
		Example: `  flowd queue dump orders
  flowd queue dump orders saved.jsonl --delete
  flowd queue dump orders - -n 10 | jq .payload`,
		RunE: onQueues("QUEUE [FILE]", 1, 2, func(c *queueCall, args []string) error {
			name, path := args[0], ""
			if len(args) > 1 {
				path = args[1]
			} else {
				path = fileName(name) + "-" + time.Now().Format("20060102-150405") + ".jsonl"
			}
			if remove && path == "-" {
				return usage("--delete needs a file: messages on stdout could be lost")
			}
			ready := c.ready(name)
			if remove {
				if err := c.confirm(yes, fmt.Sprintf("Remove messages from %s (%s) once they are in %s?", name,
					about(ready), path)); err != nil {
					return err
				}
			}
			d, err := newDump(messages(c.cmd.OutOrStdout()), path)
			if err != nil {
				return err
			}
			d.sync = remove
			t := &transfer{queueCall: c, label: name + " → " + path, verb: "written", limit: n, total: ready,
				remove: remove}
			err = t.run(name, d.put)
			return joined(err, d.close())
		}),
	}
	addLimit(cmd, &n)
	cmd.Flags().BoolVar(&remove, "delete", false, "remove messages from the queue once they are in the file")
	addYes(cmd, &yes)
	return cmd
}

func newQueuePeek() *cobra.Command {
	var n int64
	cmd := &cobra.Command{
		Use:   "peek [URL] QUEUE",
		Short: "Show the first messages of a queue",
		Long: `Peek prints the first messages of a queue, as dump writes them. They stay in the
queue, hidden from others until peek ends.`,
		Example: `  flowd queue peek orders
  flowd queue peek orders -n 1 | jq .meta`,
		RunE: onQueues("QUEUE", 1, 1, func(c *queueCall, args []string) error {
			d, err := newDump(messages(c.cmd.OutOrStdout()), "-")
			if err != nil {
				return err
			}
			t := &transfer{queueCall: c, label: args[0], verb: "shown", limit: n, total: min(n, c.ready(args[0]))}
			return joined(t.run(args[0], d.put), d.close())
		}),
	}
	cmd.Flags().Int64VarP(&n, "number", "n", 10, "at most this many messages")
	cmd.PreRunE = notNegative("-n", &n)
	return cmd
}

// fileName turns a queue's name or URL into one element of a path.
func fileName(queue string) string {
	if _, rest, found := strings.Cut(queue, "://"); found {
		queue = rest[strings.LastIndexByte(rest, '/')+1:]
	}
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\:*?"<>|`, r) || controls.Is(r) {
			return '_'
		}
		return r
	}, queue)
	return strings.TrimLeft(name, ".-")
}

// dump writes messages as lines of JSON.
type dump struct {
	out  io.Writer
	file *files.Held // nil: stdout
	at   int64       // length of the whole lines, in bytes
	sync bool
	form *framing.Writer
	text []byte
}

func newDump(stdout io.Writer, path string) (*dump, error) {
	form := framing.OutConfig{Framing: framing.OutFraming{Messages: &framing.Plain{}}}
	d := &dump{out: stdout, form: form.Writer()}
	if path == "-" {
		return d, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, usage(fmt.Sprintf("%s already exists, and is not overwritten (name another file, or move it away)",
			path))
	}
	if err != nil {
		return nil, err
	}
	if d.file, err = files.Hold(f, path); err != nil {
		return nil, err
	}
	d.out = f
	return d, files.SyncDir(filepath.Dir(path))
}

// put writes all messages, or ends the dump with an error.
func (d *dump) put(_ context.Context, ms []queue.Message) ([]error, error) {
	b := engine.NewBatch(len(ms))
	d.text = d.text[:0]
	for _, m := range ms {
		line := b.Add(m.Payload)
		for _, name := range slices.Sorted(maps.Keys(m.Meta)) {
			line.Meta = line.Meta.With(name, m.Meta[name])
		}
		var err error
		if d.text, err = d.form.Append(d.text, line); err != nil {
			return nil, err
		}
	}
	if err := d.write(); err != nil {
		return nil, err
	}
	d.at += int64(len(d.text))
	return nil, nil
}

func (d *dump) write() error {
	_, err := d.out.Write(d.text)
	if d.file == nil {
		return err
	}
	if err == nil && d.sync {
		err = d.file.Sync()
	}
	if _, named := d.file.Named(); err == nil && !named {
		err = fmt.Errorf("%s was renamed or deleted while dump wrote to it: dump stops, and what it has not counted stays "+
			"in the queue", d.file.Name())
	}
	if err != nil { // remove half a line
		if remedy, yes := files.Outage(err); yes {
			err = fmt.Errorf("%w (%s, and begin again with another file)", err, remedy)
		}
		err = errors.Join(err, d.file.Truncate(d.at))
		_, _ = d.file.Seek(d.at, io.SeekStart)
	}
	return err
}

// close closes the file, and removes it if it is empty.
func (d *dump) close() error {
	if d.file == nil {
		return nil
	}
	_, named := d.file.Named()
	err := errors.Join(d.file.Sync(), d.file.Close())
	if d.at == 0 && named {
		err = errors.Join(err, os.Remove(d.file.Name()))
	}
	return err
}
