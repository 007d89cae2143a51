// Package reply answers the HTTP requests that messages came from.
package reply

import (
	"bytes"
	"context"
	"strconv"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/reply"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the output.
type Config struct {
	Status  expr.Template             `yaml:"status" doc:"Status, from 200 to 599; by default 200, or 202 for a dead letter."`
	Headers schema.Map[expr.Template] `yaml:"headers" doc:"Headers by name; Content-Type is JSON, text or bytes, according to the body, unless given here."`
	Body    expr.Body                 `yaml:"body" doc:"Body of the answer: text as it is, anything else as JSON; the payload by default."`
}

// reserved are the headers that an answer sets itself.
var reserved = []string{"Connection", "Content-Length", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// CheckConfig reports what can't be answered.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if text, ok := c.Status.Const(); ok && !c.Status.IsZero() {
		if _, err := statusOf(text); err != nil {
			report("status", err.Error(), "write a number such as 201")
		}
	}
	httpx.CheckHeaders(c.Headers, reserved, "answer", report)
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string {
	return map[string]string{"code": "write `status`", "response": "write `body`", "payload": "write `body`"}
}

const about = `
Answers the http_server request that a message came from.

The reply is sent when everything made from the message has succeeded, including in
other outputs; if something failed, its fate is the answer instead. The parts of a
split, or the replies of several outputs, are sent as a JSON list, in the order of the
parts; a request with several messages gets the list by index, with the replies in it.
A merged message has the metadata of its first message, and answers that one's
request. As a dead-letter output, it answers failures. The client then sees what body
and headers take from error(): the class reveals nothing internal, but the message may
name files, commands and expressions. It also works after a pipe.

    inputs:
      web: {http_server: "127.0.0.1:8080"}
    outputs:
      answer: {reply: {status: 201, body: '{"id": id}'}}

All fields are optional: reply: {} answers with the payload.
`

func init() {
	engine.Register(engine.Outputs, "reply", about, Config{}, newOutput)
}

type output struct {
	cfg  Config
	desk *reply.Desk
}

func newOutput(c Config, env engine.Env) (engine.Output, error) {
	desk := reply.Of(env.Shared)
	desk.Want()
	return &output{c, desk}, nil
}

// Write hands the replies to the waiting requests.
func (o *output) Write(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		r, err := o.reply(m)
		if err == nil {
			err = o.desk.Answer(m, r)
		}
		if err != nil {
			m.Fail(err)
		}
	}
	return nil
}

// reply makes the reply of a message.
func (o *output) reply(m *engine.Message) (r reply.Reply, err error) {
	if !o.cfg.Status.IsZero() {
		text, err := o.cfg.Status.Text(m)
		if err != nil {
			return r, err
		}
		if r.Status, err = statusOf(text); err != nil {
			return r, err
		}
	}
	if r.Header, err = httpx.HeaderOf(o.cfg.Headers, m); err != nil {
		return r, err
	}
	if o.cfg.Body.IsZero() {
		r.Body = bytes.Clone(m.Bytes()) // or it would keep the whole block in which it was read in memory
		return r, nil
	}
	r.Body, err = o.cfg.Body.AppendBody(nil, m)
	return r, err
}

func statusOf(text string) (int, error) {
	status, err := strconv.Atoi(text)
	if err != nil || status < 200 || status > 599 {
		return 0, engine.Errorf(engine.Rejected, "%q is not a status from 200 to 599", text)
	}
	return status, nil
}
