package config

import "github.com/flowd-io/flowd/schema"

// The codes of this package's problems, in addition to those of package schema.
func init() {
	for name, doc := range map[string]string{
		"bad-override":         "An override -s path=value can't be read or does not fit the file.",
		"declared-twice":       "resources and service belong to the process; two files declare them.",
		"duplicate-name":       "Two pipelines of one process have the same name.",
		"duplicate-test":       "Two tests of a file have the same name.",
		"literal-secret":       "A password, token or key is written in the file itself.",
		"no-file":              "A file or directory does not exist, can't be read, or contains no pipeline.",
		"no-request":           "An output replies although no message comes from an http_server.",
		"open-pipe":            "A pipe has no pipeline at its other end.",
		"pipe-cycle":           "Pipes lead from a pipeline back to itself.",
		"shared-stdin":         "Two inputs of one process read standard input.",
		"steps-cycle":          "Named steps use themselves.",
		"test-expects-nothing": "A test does not say what becomes of its messages.",
		"unknown-registry":     "No registry of this name is in resources.registries.",
		"unused-registry":      "No step uses a registry.",
		"unknown-cache":        "No cache of this name is in resources.caches.",
		"unknown-input":        "No input has this name.",
		"unknown-limit":        "No rate limit of this name is in resources.rate_limits.",
		"unknown-output":       "No output has this name.",
		"unknown-override":     "An override names a component that is in no file.",
		"unknown-step":         "No step has this name.",
		"unknown-steps":        "No list of this name is in resources.steps.",
		"unused-cache":         "No step uses a cache.",
		"unused-limit":         "Nothing uses a rate limit.",
		"unused-steps":         "No pipeline uses a named list of steps.",
	} {
		schema.AddCode(name, doc)
	}
}
