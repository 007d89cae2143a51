package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/state/tables"
	"github.com/flowd-io/flowd/schema"
)

// tableKey identifies a table of a process. print is its configuration: a changed table is a different one.
type tableKey struct{ name, print string }

// tables makes the tables, checks everything that looks up rows in them, and reads their files if they exist. It
// returns the tables that are used.
func (l *loader) tables(set *Set) map[string]runtime.Resource {
	set.tables = map[string]*tables.Table{}
	files := map[string]*file{}
	for _, f := range l.files {
		for name, c := range f.spec.Resources.Tables.All() {
			key := tableKey{name, connection(f.root.Find("resources", "tables", name), f.decoder)}
			set.tables[name] = engine.Common(set.Shared, key,
				func() *tables.Table { return tables.New(name, c, l.options.Log, l.options.Secrets) })
			files[name] = f
		}
	}
	used := map[string]runtime.Resource{}
	if len(l.parts) > 0 {
		return used // a part that can't be read may contain what seems to be missing
	}
	for _, f := range l.files {
		tables.Fill(f.decoder, set.tables)
		for name := range l.lookups(f, set.tables) {
			used[name] = set.tables[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set.tables)) {
		at := files[name].place()
		if used[name] == nil {
			l.complain(at.Key("resources", "tables", name), schema.Problem{Code: "unused-table", Warning: true,
				Message: "nothing looks up rows in this table",
				Remedy:  fmt.Sprintf("use it as in `lookup(%q, id)`, or remove it", name)})
		}
		if l.readTable(at.At("resources", "tables", name), set.tables[name]) {
			f := files[name]
			if f.tables == nil {
				f.tables = map[string]string{}
			}
			f.tables[name] = set.tables[name].String()
		}
	}
	if old := l.options.instead; old != nil {
		for name, t := range old.tables {
			if set.tables[name] != t {
				t.Forget()
			}
		}
	}
	return used
}

// readTable reads a table's file. A file that does not exist yet may exist when pipelines run.
func (l *loader) readTable(at schema.Place, t *tables.Table) (ok bool) {
	told := func(p schema.Problem) bool { return !p.Warning && schema.Within(p.Path, at.Path) }
	if slices.ContainsFunc(l.problems, told) {
		return false
	}
	err := t.Check()
	if at.Node.Kind == schema.MapNode {
		at = at.At("file")
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.complain(at, schema.Problem{Code: "missing-table", Warning: true, Message: err.Error(),
			Remedy: "check the path, which is relative to where flowd runs; the pipeline can't start without the file"})
	case err != nil:
		l.complain(at, schema.Problem{Code: "bad-table", Message: err.Error()})
	}
	return err == nil
}

// lookups returns the tables that a file uses, and reports unknown ones.
func (l *loader) lookups(f *file, all map[string]*tables.Table) map[string]bool {
	used := map[string]bool{}
	names := slices.Sorted(maps.Keys(all))
	unknown := func(name string) schema.Problem {
		used[schema.Meant(name, names)] = true
		return unknownTable(name, names)
	}
	for _, call := range *schema.Shared[expr.Calls](f.decoder) {
		if call.Name != tables.Function {
			continue
		}
		name, ok := call.Text(0)
		t := all[name]
		switch used[name] = t != nil; {
		case !ok:
			l.report(call.Problem(call.Args[0].Offset, schema.Problem{Code: "bad-lookup",
				Message: "the name of a table must be a string in quotes: it can't depend on the message",
				Remedy:  `write lookup("items", id)`}))
		case t == nil:
			p := unknown(name)
			if call.Args[0].Secret {
				p.Message = "resources.tables has no table with the name in this placeholder"
				p.Remedy = "write the name itself"
			}
			l.report(call.Problem(call.Args[0].Offset, p))
		default:
			l.lookup(call, name, t)
		}
	}
	for _, c := range runtime.Components(f.spec) {
		u, ok := c.Config.(tables.User)
		if !ok {
			continue
		}
		name, path := u.LooksUp()
		if name == "" {
			if name = tables.Only(all); name == "" {
				l.complain(c.Place, schema.Problem{Code: "unknown-table",
					Message: "there must be exactly one database of networks, or a name",
					Remedy: "add one to `resources.tables`, such as `cities: GeoLite2-City.mmdb`, or name it: `" +
						path + ": cities`"})
				continue
			}
		}
		if all[name] == nil {
			l.complain(c.Place.At(path), unknown(name))
			continue
		}
		if used[name] = true; !all[name].Networks() {
			l.complain(c.Place.At(path), schema.Problem{Code: "bad-lookup",
				Message: fmt.Sprintf("table %q is not a database of networks", name), Remedy: "name one whose format is mmdb"})
		}
	}
	delete(used, "")
	maps.DeleteFunc(used, func(name string, _ bool) bool { return all[name] == nil })
	return used
}

func unknownTable(name string, known []string) schema.Problem {
	return schema.Problem{Code: "unknown-table", Message: fmt.Sprintf("resources.tables has no %q", name),
		Remedy: schema.Suggest(name, known, fmt.Sprintf("add %q to `resources.tables`", name))}
}

// lookup checks a call for an existing table.
func (l *loader) lookup(call expr.Call, name string, t *tables.Table) {
	if want, got := len(t.Keys()), len(call.Args)-1; got != want {
		l.report(call.Problem(call.Offset, schema.Problem{Code: "bad-lookup",
			Message: fmt.Sprintf("a key of table %q is %s, not %d", name, values(want), got),
			Remedy:  "give one value for each field in `key` of the table, in that order"}))
	}
}

func values(n int) string {
	if n == 1 {
		return "1 value"
	}
	return fmt.Sprintf("%d values", n)
}
