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
		"bad-limit":              "A rate limit lacks a field, or has fields that exclude each other.",
		"archive-lines":          "A batch becomes a multi-line text, and its output writes one line per message.",
		"at-most-once":           "Messages that a crash loses are gone: the source keeps none, or is told of success before delivery.",
		"cache-order":            "Steps read and write the same cache entries, and nothing keeps their messages in order.",
		"composite-key":          "An output that consists of others has a key that belongs to its members.",
		"breaker-holds":          "The breaker of an output with a dead letter of its own holds messages back from it.",
		"dead-letter-on-failure": "A dead-letter output has its own on_failure.",
		"exactly-once":           "A component can't do what engine.exactly_once asks for.",
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
		"small-replay":           "max_replay is smaller than max_in_flight.messages.",
		"state-apart":            "Two steps keep state under the same name and key, and do not share it.",
		"state-order":            "A step keeps state by a key, and nothing keeps the messages of a key in order.",
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

// checker checks one pipeline. It looks at the nodes of its file where it can, so that a component with a mistake in its
// own configuration can still be named by others.
type checker struct {
	spec     *engine.Pipeline
	given    *Given
	outputs  []string // their names
	problems []schema.Problem
}

// Given holds the resources of a process that rules look at.
type Given struct {
	Caches map[string]engine.Plugin[engine.Cache] // resources.caches
	Limits map[string]engine.RateLimit            // resources.rate_limits
}

// All reports everything that is wrong with a pipeline and the resources that it is given.
func All(p *engine.Pipeline, g *Given) []schema.Problem {
	r := newChecker(p, g)
	r.checkPipeline()
	r.checkLimits()
	r.checkSources()
	r.checkExactlyOnce()
	return r.problems
}

// Judge reports what is wrong with a pipeline apart from its inputs and resources, which a test of the pipeline
// replaces. [All] reports the same, and what is wrong with those.
func Judge(p *engine.Pipeline) []schema.Problem {
	r := newChecker(p, &Given{})
	r.checkPipeline()
	return r.problems
}

func newChecker(p *engine.Pipeline, g *Given) *checker {
	r := &checker{spec: p, given: g}
	for name := range p.Outputs.All() {
		r.outputs = append(r.outputs, name)
	}
	if n := r.find("outputs"); n != nil {
		r.outputs = nil
		for _, key := range n.Keys { // including outputs that could not be decoded
			r.outputs = append(r.outputs, key.Text)
		}
	}
	return r
}

func (r *checker) checkPipeline() {
	r.checkRoutes()
	r.checkFailures()
	r.checkRetries()
	r.checkSizes()
	r.checkLines()
	r.checkMiddleware()
}

func (r *checker) complain(at schema.Place, p schema.Problem) {
	r.problems = append(r.problems, at.Problem(p))
}

// at is the place of a value in the pipeline's file or, if it is not written there, of the innermost value around it.
func (r *checker) at(keys ...string) schema.Place { return r.root().At(keys...) }

// key is like at, for the key instead of its value.
func (r *checker) key(keys ...string) schema.Place { return r.root().Key(keys...) }

// within is the place of a field or, if the field is omitted, of the value around it.
func within(at schema.Place, field string) schema.Place {
	if at.Node.Find(field) == nil {
		return at
	}
	return at.At(field)
}

// find is a value in the pipeline's file, or nil.
func (r *checker) find(keys ...string) *schema.Node { return r.spec.Place.Node.Find(keys...) }

func (r *checker) root() schema.Place { return schema.Place{Node: r.spec.Place.Node} }

// checkMiddleware refuses names under which no middleware is registered.
func (r *checker) checkMiddleware() {
	known := engine.Middlewares.Names()
	for i, name := range r.spec.Engine.Middleware {
		if name != "" && !slices.Contains(known, name) { // the decoder reports ""
			r.complain(r.at("engine", "middleware").Item(i), schema.Problem{Code: "unknown-middleware",
				Message: fmt.Sprintf("this build has no middleware %q", name),
				Remedy:  schema.Suggest(name, known, "use a build that registers it")})
		}
	}
}

// checkSources warns of inputs that acknowledge before delivery, of sources that keep no messages, and of inputs that
// accept messages from anyone on the network.
func (r *checker) checkSources() {
	for _, c := range Components(r.spec) {
		t := engine.TraitsOf(c.Config)
		if t.AcksEarly {
			r.warn(c, "early_ack", schema.Problem{Code: "at-most-once",
				Message: "messages are acknowledged when they are read: one that fails later, or is lost in a crash, is not delivered again",
				Remedy:  "remove it if every message counts"})
		}
		if t.Forgets && !t.Lossy {
			r.warn(c, "", schema.Problem{Code: "at-most-once",
				Message: "messages are delivered at most once: the source keeps none, so messages that arrive while nothing reads, " +
					"or that a crash loses, are gone",
				Remedy: "write `at_most_once: true` if that is meant, or read a source that keeps messages, such as a stream"})
		}
		if t.Exposed {
			r.warn(c, "listen", schema.Problem{Code: "open-listener",
				Message: "it listens beyond this machine and accepts messages from anyone",
				Remedy:  "set auth, or listen on 127.0.0.1"})
		}
	}
}

// warn reports a warning at a field of a component, or at the component if the field is omitted.
func (r *checker) warn(c Component, field string, p schema.Problem) {
	p.Warning = true
	r.complain(within(c.Place, field), p)
}

// Fails says whether a problem is an error of the pipeline. A problem without a line, as in an override, concerns all
// pipelines.
func Fails(p *engine.Pipeline, k schema.Problem) bool {
	return !k.Warning && (k.Pos.Line == 0 || k.Pos.File == p.Place.Pos.File)
}

// Wrong are the places, as [Placed] returns them, of components and rate limits that known errors concern. Building
// them would only report the same errors again.
func Wrong(p *engine.Pipeline, g *Given, known []schema.Problem) map[schema.Place]bool {
	if !slices.ContainsFunc(known, func(k schema.Problem) bool { return !k.Warning }) {
		return nil
	}
	var places []schema.Place
	collect := func(v any) {
		for _, c := range Components(v) {
			places = append(places, c.Place)
		}
		schema.Walk(v, func(x reflect.Value) {
			if l, ok := reflect.TypeAssert[engine.RateLimit](x); ok {
				places = append(places, l.Place)
			}
		})
	}
	collect(p)
	collect(g.Limits)
	collect(slices.Collect(maps.Values(g.Caches)))
	wrong := map[schema.Place]bool{}
	for _, k := range known {
		var inner schema.Place // the innermost component around the mistake
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

// Placed is a place as the key of a map: its file and path alone.
func Placed(at schema.Place) schema.Place {
	return schema.Place{Pos: schema.Pos{File: at.Pos.File}, Path: at.Path}
}
