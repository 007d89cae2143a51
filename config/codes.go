package config

import "github.com/flowd-io/flowd/schema"

// The codes of this package's problems, beside those of package schema.
func init() {
	for name, doc := range map[string]string{
		"bad-override":         "An override -s path=value can't be read or does not fit the file.",
		"declared-twice":       "resources and service belong to the process; two files declare them.",
		"duplicate-name":       "Two pipelines of one process have the same name.",
		"duplicate-test":       "Two tests of a file have the same name.",
		"literal-secret":       "A password, token or key stands in the file itself.",
		"no-file":              "A file or directory is not there, can't be read, or holds no pipeline.",
		"no-request":           "An output replies where no message comes from an http_server.",
		"open-pipe":            "A pipe has no pipeline at its other end.",
		"pipe-cycle":           "Pipes lead from a pipeline back to itself.",
		"shared-stdin":         "Two inputs of one process read standard input.",
		"steps-cycle":          "Named steps use themselves.",
		"test-expects-nothing": "A test says nothing about what becomes of its messages.",
		"unknown-cache":        "A name is that of no cache in resources.caches.",
		"unknown-input":        "A name is that of no input.",
		"unknown-limit":        "A name is that of no rate limit in resources.rate_limits.",
		"unknown-output":       "A name is that of no output.",
		"unknown-override":     "An override names a component that no file has.",
		"unknown-step":         "A name is that of no step.",
		"unknown-steps":        "A name is that of no list in resources.steps.",
		"unused-cache":         "No step uses a cache.",
		"unused-limit":         "Nothing keeps a rate limit.",
		"unused-steps":         "No pipeline uses a named list of steps.",
	} {
		schema.AddCode(name, doc)
	}
}
