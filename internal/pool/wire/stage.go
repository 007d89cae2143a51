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

// Steps is a config field with steps that can be sent to another process.
type Steps struct {
	Steps engine.Steps
	Bound string // a function in them that does not work in another process, or ""

	node   *schema.Node
	lookup schema.Lookup
	limits *expr.Limits      // of its pipeline
	lists  *engine.StepLists // lists that the steps may use
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

// Stage is what a worker must know about a pool: its steps as written, with the lists that they use and the values of
// their placeholders. A worker looks up nothing itself.
type Stage struct {
	Steps       *schema.Node
	Lists       map[string]*schema.Node `json:",omitempty"` // definitions of resources.steps, by name
	Values      map[string][]byte       `json:",omitempty"` // of placeholders; may not be UTF-8
	Whole       bool                    // a job is a whole batch
	StepTimeout time.Duration           // of steps without a timeout of their own
	ExprMemory  int64                   `json:",omitempty"` // limits of an evaluation, see expr.Limits
	ExprSteps   int                     `json:",omitempty"`
	Timeout     time.Duration           // of an attempt
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

// decode decodes the steps as in their original place: in batch steps, expressions about batches are allowed.
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

// isComplete reports whether a node is valid as sent by a hub.
func isComplete(n *schema.Node) bool {
	if n == nil || n.Kind > schema.MapNode || n.Kind == schema.MapNode && len(n.Keys) != len(n.Items) ||
		!paramsComplete(n.Params) {
		return false
	}
	part := func(n *schema.Node) bool { return !isComplete(n) }
	return !slices.ContainsFunc(n.Keys, part) && !slices.ContainsFunc(n.Items, part)
}

// paramsComplete reports the same of the values of parameters.
func paramsComplete(p *schema.Params) bool {
	for ; p != nil; p = p.Outer {
		for _, v := range p.By {
			if v.Value != nil && !isComplete(v.Value) || v.As > schema.AsCode {
				return false
			}
		}
	}
	return true
}

// Sealed returns the encoded stage, and the hash by which jobs refer to it.
func (s *Stage) Sealed() (text []byte, hash string) {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // everything in it has a JSON form
	}
	sum := sha256.Sum256(text)
	return text, hex.EncodeToString(sum[:])
}

// Unseal decodes a stage and checks its hash.
func Unseal(text []byte, hash string) (*Stage, error) {
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("the configuration of the pool does not match its hash")
	}
	s := &Stage{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("the configuration of the pool: %w", err)
	}
	for _, n := range s.Lists {
		if !isComplete(n) {
			return nil, fmt.Errorf("the configuration of the pool has a list of steps that is not complete")
		}
	}
	if !isComplete(s.Steps) || s.Lease < time.Millisecond || s.Timeout <= 0 {
		return nil, fmt.Errorf("the configuration of the pool is not complete")
	}
	return s, nil
}

// Build makes the steps, which the caller opens, and adds their secrets to secrets.
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
	problems := d.Problems()
	for i, p := range problems {
		if p.Code == schema.UnknownType {
			problems[i].Remedy += "; if it comes from a plugin.yaml, start the worker with --plugins, too"
		}
	}
	if err := first(problems); err != nil {
		return nil, err
	}
	env := engine.Env{Log: log, Pipeline: pool, Shared: &engine.Shared{}, Secrets: d.Secrets()}
	a, problems := runtime.BuildApart(steps, env, s.Whole, s.StepTimeout)
	if err := first(problems); err != nil {
		return nil, err
	}
	return a, nil
}

// first returns the first problem that is not a warning.
func first(problems []schema.Problem) error {
	for _, p := range problems {
		if !p.Warning {
			return errors.New(p.String())
		}
	}
	return nil
}
