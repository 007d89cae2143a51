package config

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// foreignFile is the code of the only problem of a file that is written for another system.
const foreignFile = "foreign-file"

// textShapes recognise files of other systems that are not YAML by a line of their text. They are only asked about files that are
// not pipelines.
var textShapes = sync.OnceValue(func() []textShape {
	return []textShape{
		{"a Logstash configuration", regexp.MustCompile(`(?m)^(?:input|filter|output)\s*\{`), likeLogstash},
		{"a Vector configuration in TOML", regexp.MustCompile(`(?m)^\[(?:sources|transforms|sinks)\.`), likeVector},
		{"a Telegraf configuration", regexp.MustCompile(`(?m)^\[\[(?:inputs|outputs|processors|aggregators)\.`), inYAML},
		{"a Fluent Bit configuration", regexp.MustCompile(`(?m)^\[(?:SERVICE|INPUT|FILTER|OUTPUT|PARSER)\]`), inYAML},
		{"a Fluentd configuration", regexp.MustCompile(`(?m)^<(?:source|match|filter)\b`), inYAML},
	}
})

type textShape struct {
	system string
	line   *regexp.Regexp
	remedy string
}

const (
	likeLogstash = "flowd docs from-logstash shows what is written how"
	likeVector   = "flowd docs migrate#vector shows what is written how"
	inYAML       = "pipelines are YAML, with `inputs`, `processors` and `outputs`: flowd docs language"
)

// foreignText returns the problem of a text that is a file of another system; ok is false for any other text.
func foreignText(path string, data []byte) (p schema.Problem, ok bool) {
	for _, s := range textShapes() {
		if at := s.line.FindIndex(data); at != nil {
			line := 1
			for _, c := range data[:at[0]] {
				if c == '\n' {
					line++
				}
			}
			return schema.Problem{Pos: schema.Pos{File: path, Line: line, Col: 1}, Code: foreignFile,
				Message: "this is " + s.system, Remedy: s.remedy}, true
		}
	}
	return schema.Problem{}, false
}

// foreignRoot returns the problem of a file that is YAML of another system.
func foreignRoot(path string, root *schema.Node) (p schema.Problem, ok bool) {
	has := func(key, kind string) bool { return kindOf(root.Lookup(key)) == kind }
	at, message, remedy := "", "", ""
	switch {
	case root.Lookup("inputs") != nil || root.Lookup("outputs") != nil:
		return p, false
	case has("pipeline", "mapping") && (root.Find("pipeline", "inputs") != nil || root.Find("pipeline", "outputs") != nil):
		at, message, remedy = "pipeline", "this is a Fluent Bit configuration", inYAML
	case has("pipeline", "mapping") && (root.Find("pipeline", "processors") != nil || root.Find("pipeline", "threads") != nil):
		at = "pipeline"
	case unnamed(root.Lookup("input"), engine.Inputs):
		at = "input"
	case unnamed(root.Lookup("output"), engine.Outputs):
		at = "output"
	case typed(root.Lookup("sources")), typed(root.Lookup("sinks")):
		at, message, remedy = "sinks", "this is a Vector configuration", likeVector
		if root.Lookup("sources") != nil {
			at = "sources"
		}
	case has("receivers", "mapping") && has("exporters", "mapping"):
		at, message, remedy = "receivers", "this is a configuration of the OpenTelemetry Collector",
			"write `inputs`, `processors` and `outputs`: flowd docs language"
	case has("apiVersion", "scalar") && has("kind", "scalar"):
		at, message, remedy = "apiVersion", "this is a Kubernetes manifest", "give flowd the pipeline alone, such as the value in a ConfigMap"
	default:
		return p, false
	}
	if message == "" {
		message, remedy = "this is a Benthos configuration",
			fmt.Sprintf("write `flowd migrate benthos %s`; by hand: `inputs: {NAME: …}`, `processors` and `outputs: {NAME: …}`", path)
	}
	i := slices.IndexFunc(root.Keys, func(k *schema.Node) bool { return k.Text == at })
	return schema.Place{Node: root}.Key(root.Keys[i].Text).Problem(schema.Problem{Code: foreignFile, Message: message,
		Remedy: remedy}), true
}

func kindOf(n *schema.Node) string {
	switch {
	case n == nil:
		return ""
	case n.Kind == schema.MapNode:
		return "mapping"
	case n.Kind == schema.ListNode:
		return "list"
	}
	return "scalar"
}

// unnamed reports whether a section has a component without a name, as in Benthos: `input: {stdin: {}}`.
func unnamed(section *schema.Node, of schema.Variants) bool {
	if section == nil || section.Kind != schema.MapNode {
		return false
	}
	isType := func(name string) bool { return of.Variant(name) != nil || of.Remedy(name) != "" }
	for i, key := range section.Keys {
		if key.Text == "label" {
			return true
		}
		inner := section.Items[i]
		if isType(key.Text) && (inner.Kind != schema.MapNode ||
			!slices.ContainsFunc(inner.Keys, func(k *schema.Node) bool { return isType(k.Text) })) {
			return true
		}
	}
	return false
}

// typed reports whether a section has components with a key `type`, as in Vector.
func typed(section *schema.Node) bool {
	return section != nil && section.Kind == schema.MapNode &&
		slices.ContainsFunc(section.Items, func(n *schema.Node) bool { return n.Lookup("type") != nil })
}
