package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// Steps is a config field: a list of steps that can be sent to another process.
type Steps struct {
	Steps engine.Steps
	Bound string // a function that they call and that means nothing in another process; "": none

	node   *schema.Node
	lookup schema.Lookup
	limits *expr.Limits      // of its pipeline
	lists  *engine.StepLists // that the steps may use
}

// UnmarshalConfig decodes a list of steps.
func (s *Steps) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	calls := schema.Shared[expr.Calls](d)
	before := len(*calls)
	if d.Decode(n, &s.Steps) && len(s.Steps) == 0 {
		d.Report(n, schema.Problem{Code: schema.BadValue, Message: "the list of steps is empty"})
	}
	for _, c := range (*calls)[before:] {
		if c.Bound {
			s.Bound = c.Name
		}
	}
	s.node, s.lookup, s.limits = d.Bound(n), d.Lookup(), schema.Shared[expr.Limits](d)
	s.lists = schema.Shared[engine.StepLists](d)
}

// DescribeConfig describes a list of steps.
func (s *Steps) DescribeConfig() *schema.Type {
	return schema.AnyOf("list of steps", engine.Steps(nil))
}

// Stage is what a worker must know about a pool: its steps as they are written, with the
// lists that they use and the values of the placeholders in them. A worker looks up nothing
// itself.
type Stage struct {
	Steps       *schema.Node
	Lists       map[string]*schema.Node `json:",omitempty"` // definitions of resources.steps, by name
	Values      map[string][]byte       `json:",omitempty"` // of placeholders, which need not be UTF-8
	Whole       bool                    // jobs are whole batches
	StepTimeout time.Duration           // of steps that have none of their own
	ExprMemory  int64                   `json:",omitempty"` // limits of an evaluation, see expr.Limits
	ExprSteps   int                     `json:",omitempty"`
	Timeout     time.Duration           // of a try
	Lease       time.Duration
}

// Stage returns what a worker needs for the steps.
func (s *Steps) Stage(whole bool, timeout time.Duration) (*Stage, error) {
	if s.node == nil {
		return nil, fmt.Errorf("only steps from a file can be sent to another process")
	}
	stage := &Stage{Steps: s.node, Whole: whole, StepTimeout: timeout, Values: map[string][]byte{}}
	stage.ExprMemory, stage.ExprSteps = int64(s.limits.Memory), s.limits.Steps
	d := schema.NewDecoder(func(name string) (string, bool, error) {
		value, ok, err := s.lookup(name)
		if ok {
			stage.Values[name] = []byte(value)
		}
		return value, ok, err
	})
	lists := schema.Shared[engine.StepLists](d)
	lists.Defined = s.lists.Defined
	stage.decode(d, s.node)
	stage.Lists = map[string]*schema.Node{}
	for _, u := range lists.Uses {
		stage.Lists[u.List.Name] = u.List.Node
	}
	return stage, nil
}

// decode reads the steps as in their own place: expressions of batches are known where
// there are batches.
func (s *Stage) decode(d *schema.Decoder, n *schema.Node) engine.Steps {
	at := &schema.Node{Kind: schema.MapNode, Pos: n.Pos,
		Keys: []*schema.Node{{Kind: schema.TextNode, Text: "do", Pos: n.Pos}}, Items: []*schema.Node{n}}
	if s.Whole {
		var of struct {
			Do engine.Steps `yaml:"do" scope:"batch"`
		}
		d.Decode(at, &of)
		return of.Do
	}
	var of struct {
		Do engine.Steps `yaml:"do"`
	}
	d.Decode(at, &of)
	return of.Do
}

// whole reports whether a node is one that a hub has sent.
func whole(n *schema.Node) bool {
	if n == nil || n.Kind > schema.MapNode || n.Kind == schema.MapNode && len(n.Keys) != len(n.Items) ||
		!wholeParams(n.Params) {
		return false
	}
	part := func(n *schema.Node) bool { return !whole(n) }
	return !slices.ContainsFunc(n.Keys, part) && !slices.ContainsFunc(n.Items, part)
}

// wholeParams says the same of the values of parameters.
func wholeParams(p *schema.Params) bool {
	for ; p != nil; p = p.Outer {
		for _, v := range p.By {
			if v.Value != nil && !whole(v.Value) || v.As > schema.AsCode {
				return false
			}
		}
	}
	return true
}

// Sealed returns the stage as it travels, and its hash, by which jobs name it.
func (s *Stage) Sealed() (text []byte, hash string) {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // there is nothing in it that has no JSON
	}
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:])
}

// Unseal reads a stage and checks its hash.
func Unseal(text []byte, hash string) (*Stage, error) {
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("the configuration of the pool does not match its hash")
	}
	s := &Stage{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("the configuration of the pool: %w", err)
	}
	for _, n := range s.Lists {
		if !whole(n) {
			return nil, fmt.Errorf("the configuration of the pool has a list of steps that is not complete")
		}
	}
	if !whole(s.Steps) || s.Lease < time.Millisecond || s.Timeout <= 0 {
		return nil, fmt.Errorf("the configuration of the pool is not complete")
	}
	return s, nil
}

// Build makes the steps, which are still to be opened, and adds what is secret in them.
func (s *Stage) Build(pool string, log *slog.Logger, secrets *schema.Secrets) (*runtime.Apart, error) {
	d := schema.NewDecoder(func(name string) (string, bool, error) {
		value, ok := s.Values[name]
		return string(value), ok, nil
	})
	d.Hide(secrets)
	*schema.Shared[expr.Limits](d) = expr.Limits{Memory: schema.Size(s.ExprMemory), Steps: s.ExprSteps}
	for name, n := range s.Lists {
		schema.Shared[engine.StepLists](d).Define(name, n)
	}
	steps := s.decode(d, s.Steps)
	if err := first(d.Problems()); err != nil {
		return nil, err
	}
	env := engine.Env{Log: log, Pipeline: pool, Shared: &engine.Shared{}, Secrets: d.Secrets()}
	a, problems := runtime.BuildApart(steps, env, s.Whole, s.StepTimeout)
	if err := first(problems); err != nil {
		return nil, err
	}
	return a, nil
}

// first returns the first problem that is not only a warning.
func first(problems []schema.Problem) error {
	for _, p := range problems {
		if !p.Warning {
			return errors.New(p.String())
		}
	}
	return nil
}
