package registry

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// Writes configures the schema that payloads are written with. The options of formats inline it.
type Writes struct {
	Registry engine.RegistryName `yaml:"registry" doc:"Registry from resources.registries; payloads begin with its schema ids."`
	Subject  expr.Template       `yaml:"subject" doc:"Subject of the schema, such as orders-value; by default as subject_name specifies."`
	Naming   string              `yaml:"subject_name" check:"oneof=topic|record|topic_record" default:"topic" doc:"How to name a subject that is not given: topic is TOPIC-value, record the full name of the schema's record or message, topic_record TOPIC-NAME."`
	Topic    expr.Template       `yaml:"topic" doc:"Topic for the subject's name; meta(\"topic\") by default."`
	Register bool                `yaml:"register" doc:"Add the schema to its subject if it is not there and the registry finds it compatible. By default such a schema fails the messages: those who may read them decide on schemas."`
}

// CheckConfig reports what can't work.
func (w *Writes) CheckConfig(report func(path, message, remedy string)) {
	named := !w.Subject.IsZero() || !w.Topic.IsZero() || w.Register || w.Naming != "topic"
	switch {
	case w.Registry == "" && named:
		report("", "a subject needs a registry, and there is none", "set `registry`, or remove the fields about subjects")
	case !w.Subject.IsZero() && (!w.Topic.IsZero() || w.Naming != "topic"):
		report("subject", "there is a subject, and a way to name it, too", "keep `subject`, or `subject_name` and `topic`")
	}
}

var metaTopic = sync.OnceValue(func() *expr.Template {
	t := expr.MustTemplate(`$(meta("topic"))`)
	return &t
})

// Writer finds the schema to write a message with. It is safe for concurrent use.
type Writer[T any] struct {
	cfg      *Writes
	registry engine.SchemaRegistry
	compiled *Compiled[T]
	own      *engine.Schema // nil: the newest of the subject
	record   string         // its full name
}

// NewWriter makes a writer. own is the schema to write with, or nil. record is the name of its record.
func NewWriter[T any](cfg *Writes, c *Compiled[T], own *engine.Schema, record string) (*Writer[T], error) {
	if own == nil && cfg.Subject.IsZero() && cfg.Naming != "topic" {
		return nil, fmt.Errorf("without a schema there is no name for `subject_name: %s` (give the schema, or `subject`)", cfg.Naming)
	}
	if own == nil && cfg.Register {
		return nil, fmt.Errorf("there is no schema to register (give it, or remove `register`)")
	}
	return &Writer[T]{cfg: cfg, registry: c.registry, compiled: c, own: own, record: record}, nil
}

// Of returns the schema for a message.
func (w *Writer[T]) Of(ctx context.Context, m *engine.Message) (Entry[T], error) {
	subject, err := w.subject(m)
	if err != nil {
		return Entry[T]{}, err
	}
	if strings.Trim(subject, ".") == "" { // dots could lead elsewhere in the registry's URL
		return Entry[T]{}, engine.Errorf(engine.Permanent, "%q can't be the subject of a schema", subject)
	}
	var s *engine.Schema
	switch {
	case w.own == nil:
		s, err = w.registry.Newest(ctx, subject)
	case w.cfg.Register:
		s, err = w.registry.Register(ctx, subject, *w.own)
	default:
		s, err = w.registry.Find(ctx, subject, *w.own)
	}
	if err != nil {
		return Entry[T]{}, err
	}
	e, err := w.compiled.Make(s)
	return e, engine.WithClass(engine.Permanent, err)
}

func (w *Writer[T]) subject(m *engine.Message) (string, error) {
	if text, ok := w.cfg.Subject.Const(); ok && text != "" {
		return text, nil
	}
	if !w.cfg.Subject.IsZero() {
		return w.cfg.Subject.Text(m)
	}
	if w.cfg.Naming == "record" {
		return w.record, nil
	}
	from := &w.cfg.Topic
	if from.IsZero() {
		from = metaTopic()
	}
	topic, err := from.Text(m)
	if err != nil {
		return "", fmt.Errorf("the topic of the schema's subject: %w", err)
	}
	if w.cfg.Naming == "topic_record" {
		return topic + "-" + w.record, nil
	}
	return topic + "-value", nil
}
