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

// table is what components.yaml holds.
type table struct {
	Groups     map[string]fields `yaml:"groups"`
	Inputs     map[string]*entry `yaml:"inputs"`
	Outputs    map[string]*entry `yaml:"outputs"`
	Processors map[string]*entry `yaml:"processors"`
	Caches     map[string]*entry `yaml:"caches"`
	RateLimits map[string]*entry `yaml:"rate_limits"`
}

// entry is what becomes of one component.
type entry struct {
	To       string            `yaml:"to"`       // its type in flowd
	Main     string            `yaml:"main"`     // the field that a configuration that is only a text sets
	With     []string          `yaml:"with"`     // groups of fields that it has, too
	Fields   fields            `yaml:"fields"`   // its own fields, by path
	Always   yaml.Node         `yaml:"always"`   // fields to write in any case, since the defaults differ
	Metadata map[string]string `yaml:"metadata"` // names of metadata: theirs, ours
	Differs  string            `yaml:"differs"`  // how it behaves otherwise, in any case
	Lost     string            `yaml:"lost"`     // why there is nothing like it
}

type fields map[string]field

// field is what becomes of one field.
type field struct {
	To     string            `yaml:"to"`     // path in flowd's configuration
	As     string            `yaml:"as"`     // how the value is written
	Values map[string]string `yaml:"values"` // values by theirs; "" leaves the field out
	Absent *string           `yaml:"absent"` // what to write where the field is not given
	Unless string            `yaml:"unless"` // their value that needs no mention
	Lost   string            `yaml:"lost"`   // why it has no counterpart
	Left   string            `yaml:"-"`      // what the difference is that it was left out
	Use    string            `yaml:"-"`      // the name of what translates it
	Skip   bool              `yaml:"-"`      // flowd needs nothing in its place
}

// UnmarshalYAML reads the short forms, too.
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

// components is the table, each entry with the fields of its groups.
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
