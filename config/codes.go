package config

import "github.com/flowd-io/flowd/schema"

// The codes of this package's problems, beside those of package schema.
func init() {
	for name, doc := range map[string]string{
		"bad-override":           "An override -s path=value can't be read or does not fit the file.",
		"control-character":      "A file holds a character that no text has.",
		"dead-letter-on-failure": "A dead-letter output has an on_failure of its own.",
		"declared-twice":         "resources and service belong to the process; two files declare them.",
		"duplicate-name":         "Two pipelines of one process have the same name.",
		"empty-file":             "A file holds no pipeline.",
		"file-too-large":         "A file is larger than any pipeline file is.",
		"never-matches":          "A batcher's condition is constant and false.",
		"no-batchers":            "There are several outputs, and nothing says which message goes where.",
		"no-catch-all":           "A message that no batcher matches fails; there is no batcher for the rest.",
		"no-dead-letter":         "Failed messages are to go to a dead letter, and none is named.",
		"no-file":                "A file or directory is not there, can't be read, or holds no pipeline.",
		"no-input":               "A pipeline has no input.",
		"no-output":              "A pipeline, or a batcher, has no output.",
		"no-route":               "Every output is a dead letter: messages that do not fail have nowhere to go.",
		"not-a-pipeline":         "A file is a list or text; a pipeline is a mapping.",
		"not-utf8":               "A file is not UTF-8 text.",
		"open-pipe":              "A pipe has no pipeline at its other end.",
		"order-parted":           "A batch key parts messages that order_by holds together.",
		"pipe-cycle":             "Pipes lead from a pipeline back to itself.",
		"repeated-output":        "A batcher names an output twice.",
		"shared-stdin":           "Two inputs of one process read standard input.",
		"several-documents":      "A file holds more than one YAML document.",
		"steps-cycle":            "Named steps use themselves.",
		"unknown-output":         "A name is that of no output.",
		"unknown-override":       "An override names a component that no file has.",
		"unknown-steps":          "A name is that of no list in resources.steps.",
		"unreachable-batcher":    "The batchers before it take every message.",
		"unused-dead-letter":     "A dead letter is named, but failed messages go elsewhere.",
		"unused-output":          "Nothing is ever sent to an output.",
		"unused-steps":           "No pipeline uses a named list of steps.",
		"yaml-alias-bomb":        "Aliases expand to more values than a pipeline has.",
		"yaml-alias-cycle":       "An alias stands inside the value that it repeats.",
		"yaml-flow-text":         "A comma inside { } cut a value in two.",
		"yaml-key":               "A key is missing, or is no text.",
		"yaml-merge":             "The merge key << has a value that is no mapping.",
		"yaml-syntax":            "A file is not YAML.",
		"yaml-tag":               "A YAML tag stands where it means nothing.",
		"yaml-too-deep":          "A file is nested deeper than flowd reads.",
		"yaml-too-large":         "A file holds more values than flowd reads.",
	} {
		schema.AddCode(name, doc)
	}
}
