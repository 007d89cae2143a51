// Package polling has the strategies of the input `poll`: which of its sources gets the next free slot.
// Programs register their own in [Strategies].
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
	Busy   bool // it reads already, or what it has read waits for slots
	State  any  // what the strategy keeps of it
}

// Strategy says which source of a `poll` input gets the next free slot, which is
// room for one message. It serves one input: one call at a time, without a clock
// and without I/O. Sources may come and go, so what it knows of one it keeps
// in Source.State.
type Strategy interface {
	// Next picks one of the sources that is not busy, or nil: none for now. They are in the
	// order written. Those that pause, or wait for a first message, are not among them; the
	// slice is valid until Next returns.
	Next(now time.Time, open []*Source) *Source
	// Found says that a read of s gave n messages.
	Found(s *Source, n int)
	// Empty says that a read of s gave nothing, or still waits for a first message.
	Empty(s *Source)
	// Done says that n messages of s have reached their fate.
	Done(s *Source, n int)
}

// Strategies are the words for `strategy` of the input poll: they have no configuration.
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

// DescribeConfig is a word.
func (s *Name) DescribeConfig() *schema.Type {
	return schema.AnyOf("NAME of a strategy", "")
}

// Plan is what the configuration of an input that polls sources says of them,
// for who shows in which order it does.
type Plan struct {
	Strategy   Name
	Sources    []*Source // in the order written
	EmptyPause time.Duration
}
