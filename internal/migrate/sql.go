package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/migrate/bloblang"
)

// args returns the expressions of an args_mapping, whose result is a list.
func (t *translator) args(c *component) ([]*yaml.Node, string) {
	at := lookup(c.config, "args_mapping")
	if at == nil || strings.TrimSpace(at.Value) == "" {
		return nil, ""
	}
	exprs, notes, ok := bloblang.List(at.Value, t.blob(c.ctx))
	if !ok {
		return nil, "args are written one by one: args_mapping is not a plain list"
	}
	t.blobNotes(c.out, at, notes)
	var all []*yaml.Node
	for _, expr := range exprs {
		all = append(all, code(expr))
	}
	return all, ""
}

// assignments returns the names and expressions of a mapping that only sets fields.
func (t *translator) assignments(c *component, at *yaml.Node) (*yaml.Node, bool) {
	fields, notes, ok := bloblang.Fields(at.Value, t.blob(c.ctx))
	if !ok {
		return nil, false
	}
	t.blobNotes(c.out, at, notes)
	all := mapping()
	for _, f := range fields {
		put(all, f.Name, code(f.Expression))
	}
	return all, true
}

// numbered writes the parameters of a statement in the driver's form.
func numbered(driver, query string) string {
	if driver != "postgres" {
		return query
	}
	var b strings.Builder
	n := 0
	inText := false
	for _, r := range query {
		switch {
		case r == '\'':
			inText = !inText
		case r == '?' && !inText:
			n++
			b.WriteString("$" + strconv.Itoa(n))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// selection returns the statement of a sql_select.
func selection(c *component) string {
	var columns []string
	for _, item := range items(lookup(c.config, "columns")) {
		columns = append(columns, item.Value)
	}
	parts := []string{}
	if prefix := text(c.config, "prefix"); prefix != "" {
		parts = append(parts, prefix)
	}
	parts = append(parts, "SELECT "+strings.Join(columns, ", ")+" FROM "+text(c.config, "table"))
	if where := text(c.config, "where"); where != "" {
		parts = append(parts, "WHERE "+where)
	}
	if suffix := text(c.config, "suffix"); suffix != "" {
		parts = append(parts, suffix)
	}
	return numbered(text(c.config, "driver"), strings.Join(parts, " "))
}

// withArgs adds the arguments of a statement.
func (t *translator) withArgs(c *component) string {
	args, why := t.args(c)
	if len(args) > 0 {
		put(c.out, "args", list(args...))
	}
	return why
}

func sqlSelect(t *translator, c *component) ([]*yaml.Node, string) {
	put(c.out, "query", scalar(selection(c)))
	why := t.withArgs(c)
	put(c.out, "rows", scalar("many"))
	return []*yaml.Node{t.close(c)}, why
}

func sqlRaw(t *translator, c *component) ([]*yaml.Node, string) {
	if q := lookup(c.out, "query"); q != nil {
		q.Value = numbered(text(c.config, "driver"), q.Value)
	}
	why := t.withArgs(c)
	rows := "many"
	if text(c.config, "exec_only") == "true" || text(c.config, "result_codec") == "none" {
		rows = "none"
	}
	put(c.out, "rows", scalar(rows))
	return []*yaml.Node{t.close(c)}, why
}

func sqlInsert(t *translator, c *component) ([]*yaml.Node, string) {
	var columns, marks []string
	for _, item := range items(lookup(c.config, "columns")) {
		columns = append(columns, item.Value)
		marks = append(marks, "?")
	}
	query := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", text(c.config, "table"), strings.Join(columns, ", "),
		strings.Join(marks, ", "))
	if prefix := text(c.config, "prefix"); prefix != "" {
		query = prefix + " " + query
	}
	if suffix := text(c.config, "suffix"); suffix != "" {
		query += " " + suffix
	}
	put(c.out, "query", scalar(numbered(text(c.config, "driver"), query)))
	why := t.withArgs(c)
	put(c.out, "rows", scalar("none"))
	return []*yaml.Node{t.close(c)}, why
}
