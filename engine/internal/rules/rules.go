package rules

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

func init() {
	for name, doc := range map[string]string{
		"bad-limit":     "A rate limit lacks a field, or has fields that exclude each other.",
		"archive-lines": "A batch becomes a text of many lines, and its output writes one line for each message.",
		"at-most-once": "A source keeps no messages, or gets acknowledgements before they are delivered: what is lost in a crash is " +
			"gone.",
		"cache-order":            "Steps read and write a cache, and nothing orders the messages for which that matters.",
		"composite-key":          "An output that consists of others has a key that belongs to its members.",
		"dead-letter-on-failure": "A dead-letter output has its own on_failure.",
		"exactly-once":           "engine.exactly_once asks for what a component can't do.",
		"inner-retry":            "A step inside another has its own retry.",
		"never-full":             "A batch or group is larger than what may be in flight at once.",
		"never-matches":          "A batcher's condition is constant and false.",
		"no-batchers":            "There are several outputs, and nothing says which message goes where.",
		"no-catch-all":           "A message that no batcher matches fails; there is no batcher for the rest.",
		"no-dead-letter":         "Failed messages should become dead letters, but no dead-letter output is named.",
		"no-input":               "A pipeline has no input.",
		"no-output":              "A pipeline, or a batcher, has no output.",
		"no-route":               "Every output is a dead letter: messages that do not fail have nowhere to go.",
		"open-listener":          "An input listens beyond this machine and accepts messages from anyone.",
		"order-parted":           "A batch key separates messages that order_by keeps together.",
		"output-cycle":           "An output contains itself.",
		"repeated-output":        "A batcher, or an output, names an output twice.",
		"retry-contradiction":    "Two fields of a retry, a breaker or a restart contradict each other.",
		"small-replay":           "max_replay is smaller than what may be in flight.",
		"state-apart":            "Steps keep state of one name by one key, and do not share it.",
		"state-order":            "A step keeps state by a key, and nothing orders the messages of a key.",
		"unknown-middleware":     "No middleware of this name is in this build.",
		"unreachable-batcher":    "The batchers before it take every message.",
		"unused-dead-letter":     "A dead letter is named, but failed messages go elsewhere.",
		"unused-interval":        "A retry lists more waits than it uses.",
		"unused-output":          "Nothing is ever sent to an output.",
		"unused-retry":           "A dead letter's attempts have no limit, but a retry sets one.",
	} {
		schema.AddCode(name, doc)
	}
}

// rules judge one pipeline as it is configured, before anything is built. They go by what
// is written, so that a component with a mistake inside is still one that can be named.
// What several pipelines may only have once, and names of resources, are config's.
type rules struct {
	spec     *engine.Pipeline
	given    *Given
	outputs  []string // by name
	problems []schema.Problem
}

// Given is what a process gives to its pipelines, as far as rules go by it.
type Given struct {
	Caches map[string]engine.Plugin[engine.Cache] // resources.caches
	Limits map[string]engine.RateLimit            // resources.rate_limits
}

// All reports what is wrong with a pipeline, in itself and with what it is given.
func All(p *engine.Pipeline, g *Given) []schema.Problem {
	r := newRules(p, g)
	r.judge()
	r.limits()
	r.exposed()
	r.exactlyOnce()
	return r.problems
}

// MembersOf names the outputs that others of a section consist of.
func MembersOf(outputs schema.Map[engine.OutputSpec]) map[string]bool {
	members := map[string]bool{}
	for _, o := range outputs.All() {
		for _, name := range engine.TraitsOf(o.Use.Config).Members {
			members[name] = true
		}
	}
	return members
}

// Judge reports what is wrong with a pipeline in itself, whatever its inputs are and its
// resources hold: a test replaces those. [All] reports that as well, and what is wrong
// with the rest.
func Judge(p *engine.Pipeline) []schema.Problem {
	r := newRules(p, &Given{})
	r.judge()
	return r.problems
}

func newRules(p *engine.Pipeline, o *Given) *rules {
	r := &rules{spec: p, given: o}
	for name := range p.Outputs.All() {
		r.outputs = append(r.outputs, name)
	}
	if n := r.find("outputs"); n != nil {
		r.outputs = nil
		for _, key := range n.Keys { // those that can't be read included
			r.outputs = append(r.outputs, key.Text)
		}
	}
	return r
}

func (r *rules) judge() {
	r.routes()
	r.failures()
	r.retries()
	r.fill()
	r.lines()
	r.middleware()
}

func (r *rules) complain(at schema.Place, p schema.Problem) {
	r.problems = append(r.problems, at.Problem(p))
}

// at is the place of a value that is written in the pipeline, or what is around it.
func (r *rules) at(keys ...string) schema.Place { return r.root().At(keys...) }

// key is at, but for a key.
func (r *rules) key(keys ...string) schema.Place { return r.root().Key(keys...) }

// within is the place of a field or, where that is left out, of what is around it.
func within(at schema.Place, field string) schema.Place {
	if at.Node.Find(field) == nil {
		return at
	}
	return at.At(field)
}

// find is a value that is written in the pipeline, or nil.
func (r *rules) find(keys ...string) *schema.Node { return r.spec.Place.Node.Find(keys...) }

func (r *rules) root() schema.Place { return schema.Place{Node: r.spec.Place.Node} }

// middleware refuses names under which nothing is registered.
func (r *rules) middleware() {
	known := engine.Middlewares.Names()
	for i, name := range r.spec.Engine.Middleware {
		if name != "" && !slices.Contains(known, name) { // the decoder complains of ""
			r.complain(r.at("engine", "middleware").Item(i), schema.Problem{Code: "unknown-middleware",
				Message: fmt.Sprintf("this build has no middleware %q", name),
				Remedy:  schema.Suggest(name, known, "use a build that registers it")})
		}
	}
}

// exposed warns of inputs that tell their source too early, of those whose source keeps nothing, and of those to which
// anybody on the network may send messages.
func (r *rules) exposed() {
	for _, c := range Components(r.spec) {
		t := engine.TraitsOf(c.Config)
		if t.AcksEarly {
			r.warn(c, "early_ack", schema.Problem{Code: "at-most-once",
				Message: "messages are acknowledged when they are read: one that fails later, or is lost in a crash, is not delivered again",
				Remedy:  "remove it if every message counts"})
		}
		if t.Forgets {
			r.warn(c, "", schema.Problem{Code: "at-most-once",
				Message: "messages are delivered at most once: the source keeps none, so that what arrives while nothing reads, or is lost in a " +
					"crash, is gone",
				Remedy: "write `at_most_once: true` if that is meant, or read a source that keeps messages, such as a stream"})
		}
		if t.Exposed {
			r.warn(c, "listen", schema.Problem{Code: "open-listener",
				Message: "it listens beyond this machine and accepts messages from anyone",
				Remedy:  "set auth, or listen on 127.0.0.1"})
		}
	}
}

// warn warns of a component, at a field of it where that is written.
func (r *rules) warn(c Component, field string, p schema.Problem) {
	p.Warning = true
	r.complain(within(c.Place, field), p)
}

// Fails says whether a problem is an error of the pipeline; one without a line, as in an
// override, concerns all.
func Fails(p *engine.Pipeline, k schema.Problem) bool {
	return !k.Warning && (k.Pos.Line == 0 || k.Pos.File == p.Place.Pos.File)
}

// Wrong are the places, by file and path, of components and rate limits with a mistake
// of their own: there is no use in building them.
func Wrong(p *engine.Pipeline, o *Given, known []schema.Problem) map[schema.Place]bool {
	if !slices.ContainsFunc(known, func(k schema.Problem) bool { return !k.Warning }) {
		return nil
	}
	var places []schema.Place
	learn := func(v any) {
		for _, c := range Components(v) {
			places = append(places, c.Place)
		}
		schema.Walk(v, func(x reflect.Value) {
			if l, ok := reflect.TypeAssert[engine.RateLimit](x); ok {
				places = append(places, l.Place)
			}
		})
	}
	learn(p)
	learn(o.Limits)
	learn(slices.Collect(maps.Values(o.Caches)))
	wrong := map[schema.Place]bool{}
	for _, k := range known {
		var inner schema.Place // the innermost that holds the mistake
		for _, at := range places {
			switch here := k.Pos.Line == 0 || k.Pos.File == at.Pos.File; {
			case k.Warning || !here || at.Path == "":
			case schema.Within(at.Path, k.Path):
				wrong[Placed(at)] = true
			case schema.Within(k.Path, at.Path) && len(at.Path) > len(inner.Path):
				inner = at
			}
		}
		if inner.Path != "" {
			wrong[Placed(inner)] = true
		}
	}
	return wrong
}

// Placed is a place as a key.
func Placed(at schema.Place) schema.Place {
	return schema.Place{Pos: schema.Pos{File: at.Pos.File}, Path: at.Path}
}
