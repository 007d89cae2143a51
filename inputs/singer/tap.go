package singer

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/schema"
)

const maxCatalog = 256 << 20 // bytes of a catalog that the tap discovers

// errEnded says that the tap has ended in order.
var errEnded = errors.New("the tap has ended")

// tap is one run of the program. It reads at most two chunks of the output ahead of fill, each of a few KiB or one line.
type tap struct {
	in      *input
	ctx     context.Context //nolint:containedctx // of the run
	state   []byte          // where the run begins; nil: at the beginning
	batches chan []item     // what each chunk of the output contains; closed when the tap has ended
	err     error           // how it ended; set before batches is closed

	rest []item // items that fill has taken from batches; only for the goroutine of fill

	// Only the goroutine of run uses the fields below.
	lines programs.Lines
	dec   decoder
	items []item // of the current chunk
}

func (in *input) newTap() *tap {
	t := &tap{in: in, ctx: in.ctx, state: in.state, batches: make(chan []item, 1)}
	t.dec = decoder{secrets: in.prog.Secrets, maxLine: in.cfg.MaxLine, withSchema: in.cfg.Schema, streams: map[string]*stream{}}
	t.lines = programs.Lines{Max: int(in.cfg.MaxLine), Handle: func(line []byte, cut bool) error {
		it, err := t.dec.decode(line, cut)
		if it.record != nil || it.state != nil {
			t.items = append(t.items, it)
		}
		return err
	}}
	return t
}

// run runs the tap to its end.
func (t *tap) run() {
	defer close(t.batches)
	defer engine.Recovered(&t.err)
	dir, err := os.MkdirTemp("", "flowd-singer-")
	if err != nil {
		t.err = err
		return
	}
	defer os.RemoveAll(dir)
	prog := t.in.prog
	if prog.Command, err = t.command(dir); err == nil {
		err = prog.Stream(t.ctx, t, t.in.logged)
	}
	if err == nil {
		err = cmp.Or(t.lines.Flush(), t.flush(), errEnded)
	}
	t.err = err
}

// Write decodes a chunk of the output, and hands over what it contains, even if the last line is not valid.
func (t *tap) Write(p []byte) (int, error) {
	n, err := t.lines.Write(p)
	return n, cmp.Or(t.flush(), err)
}

// flush hands over the items. While fill has not taken the last ones, it waits, and so does the tap.
func (t *tap) flush() error {
	if len(t.items) == 0 {
		return nil
	}
	select {
	case t.batches <- t.items:
		t.items = nil
		return nil
	case <-t.ctx.Done():
		return t.ctx.Err()
	}
}

// fill waits for the first items, and adds as many as there is room for. The error comes after the last items.
func (t *tap) fill(ctx context.Context, b *engine.Batch) error {
	if len(t.rest) == 0 {
		select {
		case items, ok := <-t.batches:
			if !ok {
				return t.err
			}
			t.rest = items
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for len(t.rest) > 0 && (t.rest[0].state != nil || b.Room() > 0) {
		t.in.add(b, t.rest[0])
		t.rest = t.rest[1:]
	}
	return nil
}

// command returns the program with its arguments, and writes the files that they name.
func (t *tap) command(dir string) (programs.Command, error) {
	c := &t.in.cfg
	all := slices.Clone(c.Command)
	pass := func(flag string, text []byte, err error) error {
		if err != nil || text == nil {
			return err
		}
		path := filepath.Join(dir, flag[2:]+".json")
		all = append(all, flag, path)
		return os.WriteFile(path, text, 0o600)
	}
	if err := pass("--config", c.Config.Document, nil); err != nil {
		return nil, err
	}
	catalog, err := c.catalog()
	if len(c.Select) > 0 && err == nil {
		if catalog == nil {
			catalog, err = t.discover(all)
		}
		if err == nil {
			catalog, err = selectStreams(catalog, c.Select)
		}
	}
	flag := "--catalog"
	if c.Properties {
		flag = "--properties"
	}
	err = pass(flag, catalog, err)
	return all, pass("--state", t.state, err)
}

// discover asks the tap for its catalog.
func (t *tap) discover(command programs.Command) ([]byte, error) {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	prog := t.in.prog
	prog.Command = append(slices.Clip(command), "--discover")
	out := &programs.Bounded{Max: maxCatalog, Exceeded: cancel}
	err := prog.Stream(ctx, out, t.in.logged)
	if out.Full {
		return nil, engine.Errorf(engine.TooLarge, "the catalog is longer than %s (write `catalog`)", schema.Size(maxCatalog))
	}
	if err != nil {
		return nil, engine.Errorf(engine.Transient, "--discover: %w", err)
	}
	return out.Bytes(), nil
}
