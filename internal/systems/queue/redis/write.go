package redis

import (
	"context"
	"strings"

	"github.com/flowd-io/flowd/engine"
	goredis "github.com/redis/go-redis/v9"
)

// largest is how long a payload may be: the server closes the connection at a longer one (proto-max-bulk-len).
const largest = 512 << 20

// Writes are the commands of one write of an output, each of a message.
type Writes struct {
	Doing    string // what they do, for errors
	Constant bool   // all messages go to one key

	cmds []*goredis.Cmd
	msgs []*engine.Message
}

// Add adds the command of a message.
func (w *Writes) Add(m *engine.Message, cmd *goredis.Cmd) {
	w.cmds, w.msgs = append(w.cmds, cmd), append(w.msgs, m)
}

// Run carries them out in one pipeline. Each message has its own result; the error is that of the output, which is held
// then, and of the messages that are not written. judge, if not nil, may know better what an error means.
func (w *Writes) Run(ctx context.Context, c *Client, judge func(cmd *goredis.Cmd) error) (held error) {
	c.Send(ctx, w.cmds)
	for i, m := range w.msgs {
		err := w.cmds[i].Err()
		if err != nil && judge != nil {
			err = judge(w.cmds[i])
		}
		if err == nil {
			m.Done()
			continue
		}
		err = Explain(err, w.Doing)
		e := engine.ErrorOf(err, engine.Transient)
		switch {
		case !w.Constant && Says(err, "NOPERM ") && !strings.Contains(err.Error(), " to run the "):
			m.Fail(&engine.Error{Class: engine.Rejected, Err: e.Err}) // another key may be allowed
		case e.HoldsOutput():
			held = err
		default:
			m.Fail(err)
		}
	}
	return held
}
