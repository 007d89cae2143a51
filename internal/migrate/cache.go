package migrate

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// cacheStep translates a use of a cache.
func cacheStep(t *translator, c *component) ([]*yaml.Node, string) {
	name := text(c.config, "resource")
	if name == "" {
		name = text(c.config, "cache")
	}
	t.use("cache", name)
	n := mapping()
	key := code(t.templateExpr(n, lookupOr(c.config, "key"), text(c.config, "key"), c.ctx))
	body := mapping()
	finish := func(more ...*yaml.Node) ([]*yaml.Node, string) {
		put(n, "cache", body)
		return append([]*yaml.Node{n}, more...), ""
	}
	value := func() {
		v := text(c.config, "value")
		if strings.TrimSpace(strings.Trim(v, "${!} ")) == "content()" {
			put(body, "value", code("this"))
		} else {
			put(body, "value", code(t.templateExpr(n, lookupOr(c.config, "value"), v, c.ctx)))
		}
		if ttl := text(c.config, "ttl"); ttl != "" && !strings.Contains(ttl, "${!") {
			put(body, "ttl", code(ttl))
		} else if ttl != "" {
			t.lostField(n, pair{scalar("ttl"), lookup(c.config, "ttl")}, "ttl of cache is a duration, the same for all values")
		}
	}
	switch operator := text(c.config, "operator"); operator {
	case "get", "exists":
		put(body, "get", scalar(name))
		put(body, "key", key)
		put(body, "into", scalar("this"))
		if operator == "exists" {
			return finish(short("map", code("this != nil")))
		}
		missing := mapping("fail", "key does not exist", "when", code("this == nil"))
		if t.texts[name] {
			return finish(missing, short("payload", code("this")))
		}
		return finish(missing)
	case "set":
		put(body, "set", scalar(name))
		put(body, "key", key)
		value()
		return finish()
	case "add":
		put(body, "add", scalar(name))
		put(body, "key", key)
		value()
		put(body, "into", scalar("cache_added"))
		return finish(mapping("fail", "key already exists", "when", code("not cache_added")), short("unset", "cache_added"))
	case "delete":
		put(body, "delete", scalar(name))
		put(body, "key", key)
		return finish()
	default:
		return nil, fmt.Sprintf("the operator \"%s\" of cache has no counterpart", operator)
	}
}

// dedupe translates a dedupe, with the lifetime of its cache.
func dedupe(t *translator, c *component) ([]*yaml.Node, string) {
	n := mapping()
	key := text(c.config, "key")
	if strings.TrimSpace(strings.Trim(key, "${!} ")) == "content()" {
		key = "raw()"
	} else {
		key = t.templateExpr(n, lookupOr(c.config, "key"), key, c.ctx)
	}
	name := text(c.config, "cache")
	body := mapping("key", code(key))
	window := "8760h"
	if def := t.use("cache", name); def != nil {
		if ttl := ttlOf(def); ttl != "" {
			window = ttl
		}
	}
	put(body, "window", code(window))
	put(body, "cache", scalar(name))
	put(n, "dedupe", body)
	if text(c.config, "strategy") == "LIFO" {
		return nil, "dedupe keeps the first message of a key, not the last"
	}
	t.differs(n, c.key, "a key counts when its message is delivered; if that fails, the next message with the key is no "+
		"duplicate")
	return []*yaml.Node{n}, ""
}

// ttlOf returns how long a cache in the source configuration keeps values, or "".
func ttlOf(def *yaml.Node) string {
	for _, p := range pairsOf(def) {
		ttl := lookup(p.value, "default_ttl")
		switch {
		case ttl != nil && ttl.Value != "":
			return ttl.Value
		case ttl == nil && (p.key.Value == "memory" || p.key.Value == "ttlru"):
			return "5m"
		}
	}
	return ""
}
