// Package metric is the processor `metric`: it counts and measures messages in metrics that the pipeline defines.
// Start at [Config].
package metric

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/operations/metrics"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the metric processor.
type Config struct {
	Counter   *string               `yaml:"counter" oneof:"kind" doc:"Name of a counter, to which value is added."`
	Gauge     *string               `yaml:"gauge" oneof:"kind" doc:"Name of a gauge, which is set to value."`
	Histogram *string               `yaml:"histogram" oneof:"kind" doc:"Name of a histogram, which observes value."`
	Value     expr.Expr             `yaml:"value" doc:"A number, or a duration, which is converted to seconds. For a counter the default is 1."`
	Labels    schema.Map[expr.Expr] `yaml:"labels" doc:"Labels by name: text, numbers, true or false; nil is an empty label. Values longer than 256 bytes are truncated."`
	MaxSeries int                   `yaml:"max_series" check:"min=1" doc:"Maximum number of label sets that are counted separately. Others are counted together, with every label \"other\"."`
	Buckets   []float64             `yaml:"buckets" doc:"Upper bounds of a histogram's buckets, ascending; by default 0.005 to 10, for seconds."`
}

var defaults = Config{MaxSeries: 1000}

const help = `
Counts or measures messages in your own Prometheus metric. flowd exposes it with its
own metrics; the message continues unchanged. Steps that name the same metric share it,
across all pipelines of the process.

    - metric: {counter: orders_total}
    - metric: {counter: shop_revenue_total, value: total, labels: {country: country}}
    - metric: {histogram: shop_order_age_seconds, value: now() - received_at()}

A negative value for a counter fails the message, and so does a value that is not a
number.
`

func init() {
	engine.Register(engine.Processors, "metric", help, defaults, build)
}

// spec returns the configured metric, with its labels not yet sorted.
func (c *Config) spec() metrics.Spec {
	s := metrics.Spec{MaxSeries: c.MaxSeries, Buckets: c.Buckets}
	switch {
	case c.Counter != nil:
		s.Name, s.Kind = *c.Counter, metrics.Counter
	case c.Gauge != nil:
		s.Name, s.Kind = *c.Gauge, metrics.Gauge
	case c.Histogram != nil:
		s.Name, s.Kind = *c.Histogram, metrics.Histogram
	}
	return s
}

// CheckConfig rejects what Prometheus would not accept.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	s := c.spec()
	if err := metrics.CheckName(s.Name); err != nil {
		report(string(s.Kind), err.Error(), "")
	}
	for name := range c.Labels.All() {
		if err := metrics.CheckLabel(name, s.Kind); err != nil {
			report("labels."+name, err.Error(), "")
		}
	}
	if c.Value.IsZero() && s.Kind != metrics.Counter {
		report("value", fmt.Sprintf("a %s needs a value", s.Kind), "add `value: EXPRESSION`")
	}
	if len(c.Buckets) > 0 && s.Kind != metrics.Histogram {
		report("buckets", fmt.Sprintf("a %s has no buckets", s.Kind), "remove them, or make it a histogram")
	}
	if err := metrics.CheckBuckets(c.Buckets); err != nil {
		report("buckets", err.Error(), "")
	}
}

func build(c Config, env engine.Env) (engine.Processor, error) {
	p := &step{spec: c.spec(), value: c.Value, env: env}
	for name, value := range c.Labels.All() {
		p.labels = append(p.labels, label{name, value})
	}
	slices.SortFunc(p.labels, func(a, b label) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
	for _, l := range p.labels {
		p.spec.Labels = append(p.spec.Labels, l.name)
	}
	var err error
	if p.metric, err = metrics.Declare(env.Shared, p.spec); err != nil {
		return nil, err
	}
	if len(p.labels) == 0 { // shows the metric before the first message
		p.only, err = p.metric.Series(nil, env.Log)
	}
	return p, err
}

type step struct {
	spec   metrics.Spec
	metric *metrics.Metric
	value  expr.Expr
	labels []label        // sorted by name
	only   metrics.Record // of a metric without labels
	env    engine.Env
}

type label struct {
	name  string
	value expr.Expr
}

// Process records the messages of a batch. Consecutive messages with equal labels share one look-up.
func (p *step) Process(_ context.Context, b *engine.Batch) error {
	if p.value.IsZero() && p.only != nil {
		n := 0
		for range b.All() {
			n++
		}
		p.only(float64(n))
		return nil
	}
	record := p.only
	var key, last []byte
	for m := range b.All() {
		v, err := p.number(m)
		if err == nil {
			key, err = p.key(key[:0], m)
		}
		if err == nil && (record == nil || !bytes.Equal(key, last)) {
			record, err = p.metric.Series(key, p.env.Log)
			last = append(last[:0], key...)
		}
		if err != nil {
			m.Fail(err)
			continue
		}
		record(v)
	}
	return nil
}

// number returns the value of a message.
func (p *step) number(m *engine.Message) (float64, error) {
	if p.value.IsZero() {
		return 1, nil
	}
	v, err := p.value.Eval(m)
	if err != nil {
		return 0, err
	}
	var f float64
	switch v := v.(type) {
	case int:
		f = float64(v)
	case float64:
		f = v
	case doc.Number:
		f, err = strconv.ParseFloat(string(v), 64)
	case time.Duration:
		f = v.Seconds()
	default:
		err = fmt.Errorf("it is %s", describe(v))
	}
	switch {
	case err != nil || math.IsNaN(f) || math.IsInf(f, 0):
		return 0, engine.Errorf(engine.Expression,
			"value of metric %s: %s is %s, not a number (if that is intended, guard the step with `when`)", p.spec.Name,
			p.value.String(), describe(v))
	case f < 0 && p.spec.Kind == metrics.Counter:
		return 0, engine.Errorf(engine.Expression,
			"value of counter %s is %v: a counter only grows (use a gauge, or guard the step with `when`)", p.spec.Name,
			f)
	}
	return f, nil
}

// describe names the kind of a value, but not the value itself.
func describe(v any) string {
	text, err := doc.Append(nil, v)
	if err != nil {
		return "out of range"
	}
	return doc.Kind(text).String()
}

// key appends the values of all labels, with separators.
func (p *step) key(dst []byte, m *engine.Message) ([]byte, error) {
	for i := range p.labels {
		if i > 0 {
			dst = append(dst, 0xff)
		}
		start := len(dst)
		l := &p.labels[i]
		var ok bool
		var err error
		dst, ok, err = l.value.AppendKey(dst, m)
		if err != nil {
			return dst, err
		}
		if !ok {
			continue // nil: empty
		}
		text, err := l.text(dst[start:])
		if err != nil {
			return dst, err
		}
		dst = append(dst[:start], text...)
	}
	return dst, nil
}

// text converts JSON text to a label's value.
func (l *label) text(raw []byte) ([]byte, error) {
	switch k := doc.Kind(raw); {
	case k == doc.Array || k == doc.Object:
		return nil, engine.Errorf(engine.Expression, "label %s is %s, not text, a number, true or false", l.name, k)
	case k == doc.String && bytes.IndexByte(raw, '\\') >= 0:
		raw = []byte(doc.Unquote(raw))
	case k == doc.String:
		raw = raw[1 : len(raw)-1]
	}
	return metrics.ClipLabel(raw), nil
}
