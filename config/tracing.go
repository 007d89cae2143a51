package config

import (
	"time"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/schema"
)

// Tracing is `service.tracing`.
type Tracing struct {
	otlp.Client `yaml:",inline"`
	Sample      *float64              `yaml:"sample" check:"min=0,max=1" doc:"The share of messages that are traced from their input on, such as 0.01. A message that comes with a traceparent is traced if its sender has sampled it, whatever is set here. By default that of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, else 1: all."`
	SampleIf    expr.Cond             `yaml:"sample_if" doc:"Messages for which this is true when they are read are traced, too."`
	Keep        Keep                  `yaml:"keep" doc:"Messages that are traced although they are not sampled."`
	MaxSpans    int                   `yaml:"max_spans" check:"min=0" default:"50000" doc:"How many spans per second are sent at most, so that tracing leaves the processors to the pipelines. When more wait than may, no more messages are followed until some have been sent. 0: no limit."`
	Attributes  schema.Map[expr.Expr] `yaml:"attributes" doc:"Attributes of a message's span by name, with values from the message as it was read, such as order_id: order.id. No other attribute has data of the payload."`
	ErrorTexts  bool                  `yaml:"error_texts" doc:"Spans of failures have the text of the error, which may quote data, and not only its class."`

	print string // of all settings
}

// Keep is `service.tracing.keep`.
type Keep struct {
	Failed bool          `yaml:"failed" default:"true" doc:"Trace a message as soon as it fails somewhere, also if it is tried again and delivered. The spans before that are only the message's own."`
	Slower time.Duration `yaml:"slower_than" check:"min=1ms,max=720h" doc:"Send the span of a message that takes this long from its input to its end."`
}

// CheckConfig reports that this build can't trace.
func (t *Tracing) CheckConfig(report func(path, message, remedy string)) {
	t.Client.CheckConfig(report)
	if builds.Lacks("otel") {
		report("", "tracing is not part of this build of flowd", builds.Remedy("otel"))
	}
}

// Same reports whether two sections have the same settings. nil stands for no section.
func (t *Tracing) Same(other *Tracing) bool {
	return t == nil && other == nil || t != nil && other != nil && t.print == other.print
}
