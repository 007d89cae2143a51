package config

import (
	"regexp"
	"strings"
	"sync"
)

// peer is what users of other systems write at places that match path, and what to write instead.
type peer struct {
	path  *regexp.Regexp
	words map[string]string
}

// peerAt makes a peer from remedies by word. A key may hold several words, separated by spaces.
func peerAt(path string, remedies map[string]string) peer {
	at := peer{regexp.MustCompile(path), map[string]string{}}
	for words, remedy := range remedies {
		for word := range strings.FieldsSeq(words) {
			at.words[word] = remedy
		}
	}
	return at
}

// Words that users of other systems write, by place. The types of components have such words in their registries.
// They are built on first use, since only mistakes need them.
var peers = sync.OnceValue(func() []peer {
	return []peer{
		peerAt(`^$`, map[string]string{
			"input source": "write `inputs: {NAME: …}`", "sources": "write `inputs`",
			"output sink": "write `outputs: {NAME: …}`", "sinks": "write `outputs`",
			"pipeline":                   "write its `processors` at the top level, `threads` as `engine.workers`",
			"processor transforms steps": "write `processors`", "broker fan_out": "write `batchers`",
			"switch routes": "write `batchers` with `match`", "buffer": "remove it: sources keep messages until they are delivered",
			"workers threads": "write `engine.workers`", "order_by": "write `engine.order_by`",
			"max_in_flight": "write `engine.max_in_flight`", "on_failure": "write `engine.on_failure`",
			"dead_letter":         "write `engine.on_failure.dead_letter`",
			"rate_limit throttle": "write `engine.rate_limit`", "retry": "write `engine.on_failure.retry`",
			"shutdown_timeout": "write `engine.drain.timeout`", "logger log": "write `service.log`",
			"http": "write `service.listen`", "metrics": "write `service.metrics.listen`, or `service.listen`: metrics are at /metrics",
			"tracer tracing": "write `service.tracing`", "cache_resources caches": "write `resources.caches`",
			"rate_limit_resources": "write `resources.rate_limits`", "processor_resources": "write `resources.steps`",
			"label id": "write `name`",
		}),
		peerAt(`^inputs\.[^.]+$`, map[string]string{
			"type": typeIsKey, "batching": "write `batchers` at the top level",
			"label name": "the key in `inputs` is the name", "check": "write a step `filter`",
			"workers": "write `concurrency`", "max_in_flight": "write `engine.max_in_flight`",
		}),
		peerAt(`\[\d+\]$`, map[string]string{
			"type": typeIsKey, "nack": "write `on_failure: {then: return}` in `engine`",
			"try": "write `on_error` on the step that may fail", "fan_out": "write `batchers`",
			"for_each foreach": "write `each`", "branch": "write `switch`, or `set` with what it needs",
			"jq jmespath jsonpath": "write `map` or `set`", "json": "write `decode: json` or `encode: json`",
			"parse_json": "write `decode: json`", "grok": "write `decode: {grok: …}`",
			"csv": "write `decode: csv` or `encode: csv`", "group_by": "write `batchers` with `key`",
			"delete": "write `unset`, or `filter` for messages", "assert": "write `filter`, or `fail` with `when`",
			"reduce": "write `aggregate` in a batcher", "check condition if match": "write `when`",
			"label": "write `name`", "retries": "write `retry: {max_attempts: …}`",
		}),
		peerAt(`^batchers\.[^.]+$`, map[string]string{
			"broker fan_out": "write `output: [a, b]`", "batching": "write `batch`",
			"retry": "write it in the output", "check condition if when": "write `match`",
			"outputs": "write `output`; it takes a list, too", "partition_by group_by": "write `key`",
			"label name": "the key in `batchers` is the name", "size count": "write `batch: {size: …}`",
			"timeout period": "write `batch: {timeout: …}`", "bytes": "write `batch: {bytes: …}`",
		}),
		peerAt(`^batchers\.[^.]+\.batch$`, map[string]string{
			"count": "write `size`", "period": "write `timeout`", "byte_size": "write `bytes`",
			"check": "write `flush`", "processors": "write them beside `batch`", "key": "write it beside `batch`",
		}),
		peerAt(`^outputs\.[^.]+$`, map[string]string{
			"type": typeIsKey, "throttle": "write `rate_limit`", "batching": "write `batchers` at the top level",
			"batch":                 "write it in `batchers`, with `output` beside it",
			"max_in_flight workers": "write `concurrency`", "label name": "the key in `outputs` is the name",
			"match": "write it in `batchers`", "check when": "write `match` in `batchers`",
			"dead_letter fallback": "write `on_failure: {dead_letter: …}`",
			"max_retries retries":  "write `retry: {max_attempts: …}`", "nack": "write `on_failure: {then: return}`",
			"backoff_on drop_on successful_on": "remove it: `retry` covers every status that may pass",
			"backoff":                          "write `retry: {backoff: …}`",
		}),
		peerAt(`^outputs\.[^.]+\.[^.]+$`, map[string]string{
			"max_retries retries": "write `retry: {max_attempts: …}` beside the type", "backoff": "write `retry: {backoff: …}` beside the type",
			"retry": "write it beside the type", "batching": "write `batchers` at the top level",
			"batch":                            "write it in `batchers`, with `output` beside it",
			"backoff_on drop_on successful_on": "remove it: `retry`, beside the type, covers every status that may pass",
			"max_in_flight workers":            "write `concurrency` beside the type",
		}),
		peerAt(`^engine$`, map[string]string{
			"threads concurrency": "write `workers`", "ordering": "write `order_by`",
			"retry dead_letter": "write it in `on_failure`", "shutdown_timeout": "write `drain: {timeout: …}`",
		}),
		peerAt(`on_failure$`, map[string]string{
			"nack reject": "write `then: return`", "output dlq": "write `dead_letter`",
		}),
	}
})

// typeIsKey is the remedy for `type: stdin`.
const typeIsKey = "the type is itself a key: write `stdin: {}` in place of `type: stdin`"

// Values of other systems, by the path of their field.
var peerValues = sync.OnceValue(func() []peer {
	return []peer{
		peerAt(`on_failure\.then$`, map[string]string{
			"nack reject requeue": "write return", "dlq": "write dead_letter", "ignore discard": "write drop",
			"fail": "write stop",
		}),
		peerAt(`\.on_error$`, map[string]string{
			"ignore skip":                  "write continue",
			"nack return dead_letter stop": "write fail: `engine.on_failure` says what happens then",
			"discard":                      "write drop",
		}),
	}
})
