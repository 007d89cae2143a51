package config

import "github.com/flowd-io/flowd/schema"

// This package's lint codes, in addition to those of package schema.
func init() {
	for name, doc := range map[string]string{
		"bad-include":          "A file can't be included: it does not exist, includes itself, or has sections other than resources.",
		"bad-override":         "An override -s path=value can't be read or does not fit the file.",
		"declared-twice":       "resources and service belong to the process; two files declare them.",
		"duplicate-name":       "Two pipelines of one process have the same name.",
		"duplicate-test":       "Two tests of a file have the same name.",
		foreignFile:            "The file is written for another system, such as Benthos, Vector or Logstash.",
		"literal-secret":       "A password, token or key is written in the file itself.",
		"no-file":              "A file or directory does not exist, can't be read, or contains no pipeline.",
		"no-name":              "A function is called without a name that it needs.",
		"unknown-component":    "No component has this name.",
		"unknown-env":          "An expression reads an environment variable that engine.env does not name.",
		"unknown-word":         "A step sets a field to, or a condition compares one with, a word without quotes that is probably not a field.",
		"unknown-var":          "An expression reads a value that no step `let` keeps.",
		"no-request":           "An output sends replies, but no message comes from an http_server.",
		"open-pipe":            "A pipe has no pipeline at its other end.",
		"pipe-cycle":           "Pipes lead from a pipeline back to itself.",
		"shared-file":          "Two components of one process need the same file, such as a checkpoint, for themselves.",
		"shared-port":          "Two listeners of one process have the same port.",
		"shared-stdin":         "Two inputs of one process read standard input.",
		"steps-cycle":          "Named steps use themselves.",
		"steps-expand":         "Named steps that use named steps expand to more than a pipeline can have.",
		"state-name":           "state() is called with a name that no step sets.",
		"state-remote":         "state() is called by a step that runs in another process.",
		"state-unsettled":      "A filter depends on state of messages that may still fail.",
		"test-expects-nothing": "A test does not say what it expects.",
		"bad-lookup":           "A call of lookup(), or a step that looks up rows, does not fit its table.",
		"bad-table":            "The file of a table can't be read, or does not match its configuration.",
		"managed-name":         "The name of a pipeline in service.pipelines is not that of its file.",
		"managed-section":      "A pipeline in service.pipelines has a section that is for the process.",
		"missing-table":        "The file of a table does not exist yet: pipelines that use it can't start without it.",
		"unknown-table":        "No table of this name is in resources.tables.",
		"unused-table":         "Nothing looks up rows in this table.",
		"unknown-registry":     "No registry of this name is in resources.registries.",
		"unused-registry":      "No step uses a registry.",
		"unknown-cache":        "No cache of this name is in resources.caches.",
		"unknown-input":        "No input has this name.",
		"unknown-limit":        "No rate limit of this name is in resources.rate_limits.",
		"unknown-output":       "No output has this name.",
		"unknown-parameter":    "A list of steps is given a parameter that it does not have.",
		"unknown-override":     "An override names a component that no file contains.",
		"unknown-step":         "No step has this name.",
		"unknown-steps":        "No list of this name is in resources.steps.",
		"unseen-metrics":       "Metrics of steps are not shown anywhere: their labels may be data, which service.metrics does not show.",
		"unused-cache":         "No step uses a cache.",
		"unused-limit":         "Nothing uses a rate limit.",
		"unused-parameter":     "No step of a list uses one of its parameters.",
		"unused-steps":         "No pipeline uses a named list of steps.",
		untranslated:           "flowd migrate found no counterpart for what the comment above shows.",
	} {
		schema.AddCode(name, doc)
	}
}
