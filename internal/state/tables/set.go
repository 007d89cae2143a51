package tables

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// Set contains the tables that the code of a configuration can look up. It is the shared value of the decoder that
// has decoded the code, and filled in before anything runs; see [schema.Shared]. Code made by a program, or run in
// another process, has no tables.
type Set struct{ tables map[string]*Table }

// Fill sets the tables for the code that d has decoded.
func Fill(d *schema.Decoder, tables map[string]*Table) { schema.Shared[Set](d).tables = tables }

// table returns the table with a name.
func (s *Set) table(name string) (*Table, error) {
	if t := s.tables[name]; t != nil {
		return t, nil
	}
	if len(s.tables) == 0 {
		return nil, fmt.Errorf("there is no table %q here (define it under `resources.tables`; remote pools have none)", name)
	}
	return nil, fmt.Errorf("there is no table %q (%s)", name, schema.Suggest(name, slices.Sorted(maps.Keys(s.tables)),
		"define it under `resources.tables`"))
}

// Function is the name of the function that looks up rows.
const Function = "lookup"

func init() {
	expr.Register(expr.Func{
		Name: Function, Types: []any{new(func(string, any, ...any) any)},
		Usage:   "lookup(text, text|number|bool...) any",
		Example: `lookup("items", "tea") → {sku: "tea", price: 3}`,
		Doc: "The row of a table of `resources.tables` by its key, nil if there is none; a compound key is several values, in the order " +
			"of `key`. 5, 5.0 and \"5\" are one key; of mmdb it is an IP address.",
		Bind: func(d *schema.Decoder) func(expr.Source, ...any) (any, error) {
			s := &Set{}
			if d != nil {
				s = schema.Shared[Set](d)
			}
			return func(_ expr.Source, args ...any) (any, error) {
				t, err := s.table(args[0].(string))
				if err != nil {
					return nil, err
				}
				return t.Lookup(args[1:]...)
			}
		},
	})
}

// Key is a config field with an expression whose value is looked up. It knows the tables of its configuration.
type Key struct {
	expr.Expr
	set *Set
}

var _ schema.Unmarshaler = (*Key)(nil)

// UnmarshalConfig decodes the expression.
func (k *Key) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	k.Expr.UnmarshalConfig(d, n)
	k.set = schema.Shared[Set](d)
}

// Table returns the table with a name. "" means the only database of networks. There are no tables before the
// configuration is loaded.
func (k *Key) Table(name string) (*Table, error) {
	if k.set == nil {
		return new(Set).table(name)
	}
	if name != "" {
		return k.set.table(name)
	}
	if name = Only(k.set.tables); name == "" {
		return nil, errors.New("there must be exactly one database of networks (name it: `table: NAME`)")
	}
	return k.set.table(name)
}

// Only returns the name of the only database of networks among tables, or "".
func Only(tables map[string]*Table) (only string) {
	for name, t := range tables {
		switch {
		case !t.Networks():
		case only != "":
			return ""
		default:
			only = name
		}
	}
	return only
}

// User is the config of a plugin that looks up rows without expressions.
type User interface {
	// LooksUp returns the table, or "" for the only database of networks, and the path of the field with its name.
	LooksUp() (table, path string)
}
