package config

import (
	"encoding/base64"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Test is one entry of the section `tests`: messages, and their expected fate. Package pipetest runs it.
type Test struct {
	Name      string                `yaml:"name" check:"required,nonempty" doc:"What the pipeline promises, as a sentence. It must be unique in the file."`
	Input     []TestInput           `yaml:"input" check:"required" doc:"The messages that are read, in order."`
	Until     time.Duration         `yaml:"until" check:"min=0s" doc:"When the inputs end, counted from the start; by default after the last message. With a later time, batches leave at their timeout."`
	Seed      int64                 `yaml:"seed" default:"1" doc:"Seed of random numbers and IDs, which are then the same on each run."`
	TakesBack string                `yaml:"takes_back" check:"oneof=one|position|nothing" default:"one" doc:"What the inputs can redeliver when a message fails: that message (one), everything from its position on, or nothing. It decides the default of on_failure.then."`
	MaxDelay  time.Duration         `yaml:"max_delay" check:"min=0s" doc:"How long the inputs can delay a message that is returned, as SQS and NATS can. 0s: they can't."`
	Env       schema.Map[string]    `yaml:"env" doc:"Environment variables of this test, for placeholders and env(), in addition to those of flowd test itself."`
	Mocks     schema.Map[Mock]      `yaml:"mocks" doc:"Answers by name of a step (or type, if it has no name): the step is not built, and the answer replaces its work."`
	Tables    schema.Map[JSON]      `yaml:"tables" doc:"Rows of tables, by table name, in place of the file or URL: a list of objects with the fields of the key, or an object by key (or IP address)."`
	Fail      schema.Map[Fault]     `yaml:"fail" doc:"Failures by name of an output or step."`
	Expect    *schema.Map[Expected] `yaml:"expect" doc:"The messages that arrive, by name of the output. What is not listed must not arrive."`
	Fates     *Fates                `yaml:"fates" doc:"How the messages that were read ended. A fate that is not listed is 0."`
	Acks      []ExpectedAck         `yaml:"acks" doc:"How the inputs must acknowledge the messages of input: one entry for each message, in the same order."`
	Failures  []ExpectedFailure     `yaml:"failures" doc:"The final failures, whatever became of the messages, one entry for each class and place. Without this, fates and acks, no message may be returned or dropped because it failed."`
	Stops     string                `yaml:"stops" doc:"The pipeline stops with an error that contains this text."`
	Within    time.Duration         `yaml:"within" check:"min=0s" doc:"Time limit for the whole run, in virtual time."`
	Place     schema.Place          `yaml:",place"`
}

// Words returns words of other systems, with what to write instead.
func (*Test) Words() map[string]string {
	return map[string]string{
		"input_batch": "write `input`", "input_batches": "write `input`", "inputs": "write `input`",
		"given":          "write `input`",
		"output_batches": "write `expect: {OUTPUT: {batches: …}}`", "outputs": "write `expect`",
		"output": "write `expect`", "then": "write `expect`",
		"mock": "write `mocks`", "faults": "write `fail`", "inject": "write `fail`", "label": "write `name`",
		"environment": "write `env`", "ack": "write `acks`", "nacks": "write `acks`", "acknowledgements": "write `acks`",
	}
}

// Body is a payload in a test.
type Body struct {
	JSON   *JSON   `yaml:"json" oneof:"body,optional" doc:"The payload as a document."`
	Text   *string `yaml:"text" oneof:"body,optional" doc:"The payload as it is."`
	Base64 *string `yaml:"base64" oneof:"body,optional" doc:"The payload in base64, if it is not text."`
}

// CheckConfig checks what types can't express.
func (b *Body) CheckConfig(report func(path, message, remedy string)) {
	if b.Base64 != nil {
		if _, err := base64.StdEncoding.DecodeString(*b.Base64); err != nil {
			report("base64", "this is not valid base64", "write what `base64 -w0 FILE` prints")
		}
	}
}

// Given reports whether there is a payload.
func (b *Body) Given() bool { return b.JSON != nil || b.Text != nil || b.Base64 != nil }

// Bytes returns the payload.
func (b *Body) Bytes() []byte {
	switch {
	case b.JSON != nil:
		return *b.JSON
	case b.Text != nil:
		return []byte(*b.Text)
	case b.Base64 != nil:
		data, _ := base64.StdEncoding.DecodeString(*b.Base64) // already checked when it was read
		return data
	}
	return nil
}

// TestInput is one message that an input reads in a test.
type TestInput struct {
	Body    `yaml:",inline"`
	Expr    expr.Body        `yaml:"expr" scope:"generate" doc:"Instead: the payload as an expression, as the body of generate; random values and fake(kind) are those of the test's seed."`
	Meta    schema.Map[JSON] `yaml:"meta" doc:"Metadata, as the input would give it."`
	Input   string           `yaml:"input" doc:"Name of the input that reads it, if there are several."`
	At      time.Duration    `yaml:"at" check:"min=0s" doc:"When it can be read, counted from the start."`
	Attempt int              `yaml:"attempt" check:"min=0" doc:"Delivery attempt, as the source counts it, from 1."`
	Place   schema.Place     `yaml:",place"`
}

// CheckConfig requires exactly one payload.
func (in *TestInput) CheckConfig(report func(path, message, remedy string)) {
	in.Body.CheckConfig(report)
	switch made := !in.Expr.IsZero(); {
	case made && in.Given():
		report("expr", "the message has another payload, too", "keep one")
	case !made && !in.Given():
		report("", "the message has no payload", "write json, text, base64 or expr: {json: {…}}")
	}
}

// Expected is what must arrive at one output.
type Expected struct {
	Messages *[]ExpectedMessage `yaml:"messages,main" oneof:"form,optional" doc:"The messages, in order."`
	Batches  *[]ExpectedBatch   `yaml:"batches" oneof:"form,optional" doc:"The same, write by write."`
	AnyOrder bool               `yaml:"any_order" doc:"They may arrive in any order."`
	Place    schema.Place       `yaml:",place"`
}

// Words helps those who leave out the list.
func (*Expected) Words() map[string]string {
	const list = "write a list of messages: [{json: …}]"
	return map[string]string{"json": list, "text": list, "base64": list, "matches": list, "meta": list}
}

// ExpectedMessage is one message that must arrive. A field that is not set may have any value.
type ExpectedMessage struct {
	Body    `yaml:",inline"`
	Meta    schema.Map[JSON] `yaml:"meta" doc:"Metadata that it must have; there may be more."`
	Matches expr.Cond        `yaml:"matches" scope:"expected" doc:"A condition that must be true for it."`
	Error   *ExpectedError   `yaml:"error" doc:"Why it failed, in a dead letter."`
	Place   schema.Place     `yaml:",place"`
}

// ExpectedBatch is one write.
type ExpectedBatch struct {
	Messages []ExpectedMessage `yaml:"messages,main" check:"required" doc:"The messages of the batch, in order."`
	Trigger  string            `yaml:"trigger" check:"oneof=size|bytes|timeout|flush|end|drain|evicted|pressure" doc:"Why it left its batcher."`
	Key      *JSON             `yaml:"key" doc:"The value of the batcher's key."`
}

// ExpectedError is the expected failure of a message. A field that is not set may have any value.
type ExpectedError struct {
	Class   string `yaml:"class" check:"oneof=transient|permanent|auth|rejected|expression|decode|unrouted|timeout|late|too_large|panic" doc:"Its class."`
	Place   string `yaml:"place" doc:"Where it happened: step NAME or output NAME."`
	Message string `yaml:"message" doc:"Text that its message contains."`
}

// ExpectedFailure is an expected failure of a number of messages.
type ExpectedFailure struct {
	ExpectedError `yaml:",inline"`
	Fate          string       `yaml:"fate" check:"oneof=dead_lettered|dropped|returned" doc:"How they ended."`
	Count         int64        `yaml:"count" check:"min=1" default:"1" doc:"How many messages."`
	At            schema.Place `yaml:",place"`
}

// ExpectedAck is how one message of the input must be acknowledged. A field that is not set may have any value.
type ExpectedAck struct {
	Fate          string         `yaml:"fate,main" check:"oneof=delivered|filtered|dead_lettered|dropped|returned|none" doc:"How the message ended; none: it was not acknowledged, because the pipeline stopped before."`
	Delay         *time.Duration `yaml:"delay" check:"min=0s" doc:"How long the source is asked to wait before it delivers a returned message again. It needs max_delay."`
	ExpectedError `yaml:",inline"`
}

// Fates are numbers of messages by fate.
type Fates struct {
	Delivered    int64 `yaml:"delivered" check:"min=0" doc:"An output confirmed them."`
	Filtered     int64 `yaml:"filtered" check:"min=0" doc:"A step dropped them on purpose."`
	DeadLettered int64 `yaml:"dead_lettered" check:"min=0" doc:"They became dead letters."`
	Dropped      int64 `yaml:"dropped" check:"min=0" doc:"They failed and were dropped."`
	Returned     int64 `yaml:"returned" check:"min=0" doc:"They went back to their source."`
}

// Of returns the number of messages with a fate.
func (f Fates) Of(fate engine.Fate) int64 {
	return map[engine.Fate]int64{
		engine.Delivered: f.Delivered, engine.Filtered: f.Filtered, engine.DeadLettered: f.DeadLettered,
		engine.Dropped: f.Dropped, engine.Returned: f.Returned,
	}[fate]
}

// Fault makes an output or a step fail.
type Fault struct {
	Times   int           `yaml:"times,main" check:"min=1" doc:"Attempts that fail: writes of an output, messages of a step. Without this and without for, all of them fail."`
	For     time.Duration `yaml:"for" check:"min=1ns" doc:"Attempts fail for this long, counted from the start."`
	Match   expr.Cond     `yaml:"match" doc:"Only messages for which this is true fail."`
	Class   string        `yaml:"class" check:"oneof=transient|permanent|auth|rejected|expression|decode|timeout|late|panic" default:"transient" doc:"Class of the failure."`
	Message string        `yaml:"message" default:"failed by the test" doc:"Text of the failure."`
	Place   schema.Place  `yaml:",place"`
}

// CheckConfig rejects a fault that ends in two ways.
func (f *Fault) CheckConfig(report func(path, message, remedy string)) {
	if f.Times > 0 && f.For > 0 {
		report("for", "times and for exclude each other", "keep one")
	}
}
