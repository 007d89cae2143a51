package redis

import (
	"context"
	"strings"

	"github.com/flowd-io/flowd/engine"
	goredis "github.com/redis/go-redis/v9"
)

// largest is the largest payload in bytes. The server closes the connection for a larger one (proto-max-bulk-len).
const largest = 512 << 20

// Writes has the commands of one write of an output, one for each message.
type Writes struct {
	Doing    string // what the commands do, for errors
	Constant bool   // all messages go to one key

	cmds []*goredis.Cmd
	msgs []*engine.Message
}

// Add adds the command of a message.
func (w *Writes) Add(m *engine.Message, cmd *goredis.Cmd) {
	w.cmds, w.msgs = append(w.cmds, cmd), append(w.msgs, m)
}

// Run executes the commands in one pipeline, and sets the result of each message. If an error holds the output, Run returns it, and
// leaves the messages without a result that were not written. If checkError is not nil, it returns the result of a failed command, as
// [Output.CheckError] does.
func (w *Writes) Run(ctx context.Context, c *Client, checkError func(cmd *goredis.Cmd) error) (held error) {
	c.Send(ctx, w.cmds)
	for i, m := range w.msgs {
		err := w.cmds[i].Err()
		if err != nil && checkError != nil {
			err = checkError(w.cmds[i])
		}
		if err == nil {
			m.Done()
			continue
		}
		err = Explain(err, w.Doing)
		e := engine.ErrorOf(err, engine.Transient)
		switch {
		case !w.Constant && HasErrorPrefix(err, "NOPERM ") && !strings.Contains(err.Error(), " to run the "):
			m.Fail(&engine.Error{Class: engine.Rejected, Err: e.Err}) // another key may be allowed
		case e.HoldsOutput():
			held = err
		default:
			m.Fail(err)
		}
	}
	return held
}
