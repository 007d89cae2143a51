package yamltext

import "github.com/flowd-io/flowd/schema"

// This package's lint codes.
func init() {
	for name, doc := range map[string]string{
		"control-character": "A file contains a character that is not allowed in text.",
		"empty-file":        "A file contains no pipeline.",
		"file-too-large":    "A file is larger than a pipeline file may be.",
		"not-a-pipeline":    "A file is a list or text; a pipeline is a mapping.",
		"not-utf8":          "A file is not UTF-8 text.",
		"several-documents": "A file contains more than one YAML document.",
		"yaml-alias-bomb":   "Aliases expand to more values than a file may have.",
		"yaml-alias-cycle":  "An alias is inside the value that it repeats.",
		"yaml-flow-text":    "A comma inside { } cut a value in two.",
		"yaml-key":          "A key is missing, or is not text.",
		"yaml-merge":        "The merge key << has a value that is not a mapping.",
		"yaml-syntax":       "A file is not valid YAML.",
		"yaml-tag":          "A YAML tag has no meaning in its place.",
		"yaml-too-deep":     "A file is nested deeper than flowd reads.",
		"yaml-too-large":    "A file contains more values than flowd reads.",
	} {
		schema.AddCode(name, doc)
	}
}
