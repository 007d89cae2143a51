package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/schema"
)

// Pipeline is the configuration of a pipeline. runtime.Build makes a plan of it.
type Pipeline struct {
	Name       string                  `yaml:"name" doc:"Name of the pipeline; the file's base name by default."`
	Inputs     schema.Map[InputSpec]   `yaml:"inputs" check:"required" doc:"Where messages come from, by name."`
	Processors Steps                   `yaml:"processors" doc:"Steps that every message goes through, in order."`
	Batchers   schema.Map[BatcherSpec] `yaml:"batchers" doc:"Where messages go, by name: batchers are tried in this order, and the first match takes the message."`
	Outputs    schema.Map[OutputSpec]  `yaml:"outputs" check:"required" scope:"batch" doc:"Where messages are written, by name."`
	Engine     EngineSpec              `yaml:"engine" doc:"Parallelism, order, memory, failures and draining."`
	Defaults   Defaults                `yaml:"defaults" doc:"What outputs, steps and batchers inherit."`
	Place      schema.Place            `yaml:",place"`
}

// Tried returns the batchers in the order in which they are tried: as written, those without a condition last.
func (p *Pipeline) Tried() []schema.Entry[BatcherSpec] {
	all := slices.Clone(p.Batchers.Entries())
	takesAll := func(b BatcherSpec) int {
		if b.Match.IsZero() {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(x, y schema.Entry[BatcherSpec]) int { return takesAll(x.Value) - takesAll(y.Value) })
	return all
}

// Members returns the names of the outputs that are members of other outputs.
func (p *Pipeline) Members() map[string]bool {
	members := map[string]bool{}
	for _, o := range p.Outputs.All() {
		for _, name := range TraitsOf(o.Use.Config).Members {
			members[name] = true
		}
	}
	return members
}

// Unbatched returns the names of the outputs that get all messages if there are no batchers: those that are neither dead
// letters nor members of others. Without a mistake it is one.
func (p *Pipeline) Unbatched() (names []string) {
	other := p.Members()
	other[p.Engine.OnFailure.DeadLetter] = true
	for _, o := range p.Outputs.All() {
		if o.OnFailure != nil {
			other[o.OnFailure.DeadLetter] = true
		}
	}
	for name := range p.Outputs.All() {
		if !other[name] {
			names = append(names, name)
		}
	}
	return names
}

// Defaults is the section `defaults`: what components inherit. Package config fills in what outputs and batchers inherit,
// so programs that build a Pipeline set it in each of them. The engine does so for steps, which may be inside others.
type Defaults struct {
	Outputs    OutputDefaults  `yaml:"outputs" doc:"Fields that outputs inherit, each unless the output has it."`
	Processors StepDefaults    `yaml:"processors" doc:"Fields that steps inherit, with priority over engine.timeout and engine.on_failure.retry."`
	Batchers   BatcherDefaults `yaml:"batchers" doc:"What batchers inherit: concurrency, and the settings of a type such as batch. These apply to batchers of this type and to those without a type."`
}

// OutputDefaults is `defaults.outputs`.
type OutputDefaults struct {
	Concurrency Concurrency   `yaml:"concurrency" doc:"Writes in flight at once, or auto."`
	Timeout     time.Duration `yaml:"timeout" check:"min=1ms" doc:"Time limit for one write."`
	Retry       *Retry        `yaml:"retry" doc:"How a failed write is retried. Outputs inherit it field by field."`
	Breaker     *Breaker      `yaml:"breaker" doc:"When to stop writing to an output that fails. Outputs inherit it field by field."`
}

// StepDefaults is `defaults.processors`.
type StepDefaults struct {
	Timeout time.Duration `yaml:"timeout" check:"min=1ms" doc:"Time limit for one run of a step."`
	Retry   *Retry        `yaml:"retry" doc:"How a failed step is retried. Steps inherit it field by field."`
}

// BatcherDefaults is `defaults.batchers`.
type BatcherDefaults struct {
	Use         Plugin[Batcher] `yaml:",variant,optional"`
	Concurrency int             `yaml:"concurrency" check:"min=1" doc:"Batches of a batcher in flight at once."`
}

// InputSpec is one entry of `inputs`.
type InputSpec struct {
	Use         Plugin[Input] `yaml:",variant"`
	Concurrency int           `yaml:"concurrency" check:"min=1" default:"1" doc:"Instances of this input that read at once."`
	Processors  Steps         `yaml:"processors" doc:"Steps for the messages of this input only, run in reading order."`
	RateLimit   *RateLimit    `yaml:"rate_limit" doc:"How many messages are read per period, by all instances together."`
	Buffer      *schema.Node  `yaml:"buffer" pending:"durable buffers" doc:"A durable local buffer."`
	Schema      *schema.Node  `yaml:"schema" pending:"schemas" doc:"JSON Schema of the messages."`
	Place       schema.Place  `yaml:",place"`
}

// StepSpec is one step of a list.
type StepSpec struct {
	Use     Plugin[Processor] `yaml:",variant"`
	Name    string            `yaml:"name" doc:"Name of the step in errors and metrics; its type by default."`
	When    expr.Cond         `yaml:"when" doc:"The step is skipped unless this is true."`
	Timeout time.Duration     `yaml:"timeout" check:"min=1ms" doc:"Time limit for one run of the step; engine.timeout by default."`
	OnError OnError           `yaml:"on_error" doc:"What happens to a message that the step, or a step inside it, failed: fail (default), continue (with the message as it was before the step), drop, or a list of steps that repair it."`
	Retry   *Retry            `yaml:"retry" doc:"How a failed step is retried; omitted fields are as in engine.on_failure.retry."`
	Place   schema.Place      `yaml:",place"`
}

// BatcherSpec is one entry of `batchers`.
type BatcherSpec struct {
	Use         Plugin[Batcher] `yaml:",variant,optional"`
	Match       expr.Cond       `yaml:"match" doc:"Takes the messages for which this is true; a batcher without it is tried last and takes all."`
	Continue    bool            `yaml:"continue" doc:"Later batchers see the message too."`
	Key         expr.Expr       `yaml:"key" doc:"One open batch per value; without a type, a batch for each value of what comes together."`
	Processors  Steps           `yaml:"processors" scope:"batch" doc:"Steps for whole batches."`
	Output      Names           `yaml:"output" check:"required" doc:"The output that receives the batches."`
	Concurrency int             `yaml:"concurrency" check:"min=1" doc:"Batches of this batcher in flight at once; no separate limit by default."`
	Place       schema.Place    `yaml:",place"`
}

// OutputSpec is one entry of `outputs`.
type OutputSpec struct {
	Use         Plugin[Output] `yaml:",variant"`
	Processors  Steps          `yaml:"processors" doc:"Steps only for messages that go to this output."`
	Concurrency Concurrency    `yaml:"concurrency" default:"1" doc:"Writes in flight at once, or auto."`
	Timeout     time.Duration  `yaml:"timeout" check:"min=1ms" doc:"Time limit for one write; engine.timeout by default."`
	OnFailure   *OnFailure     `yaml:"on_failure" doc:"What happens to messages that this output failed, instead of engine.on_failure."`
	Retry       *Retry         `yaml:"retry" doc:"How a failed write is retried; omitted fields are as in engine.on_failure.retry."`
	RateLimit   *RateLimit     `yaml:"rate_limit" doc:"How many messages are written per period."`
	Breaker     *Breaker       `yaml:"breaker" doc:"When to stop writing to an output that fails, and how to probe it."`
	Place       schema.Place   `yaml:",place"`
}

// EngineSpec is the section `engine`.
type EngineSpec struct {
	Workers int       `yaml:"workers" check:"min=1" doc:"Lanes that run steps at once; the number of CPUs by default."`
	OrderBy expr.Expr `yaml:"order_by" doc:"Messages with equal keys keep their order, end to end. nil means that order does not matter: lint then does not warn if it is lost."`

	MaxInFlight struct {
		Messages int         `yaml:"messages" check:"min=1" default:"10000" doc:"Messages in flight at once."`
		Bytes    schema.Size `yaml:"bytes" check:"min=1" default:"64MiB" doc:"Bytes in flight at once, of messages as they were read and as steps have changed them. A message that a step would make longer than this fails with class too_large."`
	} `yaml:"max_in_flight" doc:"Limits on what is in flight at once; beyond them, readers wait, and so do messages that steps make longer."`

	Timeout time.Duration `yaml:"timeout" default:"30s" check:"min=1ms" doc:"Time limit for one write, or one run of a step."`

	ExactlyOnce bool `yaml:"exactly_once" doc:"Write in transactions that also settle what was read: from Kafka to Kafka, on one cluster. Consumers that read only committed messages never see duplicates."`

	TraceContext *bool `yaml:"trace_context" default:"true" doc:"Messages keep the context of a trace that they arrive with: the headers traceparent, tracestate and baggage, which outputs send on. With false, they are removed when a message is read."`

	Limits struct {
		Expression expr.Limits `yaml:"expression" doc:"Limits of one evaluation of an expression or a template; beyond them the message fails."`
	} `yaml:"limits" doc:"Limits of the work on one message."`

	OnFailure EngineFailure `yaml:"on_failure" doc:"What happens to messages that failed."`

	Drain struct {
		Timeout time.Duration `yaml:"timeout" default:"25s" check:"min=1ms" doc:"Time for a whole drain; in its last fifth, unfinished messages are returned."`
	} `yaml:"drain" doc:"How a stop is carried out."`

	RateLimit  *RateLimit   `yaml:"rate_limit" doc:"One limit over all inputs."`
	Restart    Restart      `yaml:"restart" doc:"How a failed input is restarted."`
	Env        []string     `yaml:"env" doc:"Environment variables that expressions may read, with env(NAME)."`
	Middleware []string     `yaml:"middleware" doc:"Go wrappers around every run of steps, by their registered names; the first is the outermost."`
	Place      schema.Place `yaml:",place"`
	MaxReplay  int          `yaml:"max_replay" check:"min=1" doc:"Maximum messages from the oldest unsettled to the newest read, for an input that keeps a position; beyond that the reader waits. 10 × max_in_flight.messages by default."`
}

// Unordered says that order_by is nil: the user has said that order does not matter.
func (s *EngineSpec) Unordered() bool { return s.OrderBy.String() == "nil" }

// EngineFailure is `engine.on_failure`.
type EngineFailure struct {
	OnFailure `yaml:",inline"`
	Retry     *Retry `yaml:"retry" doc:"How failed steps and writes are retried."`
}

// OnFailure says where failed messages go.
type OnFailure struct {
	Then       Then         `yaml:"then" doc:"dead_letter (to an output), return (to their source), drop (counted), or stop (the pipeline), or an expression with such a text for each message. By default dead_letter if one is named, otherwise what the source supports: return, stop or drop."`
	DeadLetter string       `yaml:"dead_letter" doc:"The output that receives failed messages, with payload, metadata and error_*."`
	Place      schema.Place `yaml:",place"`
}

// Then is what becomes of a failed message: a word, or an expression that chooses one for each message. The zero Then is
// the default.
type Then struct {
	Word   string // dead_letter, return, drop or stop
	Choose expr.Expr
}

var thenWords = schema.Words{"dead_letter", "return", "drop", "stop"}

// UnmarshalConfig reads a word or an expression.
func (t *Then) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	operator := func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }
	switch {
	case slices.Contains(thenWords, text):
		t.Word = text
	case strings.ContainsFunc(text, operator): // otherwise it is a word that is not valid
		d.Decode(n, &t.Choose)
	default:
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: fmt.Sprintf("%q is not a way to deal with a failed message", text),
			Remedy: `write dead_letter, return, drop, stop, or an expression such as error().class == "rejected" ? "drop" : "return"`})
	}
}

// DescribeConfig describes a word or an expression.
func (t *Then) DescribeConfig() *schema.Type {
	return schema.AnyOf("dead_letter, return, drop, stop or expression", thenWords, expr.Expr{})
}

// May reports whether the outcome may be word.
func (t *Then) May(word string) bool {
	return t.Word == word || strings.Contains(t.Choose.String(), `"`+word+`"`)
}

// Retry says how a failed step or write is tried again. The n-th wait is random between 0 and backoff × 2ⁿ⁻¹, at most
// max_backoff ("full jitter", see Brooker, Exponential Backoff And Jitter, 2015), or it is the n-th of intervals.
type Retry struct {
	MaxAttempts int             `yaml:"max_attempts" check:"min=0" default:"5" doc:"Total attempts, including the first; 0 means no limit."`
	Backoff     time.Duration   `yaml:"backoff" check:"min=1ms" default:"200ms" doc:"Longest first wait; doubles each time. The actual wait is random, between 0 and that."`
	MaxBackoff  time.Duration   `yaml:"max_backoff" check:"min=1ms" default:"30s" doc:"Longest wait of all."`
	MaxAge      time.Duration   `yaml:"max_age" check:"min=0s" doc:"Time since the first failure after which there are no more attempts; no limit by default."`
	Intervals   []time.Duration `yaml:"intervals" doc:"Explicit waits instead of a back-off; the last one repeats."`
	Place       schema.Place    `yaml:",place"`
}

// Over returns r with the fields that its file omits taken from another. If r has intervals, it takes no back-off; if it
// has a back-off, it takes no intervals.
func (r Retry) Over(from Retry) Retry {
	n := r.Place.Node
	if n == nil || n.Kind != schema.MapNode {
		return r // made by a program, so nothing is omitted
	}
	lacks := func(key string) bool { return n.Lookup(key) == nil }
	if lacks("max_attempts") {
		r.MaxAttempts = from.MaxAttempts
	}
	if lacks("max_age") {
		r.MaxAge = from.MaxAge
	}
	if !lacks("intervals") {
		return r
	}
	if lacks("backoff") && lacks("max_backoff") {
		r.Intervals = from.Intervals
	}
	if lacks("backoff") {
		r.Backoff = from.Backoff
	}
	if lacks("max_backoff") {
		r.MaxBackoff = from.MaxBackoff
	}
	return r
}

// Inherited returns the first of some retries, with the fields that its file omits taken from the second, and so on.
func Inherited(from ...*Retry) Retry {
	r := *from[len(from)-1]
	for _, own := range slices.Backward(from[:len(from)-1]) {
		r = own.Over(r)
	}
	return r
}

// Breaker says when to stop writing to an output that keeps failing, and how to probe it.
type Breaker struct {
	Failures   int           `yaml:"failures" check:"min=0" default:"10" doc:"Consecutive failed writes that open the breaker; 0 means never. While it is open, messages wait; they go where on_failure says only once retry.max_age is over."`
	Backoff    time.Duration `yaml:"backoff" check:"min=1ms" default:"1s" doc:"Wait before the first probe; doubles with each failed probe."`
	MaxBackoff time.Duration `yaml:"max_backoff" check:"min=1ms" default:"30s" doc:"Longest wait between probes."`
}

// Restart says how an input that has failed is opened again.
type Restart struct {
	Backoff     time.Duration `yaml:"backoff" check:"min=1ms" default:"1s" doc:"Longest first wait; doubles each time, with full jitter."`
	MaxBackoff  time.Duration `yaml:"max_backoff" check:"min=1ms" default:"30s" doc:"Longest wait of all."`
	MaxAttempts int           `yaml:"max_attempts" check:"min=0" doc:"Consecutive failures before the input is given up; 0 means no limit. A connection that lasts a second resets the count."`
}

// RateLimit is a number of messages per period, or the name of such a limit.
type RateLimit struct {
	Name     string        `yaml:"name,main" doc:"A limit in resources.rate_limits, shared by all that name it, instead of one given here."`
	Messages int           `yaml:"messages" check:"min=1" doc:"Messages per period."`
	Per      time.Duration `yaml:"per" check:"min=1ms" doc:"The period."`
	Kind     string        `yaml:"kind" check:"oneof=window|bucket" default:"window" doc:"window: no interval of this length has more, wherever it begins. bucket: the allowance grows evenly, up to burst."`
	Burst    int           `yaml:"burst" check:"min=1" doc:"Messages that a bucket lets pass at once; by default the same as messages."`
	Key      expr.Expr     `yaml:"key" doc:"A separate limit for each value of this."`
	MaxKeys  int           `yaml:"max_keys" check:"min=1" default:"100000" doc:"Values of key that have their own limit at once; further ones share one."`
	Place    schema.Place  `yaml:",place"`
}

// RateLimitStep configures the step `rate_limit`.
type RateLimitStep struct {
	RateLimit `yaml:",inline"`
	OnLimit   string `yaml:"on_limit" check:"oneof=wait|drop" default:"wait" doc:"What happens to a message beyond the limit: it waits for its turn, or it is dropped, which counts as filtered."`
}

// Plugin is a configured plugin: its type key and its configuration.
type Plugin[T any] struct {
	Name   string // the type key, such as "kafka"; "": none
	Config any
	Place  schema.Place

	make func(Env) (T, error) // instead of a registered plugin
}

// Use makes a Plugin of a Go function, for pipelines that a program builds.
func Use[T any](make func(Env) (T, error)) Plugin[T] { return Plugin[T]{Name: "go", make: make} }

// Component returns the kind of the plugin, its type key, its configuration and its place.
func (p Plugin[T]) Component() (kind, name string, config any, at schema.Place) {
	return registryOf[T]().Kind(), p.Name, p.Config, p.Place
}

// Variants are the plugins of T's kind.
func (p *Plugin[T]) Variants() schema.Variants { return registryOf[T]() }

// SetVariant sets the decoded values.
func (p *Plugin[T]) SetVariant(name string, config any, at schema.Place) {
	p.Name, p.Config, p.Place = name, config, at
}

// Names is one name or a list of names.
type Names []string

// UnmarshalConfig reads a name or a list of names.
func (s *Names) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.ListNode {
		d.Decode(n, (*[]string)(s))
		return
	}
	if text, ok := d.Text(n); ok {
		*s = Names{text}
	}
}

// DescribeConfig describes a string or a list of strings.
func (s *Names) DescribeConfig() *schema.Type {
	return schema.AnyOf("NAME or list of names", "", []string(nil))
}

// Concurrency is how many calls run at once, or [Auto].
type Concurrency int

// Auto lets the engine find the number by measuring latencies.
const Auto Concurrency = -1

// MarshalText returns the number, or auto.
func (c Concurrency) MarshalText() ([]byte, error) {
	if c == Auto {
		return []byte("auto"), nil
	}
	return strconv.AppendInt(nil, int64(c), 10), nil
}

// UnmarshalConfig reads a number or `auto`.
func (c *Concurrency) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.TextNode {
		if text, _ := d.Text(n); text == "auto" {
			*c = Auto
			return
		}
	}
	if d.Decode(n, (*int)(c)) && *c < 1 {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: "must be at least 1"})
	}
}

// DescribeConfig describes a number or auto.
func (c *Concurrency) DescribeConfig() *schema.Type {
	return schema.AnyOf("number or auto", 1, schema.Words{"auto"})
}

// Steps is a list of steps, and a config field: `do`.
type Steps []StepSpec

// OnError says what becomes of a message that a step has failed.
type OnError struct {
	Then  string // fail, continue, drop; "" is fail
	Steps Steps  // steps that repair the message; nil: Then applies
}

// UnmarshalConfig reads a word or a list of steps.
func (o *OnError) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if n.Kind == schema.ListNode {
		if d.Decode(n, &o.Steps) && len(o.Steps) == 0 {
			d.Report(n, schema.Problem{Code: schema.BadValue, Message: "the list of steps is empty",
				Remedy: "write fail, continue, drop or steps"})
		}
		return
	}
	text, ok := d.Text(n)
	if !ok {
		return
	}
	switch text {
	case "fail", "continue", "drop":
		o.Then = text
	default:
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: fmt.Sprintf("%q is not a way to deal with an error",
			text), Remedy: "write fail, continue, drop or a list of steps"})
	}
}

// DescribeConfig describes a word or a list of steps.
func (o *OnError) DescribeConfig() *schema.Type {
	return schema.AnyOf("fail, continue, drop or list of steps", schema.Words{"fail", "continue", "drop"}, Steps(nil))
}

// Build makes an instance of the plugin, without any I/O.
func (p *Plugin[T]) Build(env Env) (T, error) {
	var none T
	if env.host != nil && env.host.Wrong(p.Place) {
		return none, inside.ErrReported
	}
	if p.make != nil {
		return p.make(env)
	}
	spec := registryOf[T]().Lookup(p.Name)
	if spec == nil {
		return none, inside.ErrReported
	}
	return spec.Build(p.Config, env)
}
