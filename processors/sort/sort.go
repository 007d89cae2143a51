// Package sort is the batch step `sort`: it orders the messages of a batch.
// Start at [Config].
package sort

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
)

// Config configures the sort step.
type Config struct {
	By   expr.Expr `yaml:"by,main" check:"required" doc:"The value to sort by."`
	Desc bool      `yaml:"desc" doc:"Reverse the order: largest first."`
}

const help = `
Sorts the messages of a batch, smallest first. Messages with equal values keep their
order, so of several sorts the last takes precedence.

Values of different kinds have an order, too: nil comes first, then false, true,
numbers, text (by its bytes), times, durations. Lists and objects have no order: their
message fails, and the others are sorted.

    batchers:
      all:
        batch: {size: 100, timeout: 1s}
        processors:
          - sort: created_at
          - sort: {by: total * rate, desc: true}
        output: out
`

func init() {
	engine.Register(engine.Processors, "sort", help, Config{}, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) { return &sorter{c}, nil }

type sorter struct{ Config }

// keyed is a message with its sort key.
type keyed struct {
	message *engine.Message
	rank    rank
	value   any
}

// Traits reports that the step needs whole batches.
func (*sorter) Traits() engine.Traits { return engine.Traits{WholeBatches: true} }

// Process sorts the messages that have a value.
func (s *sorter) Process(_ context.Context, b *engine.Batch) error {
	all := make([]keyed, 0, b.Len())
	for m := range b.All() {
		v, err := s.By.Eval(m)
		if err != nil {
			m.Fail(err)
			continue
		}
		r := rankOf(v)
		if r == none {
			m.Fail(engine.Errorf(engine.Expression, "%s gives %s, which can't be ordered (sort by one of its values)",
				s.By.String(), kind(v)))
			continue
		}
		all = append(all, keyed{m, r, v})
	}
	compare := keyed.compare
	if s.Desc {
		compare = func(x, y keyed) int { return y.compare(x) }
	}
	if slices.IsSortedFunc(all, compare) {
		return nil
	}
	slices.SortStableFunc(all, compare)
	b.Order(func(yield func(*engine.Message) bool) {
		for i := range all {
			if !yield(all[i].message) {
				return
			}
		}
	})
	return nil
}

func (x keyed) compare(y keyed) int {
	if x.rank != y.rank {
		return cmp.Compare(x.rank, y.rank)
	}
	c, _ := expr.Order(x.value, y.value) // values without an order are equal: nil, false, true
	return c
}

// rank orders values of different kinds.
type rank uint8

const (
	none rank = iota
	nothing
	no
	yes
	number
	text
	instant
	duration
)

func rankOf(v any) rank {
	switch v := v.(type) {
	case nil:
		return nothing
	case bool:
		if v {
			return yes
		}
		return no
	case int, float64, doc.Number:
		return number
	case string:
		return text
	case time.Time:
		return instant
	case time.Duration:
		return duration
	}
	return none
}

// kind names a value that can't be ordered.
func kind(v any) string {
	switch v.(type) {
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a time zone"
}
