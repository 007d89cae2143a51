package config

import (
	"regexp"
	"sync"
)

// peer is what users of other systems write at the places that match path, and what
// to write instead.
type peer struct {
	path  *regexp.Regexp
	words map[string]string
}

// Words that users of other systems type, by the kind of place in which they occur. The
// components' own types have such words in their registries. Only a mistake needs them, so
// they are made then.
var peers = sync.OnceValue(func() []peer {
	return []peer{
		{regexp.MustCompile(`^$`), map[string]string{
			"input": "write `inputs: {NAME: …}`", "source": "write `inputs: {NAME: …}`", "sources": "write `inputs`",
			"output": "write `outputs: {NAME: …}`", "sink": "write `outputs: {NAME: …}`", "sinks": "write `outputs`",
			"pipeline":  "write its `processors` at the top level, `threads` as `engine.workers`",
			"processor": "write `processors`", "transforms": "write `processors`", "steps": "write `processors`",
			"broker": "write `batchers`", "fan_out": "write `batchers`", "switch": "write `batchers` with `match`",
			"routes":  "write `batchers` with `match`",
			"buffer":  "write it in an input: `inputs.NAME.buffer`",
			"workers": "write `engine.workers`", "threads": "write `engine.workers`",
			"order_by":      "write `engine.order_by`",
			"max_in_flight": "write `engine.max_in_flight`", "on_failure": "write `engine.on_failure`",
			"dead_letter": "write `engine.on_failure.dead_letter`",
			"rate_limit":  "write `engine.rate_limit`", "retry": "write `engine.on_failure.retry`",
			"shutdown_timeout": "write `engine.drain.timeout`",
			"logger":           "write `service.log`", "log": "write `service.log`", "http": "write `service.listen`",
			"metrics": "write `service.listen`: metrics are at its /metrics", "tracer": "write `service.tracing`",
			"tracing":         "write `service.tracing`",
			"cache_resources": "write `resources.caches`", "rate_limit_resources": "write `resources.rate_limits`",
			"processor_resources": "write `resources.steps`", "caches": "write `resources.caches`",
			"label": "write `name`", "id": "write `name`", "throttle": "write `engine.rate_limit`",
		}},
		{regexp.MustCompile(`^inputs\.[^.]+$`), map[string]string{
			"type":     typeIsKey,
			"batching": "write `batchers` at the top level", "label": "the key in `inputs` is the name",
			"name":  "the key in `inputs` is the name",
			"check": "write a step `filter`", "workers": "write `concurrency`",
		}},
		{regexp.MustCompile(`\[\d+\]$`), map[string]string{
			"type": typeIsKey, "nack": "write `on_failure: {then: return}` in `engine`",
			"try": "write `on_error` on the step that may fail", "fan_out": "write `batchers`",
			"for_each": "write `each`", "foreach": "write `each`",
			"branch": "write `switch`, or `set` with what it needs", "jq": "write `map` or `set`",
			"jmespath": "write `map` or `set`", "jsonpath": "write `map` or `set`",
			"json": "write `decode: json` or `encode: json`", "parse_json": "write `decode: json`",
			"grok": "write `decode: {regex: …}`", "csv": "write `decode: csv` or `encode: csv`",
			"group_by": "write `batchers` with `key`", "delete": "write `unset`, or `filter` for messages",
			"assert": "write `filter`, or `fail` with `when`", "reduce": "write `aggregate` in a batcher",
			"check": "write `when`", "condition": "write `when`", "if": "write `when`", "match": "write `when`",
			"label": "write `name`", "retries": "write `retry: {max_attempts: …}`",
		}},
		{regexp.MustCompile(`^batchers\.[^.]+$`), map[string]string{
			"broker": "write `output: [a, b]`", "fan_out": "write `output: [a, b]`", "batching": "write `batch`",
			"retry": "write it in the output",
			"check": "write `match`", "condition": "write `match`", "if": "write `match`", "when": "write `match`",
			"outputs": "write `output`; it takes a list, too", "partition_by": "write `key`", "group_by": "write `key`",
			"label": "the key in `batchers` is the name", "name": "the key in `batchers` is the name",
			"size": "write `batch: {size: …}`", "count": "write `batch: {size: …}`",
			"timeout": "write `batch: {timeout: …}`", "period": "write `batch: {timeout: …}`",
			"bytes": "write `batch: {bytes: …}`",
		}},
		{regexp.MustCompile(`^batchers\.[^.]+\.batch$`), map[string]string{
			"count": "write `size`", "period": "write `timeout`", "byte_size": "write `bytes`",
			"check": "write `flush`", "processors": "write them beside `batch`", "key": "write it beside `batch`",
		}},
		{regexp.MustCompile(`^outputs\.[^.]+$`), map[string]string{
			"type": typeIsKey, "throttle": "write `rate_limit`",
			"batching": "write `batchers` at the top level", "batch": "write it in `batchers`, with `output` beside it",
			"max_in_flight": "write `concurrency`", "workers": "write `concurrency`",
			"label": "the key in `outputs` is the name", "name": "the key in `outputs` is the name",
			"match": "write it in `batchers`", "check": "write `match` in `batchers`",
			"when":        "write `match` in `batchers`",
			"dead_letter": "write `on_failure: {dead_letter: …}`", "fallback": "write `on_failure: {dead_letter: …}`",
			"max_retries": "write `retry: {max_attempts: …}`", "nack": "write `on_failure: {then: return}`",
		}},
		{regexp.MustCompile(`^engine$`), map[string]string{
			"threads": "write `workers`", "concurrency": "write `workers`", "ordering": "write `order_by`",
			"retry": "write it in `on_failure`", "dead_letter": "write it in `on_failure`",
			"shutdown_timeout": "write `drain: {timeout: …}`",
		}},
		{regexp.MustCompile(`on_failure$`), map[string]string{
			"nack": "write `then: return`", "reject": "write `then: return`", "output": "write `dead_letter`",
			"dlq": "write `dead_letter`",
		}},
	}
})

// typeIsKey is for those who write `type: stdin`.
const typeIsKey = "the type is itself a key: write `stdin: {}` in place of `type: stdin`"

// Values of other systems, by the path of their field.
var peerValues = sync.OnceValue(func() []peer {
	return []peer{
		{regexp.MustCompile(`on_failure\.then$`), map[string]string{
			"nack": "write return", "reject": "write return", "requeue": "write return", "dlq": "write dead_letter",
			"ignore": "write drop", "discard": "write drop", "fail": "write stop",
		}},
		{regexp.MustCompile(`\.on_error$`), map[string]string{
			"ignore": "write continue", "skip": "write continue",
			"nack":        "write fail: `engine.on_failure` says what happens then",
			"return":      "write fail: `engine.on_failure` says what happens then",
			"dead_letter": "write fail: `engine.on_failure` says what happens then",
			"stop":        "write fail: `engine.on_failure` says what happens then", "discard": "write drop",
		}},
	}
})
