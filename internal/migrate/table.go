package migrate

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

//go:embed components.yaml
var componentsYAML []byte

// table is the content of components.yaml.
type table struct {
	Groups     map[string]fields `yaml:"groups"`
	Inputs     map[string]*entry `yaml:"inputs"`
	Outputs    map[string]*entry `yaml:"outputs"`
	Processors map[string]*entry `yaml:"processors"`
	Caches     map[string]*entry `yaml:"caches"`
	RateLimits map[string]*entry `yaml:"rate_limits"`
}

// entry describes the translation of a component.
type entry struct {
	To       string            `yaml:"to"`       // its type in flowd
	Main     string            `yaml:"main"`     // the field that is set if the configuration is just a text
	With     []string          `yaml:"with"`     // groups of further fields
	Fields   fields            `yaml:"fields"`   // its own fields, by path
	Always   yaml.Node         `yaml:"always"`   // fields that are always written, since the defaults differ
	Metadata map[string]string `yaml:"metadata"` // names of metadata, from the source's to flowd's
	Differs  string            `yaml:"differs"`  // difference in behaviour that always applies
	Lost     string            `yaml:"lost"`     // why there is no counterpart
}

type fields map[string]field

// field describes the translation of a field.
type field struct {
	To     string            `yaml:"to"`     // path in flowd's configuration
	As     string            `yaml:"as"`     // how to write the value
	Values map[string]string `yaml:"values"` // values by the source's values; "" leaves the field out
	Absent *string           `yaml:"absent"` // what to write if the field is not set
	Unless string            `yaml:"unless"` // the source's value that needs no translation
	Lost   string            `yaml:"lost"`   // why it has no counterpart
	Left   string            `yaml:"-"`      // the difference if it is left out
	Use    string            `yaml:"-"`      // the name of its translation in special
	Skip   bool              `yaml:"-"`      // flowd needs nothing in its place
}

// UnmarshalYAML parses the short forms, too.
func (f *field) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.MappingNode {
		type plain field
		return n.Decode((*plain)(f))
	}
	switch word, rest, _ := strings.Cut(n.Value, " "); {
	case word == "-":
		f.Skip = true
	case word == "~":
		f.Left = rest
	case word == "!":
		f.Lost = rest
	case strings.HasPrefix(word, "@"):
		f.Use = word[1:]
	default:
		f.To, f.As = word, rest
	}
	return nil
}

// components is the table, with the fields of groups in each entry.
var components = sync.OnceValue(func() *table {
	var t table
	if err := yaml.Unmarshal(componentsYAML, &t); err != nil {
		panic(fmt.Sprintf("components.yaml: %v", err))
	}
	for _, section := range []map[string]*entry{t.Inputs, t.Outputs, t.Processors, t.Caches, t.RateLimits} {
		for _, e := range section {
			all := fields{}
			for _, group := range e.With {
				for name, f := range t.Groups[group] {
					all[name] = f
				}
			}
			for name, f := range e.Fields {
				all[name] = f
			}
			e.Fields = all
		}
	}
	return &t
})

// under reports whether there are fields below a path.
func (f fields) under(path string) bool {
	for name := range f {
		if strings.HasPrefix(name, path+".") {
			return true
		}
	}
	return false
}
