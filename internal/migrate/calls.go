package migrate

import (
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// metric translates a user-defined metric.
func metric(t *translator, c *component) ([]*yaml.Node, string) {
	n, body := mapping(), mapping()
	value := text(c.config, "value")
	var expr string
	if value != "" {
		expr = t.templateExpr(n, lookup(c.config, "value"), value, c.ctx)
		if plain, err := strconv.Unquote(expr); err == nil {
			expr = plain
		} else {
			expr = "float(" + expr + ")"
		}
	}
	name := text(c.config, "name")
	switch kind := text(c.config, "type"); kind {
	case "counter":
		put(body, "counter", scalar(name))
	case "counter_by":
		put(body, "counter", scalar(name))
		put(body, "value", code(expr))
	case "gauge":
		put(body, "gauge", scalar(name))
		put(body, "value", code(expr))
	case "timing":
		put(body, "histogram", scalar(name))
		put(body, "value", code(expr+" / 1000000000"))
		t.differs(n, c.key, "a timing is a histogram in seconds, as Prometheus has them")
	default:
		return nil, fmt.Sprintf("a metric of type \"%s\" has no counterpart", kind)
	}
	if labels := lookup(c.config, "labels"); !empty(labels) {
		all := mapping()
		for _, p := range pairsOf(labels) {
			put(all, p.key.Value, carry(code(t.templateExpr(n, p.value, p.value.Value, c.ctx)), p))
		}
		put(body, "labels", all)
	}
	put(n, "metric", body)
	return []*yaml.Node{n}, ""
}

// finishSteps completes some components after the table was applied.
var finishSteps map[string]func(t *translator, c *component) ([]*yaml.Node, string)

func fillFinishSteps() {
	finishSteps = map[string]func(t *translator, c *component) ([]*yaml.Node, string){
		"http": httpStep, "sql_select": sqlSelect, "sql_insert": sqlInsert, "sql_raw": sqlRaw, "redis": redisStep,
		"command": command, "subprocess": command, "retry": retry,
	}
}

// httpStep adds the body: the payload, unless the method has no body.
func httpStep(t *translator, c *component) ([]*yaml.Node, string) {
	t.statuses(c)
	if name := text(c.config, "rate_limit"); name != "" {
		t.use("rate_limit", name)
		c.before = append(c.before, short("rate_limit", name))
	}
	method := strings.ToUpper(text(c.config, "verb"))
	if method == "" || method == "POST" {
		drop(c.out, "method")
	}
	if method == "GET" {
		drop(c.out, "method")
	}
	if method != "GET" && method != "HEAD" && method != "DELETE" {
		put(c.out, "body", code("raw()"))
		if lookup(c.out, "headers") == nil {
			put(c.out, "headers", mapping("Content-Type", "application/octet-stream"))
		}
	}
	return []*yaml.Node{t.close(c)}, ""
}

func redisStep(t *translator, c *component) ([]*yaml.Node, string) {
	if text(c.config, "command") == "" {
		return nil, "the command is missing; the older fields operator and key have no counterpart"
	}
	args, why := t.args(c)
	if why != "" {
		return nil, why
	}
	if len(args) > 0 {
		put(c.out, "args", list(args...))
	}
	return []*yaml.Node{t.close(c)}, ""
}

func command(t *translator, c *component) ([]*yaml.Node, string) {
	all := list(scalar(text(c.config, "name")))
	if c.key.Value == "subprocess" {
		for _, item := range items(lookup(c.config, "args")) {
			all.Content = append(all.Content, scalar(item.Value))
		}
	} else {
		args, why := t.args(c)
		if why != "" {
			return nil, why
		}
		for _, a := range args {
			plain, err := strconv.Unquote(a.Value)
			if err != nil {
				return nil, "arguments of a command are fixed: no data gets into them"
			}
			all.Content = append(all.Content, scalar(plain))
		}
	}
	out := mapping("command", all)
	out.Content = append(out.Content, c.out.Content...)
	c.out = out
	return []*yaml.Node{t.close(c)}, ""
}

func retry(t *translator, c *component) ([]*yaml.Node, string) {
	c.out = list(t.processors(lookup(c.config, "processors"), c.ctx)...)
	if lookup(c.common, "retry", "max_attempts") == nil {
		putAt(c.common, "retry.max_attempts", code("0"))
	}
	return []*yaml.Node{t.close(c)}, ""
}
