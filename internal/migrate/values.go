package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// fromData are kinds of values that may depend on a message.
var fromData = map[string]bool{"template": true, "templates": true, "exprs": true, "expr": true, "number_expr": true,
	"body": true, "query": true}

// value writes a value as a kind of the table, or returns why it can't.
func (t *translator) value(c *component, v *yaml.Node, as string) (*yaml.Node, string) {
	single := v.Kind == yaml.ScalarNode
	env := single && t.src.env.has(v.Value)
	if !fromData[as] && slices.ContainsFunc(append(items(v), v), func(n *yaml.Node) bool {
		return strings.Contains(n.Value, "${!")
	}) {
		return nil, "it is the same for all messages: no data gets into it"
	}
	switch as {
	case "", "text":
		if !single {
			return nil, "text is expected"
		}
		return scalar(v.Value), ""
	case "template":
		if !single {
			return nil, "text is expected"
		}
		return scalar(t.template(c.out, v, v.Value, c.ctx)), ""
	case "templates", "texts", "exprs":
		if v.Kind != yaml.MappingNode {
			return nil, "names and texts are expected"
		}
		all := mapping()
		for _, p := range pairsOf(v) {
			var one *yaml.Node
			switch as {
			case "templates":
				one = scalar(t.template(c.out, p.value, p.value.Value, c.ctx))
			case "exprs":
				one = code(t.templateExpr(c.out, p.value, p.value.Value, c.ctx))
			default:
				one = scalar(p.value.Value)
			}
			put(all, p.key.Value, carry(one, p))
		}
		return all, ""
	case "expr":
		return code(t.templateExpr(c.out, v, v.Value, c.ctx)), ""
	case "number_expr":
		expr := t.templateExpr(c.out, v, v.Value, c.ctx)
		if plain, err := strconv.Unquote(expr); err == nil {
			return code(plain), ""
		}
		return code("int(" + expr + ")"), ""
	case "body", "query":
		return code(t.query(c.out, v, v.Value, c.ctx)), ""
	case "code":
		return code(v.Value), ""
	case "upper":
		return scalar(strings.ToUpper(v.Value)), ""
	case "list":
		all := list()
		for _, item := range items(v) {
			all.Content = append(all.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: item.Value,
				HeadComment: item.HeadComment, LineComment: item.LineComment, FootComment: item.FootComment})
		}
		if len(all.Content) == 1 && len(commentsOf(all)) == 0 {
			return all.Content[0], ""
		}
		return all, ""
	case "urls", "mqtt_urls":
		all := list()
		for _, item := range items(v) {
			for one := range strings.SplitSeq(item.Value, ",") {
				if as == "mqtt_urls" {
					one = strings.NewReplacer("tcp://", "mqtt://", "ssl://", "mqtts://", "tls://", "mqtts://").Replace(one)
				}
				all.Content = append(all.Content, scalar(strings.TrimSpace(one)))
			}
		}
		if len(all.Content) == 1 {
			return all.Content[0], ""
		}
		return all, ""
	case "methods":
		all := list()
		for _, item := range items(v) {
			all.Content = append(all.Content, scalar(item.Value))
		}
		return all, ""
	case "value":
		return plainCopy(v), ""
	case "duration":
		if !env {
			if _, err := time.ParseDuration(v.Value); err != nil {
				return nil, fmt.Sprintf("\"%s\" is not a duration", v.Value)
			}
		}
		return code(v.Value), ""
	case "seconds":
		if env {
			return code(v.Value + "s"), ""
		}
		if _, err := strconv.ParseFloat(v.Value, 64); err != nil {
			return nil, fmt.Sprintf("\"%s\" is not a number of seconds", v.Value)
		}
		return code(v.Value + "s"), ""
	case "interval":
		return interval(v.Value)
	case "number", "bool", "size":
		if !single {
			return nil, "one value is expected"
		}
		return code(strings.ReplaceAll(v.Value, "_", "")), ""
	case "sql_driver":
		switch v.Value {
		case "postgres", "mysql", "sqlite":
			return scalar(v.Value), ""
		case "clickhouse":
			return nil, "flowd speaks HTTP with ClickHouse: write `driver: clickhouse` and a dsn such as " +
				"http://USER:PASSWORD@HOST:8123/DATABASE"
		}
		return nil, fmt.Sprintf("flowd has no driver for %s", v.Value)
	}
	panic("components.yaml has the kind " + as)
}

// plainCopy returns a value without places.
func plainCopy(n *yaml.Node) *yaml.Node {
	c := *n
	c.Content = nil
	c.Style &= yaml.LiteralStyle | yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle
	for _, item := range n.Content {
		c.Content = append(c.Content, plainCopy(item))
	}
	return &c
}

// interval returns an interval: a duration, or a cron expression with five fields.
func interval(s string) (*yaml.Node, string) {
	s = strings.TrimPrefix(s, "@every ")
	if _, err := time.ParseDuration(s); err == nil || strings.ContainsRune(s, hiddenFirst) {
		return code(s), ""
	}
	named := map[string]string{"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *",
		"@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *"}
	if cron := named[s]; cron != "" {
		return scalar(cron), ""
	}
	parts := strings.Fields(s)
	if len(parts) == 6 && parts[0] == "0" {
		parts = parts[1:]
	}
	if len(parts) != 5 || strings.HasPrefix(s, "TZ=") {
		return nil, "an interval is a duration or a cron expression of five fields, in UTC"
	}
	return scalar(strings.Join(parts, " ")), ""
}
