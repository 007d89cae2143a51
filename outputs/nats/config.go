// Package nats publishes messages to subjects of NATS and streams of JetStream. Start at [output.Write].
package nats

import (
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/queue/nats"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the output.
type Config struct {
	nats.Connect `yaml:",inline"`
	Subject      expr.Template             `yaml:"subject" check:"required" doc:"Subject to publish to."`
	Stream       string                    `yaml:"stream" doc:"JetStream stream that must have the subject, and confirms each message."`
	JetStream    bool                      `yaml:"jetstream" doc:"Wait until a stream, whichever has the subject, confirms each message; stream implies it. Without either, a message is delivered when the server has it: clients that are not listening do not get it."`
	Declare      *nats.Declare             `yaml:"declare" doc:"Create the stream if it does not exist; without this, it must exist. If it exists with other settings, that is an error, and it stays as it is."`
	DedupeID     expr.Expr                 `yaml:"dedupe_id" doc:"Id of a message: of those with the same id within the stream's duplicate window (2m, unless it says otherwise), it keeps the first; null means none."`
	Headers      schema.Map[expr.Template] `yaml:"headers" doc:"Headers by name, in addition to those from metadata. A header that the server acts on, such as Nats-Expected-Last-Sequence, can only be set here."`
}

func (c *Config) stored() bool { return c.JetStream || c.Stream != "" }

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	if subject, constant := c.Subject.Const(); constant && subject != "" {
		if problem := nats.CheckSubject(subject, false); problem != "" {
			report("subject", fmt.Sprintf("%q %s", subject, problem), "write a subject such as orders.new")
		}
	}
	if problem := nats.CheckName(c.Stream); c.Stream != "" && problem != "" {
		report("stream", fmt.Sprintf("%q %s", c.Stream, problem), "correct it")
	}
	for name := range c.Headers.All() {
		if problem := nats.CheckHeader(name); problem != "" {
			report("headers", problem, "write visible letters, without a colon")
		}
	}
	switch {
	case c.Declare != nil && c.Stream == "":
		report("declare", "there is no stream to create", "name it: `stream`")
	case !c.stored() && !c.DedupeID.IsZero():
		report("dedupe_id", "only a stream knows the ids of messages", "write `stream`, or `jetstream: true`")
	}
	if c.Declare != nil {
		c.Declare.Check("declare", report)
	}
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	words["subjects"] = "write `subject`"
	words["queue"] = "write `subject`"
	words["durable"] = "remove it: consumers are for inputs"
	words["metadata"] = "remove it: metadata leaves as headers; a step `meta` changes it"
	words["msg_id"], words["message_id"] = "write `dedupe_id`", "write `dedupe_id`"
	words["max_in_flight"] = "write `concurrency` beside the type"
	words["batching"] = "write a batcher: see `batchers`"
	return words
}

const about = `
Publishes messages to a NATS subject, or to a JetStream stream.

With stream or jetstream, each message is delivered when a stream has confirmed it; all messages of a write are
in flight at once. A message that the stream or the server refuses (too large, another stream's subject, no
permission for a subject that the message determines) fails alone, with class rejected. While the server can't
be reached, has no JetStream or no room, the stream is full, or the only subject written to has no stream or no
permission, the output is held and nothing is lost. A message whose confirmation was lost with the connection is
published again; with dedupe_id, the stream keeps it once.

Without a stream (core NATS), a message is delivered when the server has answered a flush after it. Clients that
are not listening at that time do not get it.

Headers come from metadata: what steps have set, or what the sender of a message has sent with it, except those
that begin with Nats-, which tell a server what to do. A line break in a header becomes a space. Dead letters
have error_* and the origin of the message: original_subject, original_stream, original_sequence and
original_timestamp.

    outputs:
      orders: {nats: {url: "nats://localhost:4222", subject: "orders.$(country)", stream: ORDERS, dedupe_id: id}}
`

func init() {
	engine.Register(engine.Outputs, "nats", about, Config{Connect: nats.Defaults}, newOutput)
}
