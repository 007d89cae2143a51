package config

import "github.com/flowd-io/flowd/schema"

// The codes of this package's problems, beside those of package schema.
func init() {
	for name, doc := range map[string]string{
		"bad-limit":              "A rate limit lacks something, or says what does not go together.",
		"at-most-once":           "A source is told of messages before they are delivered: what fails later is lost.",
		"bad-override":           "An override -s path=value can't be read or does not fit the file.",
		"cache-order":            "Steps read and write a cache, and nothing orders the messages between which that matters.",
		"composite-key":          "An output that consists of others has a key that belongs to those.",
		"dead-letter-on-failure": "A dead-letter output has an on_failure of its own.",
		"declared-twice":         "resources and service belong to the process; two files declare them.",
		"duplicate-name":         "Two pipelines of one process have the same name.",
		"duplicate-test":         "Two tests of a file have the same name.",
		"inner-retry":            "A step inside another has a retry of its own.",
		"literal-secret":         "A password, token or key stands in the file itself.",
		"never-full":             "A batch or group is larger than what may be under way at once.",
		"never-matches":          "A batcher's condition is constant and false.",
		"no-batchers":            "There are several outputs, and nothing says which message goes where.",
		"no-catch-all":           "A message that no batcher matches fails; there is no batcher for the rest.",
		"no-dead-letter":         "Failed messages are to go to a dead letter, and none is named.",
		"no-file":                "A file or directory is not there, can't be read, or holds no pipeline.",
		"no-input":               "A pipeline has no input.",
		"no-output":              "A pipeline, or a batcher, has no output.",
		"no-request":             "An output replies where no message comes from an http_server.",
		"no-route":               "Every output is a dead letter: messages that do not fail have nowhere to go.",
		"open-listener":          "An input listens beyond this machine and takes messages of anybody.",
		"open-pipe":              "A pipe has no pipeline at its other end.",
		"order-parted":           "A batch key parts messages that order_by holds together.",
		"output-cycle":           "An output consists of itself.",
		"pipe-cycle":             "Pipes lead from a pipeline back to itself.",
		"repeated-output":        "A batcher, or an output, names an output twice.",
		"retry-contradiction":    "Two fields of a retry, a breaker or a restart contradict each other.",
		"shared-stdin":           "Two inputs of one process read standard input.",
		"small-replay":           "max_replay is smaller than what may be in flight.",
		"steps-cycle":            "Named steps use themselves.",
		"test-expects-nothing":   "A test says nothing about what becomes of its messages.",
		"unknown-cache":          "A name is that of no cache in resources.caches.",
		"unknown-input":          "A name is that of no input.",
		"unknown-limit":          "A name is that of no rate limit in resources.rate_limits.",
		"unknown-middleware":     "A name is that of no middleware in this build.",
		"unknown-output":         "A name is that of no output.",
		"unknown-override":       "An override names a component that no file has.",
		"unknown-step":           "A name is that of no step.",
		"unknown-steps":          "A name is that of no list in resources.steps.",
		"unreachable-batcher":    "The batchers before it take every message.",
		"unused-cache":           "No step uses a cache.",
		"unused-dead-letter":     "A dead letter is named, but failed messages go elsewhere.",
		"unused-interval":        "A retry lists more waits than it has tries.",
		"unused-limit":           "Nothing keeps a rate limit.",
		"unused-output":          "Nothing is ever sent to an output.",
		"unused-retry":           "Dead letters are tried without end, but a retry names one.",
		"unused-steps":           "No pipeline uses a named list of steps.",
	} {
		schema.AddCode(name, doc)
	}
}
