// Package polling has the strategies of the input `poll`, which decide which of its sources is read next. Programs can
// register their own in [Strategies]. Start at [Strategy].
package polling

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Source is a source of a `poll` input, as a [Strategy] sees it.
type Source struct {
	Name   string
	Weight int  // at least 1
	Busy   bool // it is being read, or its messages wait for free slots
	State  any  // for the strategy's own use
}

// Strategy decides which source of a `poll` input gets the next free slot, which is room for one message. It serves one
// input, which calls it from one goroutine at a time. It has no clock and does no I/O. Sources may come and go, so a
// strategy keeps its data about a source in Source.State.
type Strategy interface {
	// Next returns one of the open sources that is not busy, or nil if none should be read now. The sources are in the
	// order of the configuration, without those that pause or that wait for a first message. The slice is valid until Next
	// returns.
	Next(now time.Time, open []*Source) *Source
	// Found is called when a read of s has brought n messages.
	Found(s *Source, n int)
	// Empty is called when a read of s has brought no messages, or still waits for a first one.
	Empty(s *Source)
	// Done is called when n messages of s have ended.
	Done(s *Source, n int)
}

// Strategies are the values of the field `strategy` of the input `poll`. They have no configuration.
var Strategies = engine.NewRegistry[Strategy]("strategy", map[string]string{
	"WeightedRoundRobin": "write `weighted_round_robin`", "StrictPriority": "write `strict_priority`",
	"round_robin": "write `weighted_round_robin`", "priority": "write `strict_priority`",
})

// Name is a config field that names one of [Strategies].
type Name string

// New makes the strategy.
func (s Name) New(env engine.Env) (Strategy, error) {
	spec := Strategies.Lookup(string(s))
	if spec == nil {
		return nil, s.unknown()
	}
	return spec.Build(nil, env)
}

// UnmarshalConfig reads a name.
func (s *Name) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	text, ok := d.Text(n)
	if !ok {
		return
	}
	if *s = Name(text); Strategies.Lookup(text) == nil {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: s.unknown().Error(), Remedy: s.remedy()})
	}
}

func (s Name) unknown() error {
	return fmt.Errorf("no strategy %q is compiled in", string(s))
}

func (s Name) remedy() string {
	if near := schema.Nearest(string(s), Strategies.Names()); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return cmp.Or(Strategies.Remedy(string(s)), "compiled in are: "+strings.Join(Strategies.Names(), ", "))
}

// DescribeConfig describes a name.
func (s *Name) DescribeConfig() *schema.Type {
	return schema.AnyOf("NAME of a strategy", "")
}

// Plan is how an input polls its sources according to its configuration, for commands that show their order.
type Plan struct {
	Strategy   Name
	Sources    []*Source // in the order of the configuration
	EmptyPause time.Duration
}
