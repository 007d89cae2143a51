package migrate

import (
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// special translates fields that need more than another name. It returns the reason if it can't.
var special = map[string]func(t *translator, c *component, p pair) string{}

func fillSpecial() {
	limits := map[string]string{"timeout": "timeout", "concurrency": "concurrency"}
	for name, key := range limits {
		special[name] = func(_ *translator, c *component, p pair) string {
			if !empty(p.value) && p.value.Value != "0s" {
				put(c.common, key, carry(code(p.value.Value), p))
			}
			return ""
		}
	}
	for name, key := range map[string]string{"backoff": "backoff", "max_backoff": "max_backoff", "max_age": "max_age"} {
		special[name] = func(_ *translator, c *component, p pair) string {
			if d, err := time.ParseDuration(p.value.Value); err == nil && d > 0 {
				putAt(c.common, "retry."+key, carry(code(p.value.Value), p))
			}
			return ""
		}
	}
	attempts := func(unlimited bool) func(*translator, *component, pair) string {
		return func(_ *translator, c *component, p pair) string {
			n, err := strconv.Atoi(p.value.Value)
			if err != nil {
				return "a number of retries is expected"
			}
			if n > 0 || !unlimited {
				n++
			}
			putAt(c.common, "retry.max_attempts", carry(code(strconv.Itoa(n)), p))
			return ""
		}
	}
	special["max_retries"], special["retries"] = attempts(true), attempts(false)
	special["limit"] = func(t *translator, c *component, p pair) string {
		if empty(p.value) {
			return ""
		}
		t.use("rate_limit", p.value.Value)
		put(c.common, "rate_limit", scalar(p.value.Value))
		return ""
	}
	special["limit_step"] = func(t *translator, c *component, p pair) string {
		t.use("rate_limit", p.value.Value)
		put(c.out, "name", carry(scalar(p.value.Value), p))
		return ""
	}
	special["tls"] = func(_ *translator, c *component, _ pair) string {
		switch c.entry.To {
		case "kafka", "nats", "postgres_cdc", "sql":
			if lookup(c.out, "tls") == nil {
				put(c.out, "tls", mapping())
			}
		}
		return ""
	}
	special["client_certs"] = func(_ *translator, c *component, p pair) string {
		all := items(p.value)
		switch {
		case len(all) == 0:
			return ""
		case len(all) > 1 || text(all[0], "cert_file") == "" || text(all[0], "password") != "":
			return "one certificate is presented, from files without a password: tls.cert and tls.key"
		}
		putAt(c.out, "tls.cert", scalar(text(all[0], "cert_file")))
		putAt(c.out, "tls.key", scalar(text(all[0], "key_file")))
		return ""
	}
	special["sasl"] = sasl
	special["topics"] = topics
	special["bindings"] = func(_ *translator, c *component, p pair) string {
		all := list()
		for _, b := range items(p.value) {
			all.Content = append(all.Content, mapping("exchange", text(b, "exchange"), "routing_key", text(b, "key")))
		}
		if len(all.Content) > 0 {
			putAt(c.out, "declare.bindings", all)
		}
		return ""
	}
	special["redis_url"] = func(_ *translator, c *component, p pair) string {
		address := strings.NewReplacer("tcp://", "redis://").Replace(p.value.Value)
		switch text(c.config, "kind") {
		case "", "simple":
			put(c.out, "url", carry(scalar(address), p))
			return ""
		}
		hosts := list()
		for one := range strings.SplitSeq(address, ",") {
			u, err := url.Parse(one)
			if err != nil || u.Host == "" {
				return "the hosts of a cluster are needed: cluster, or sentinel"
			}
			hosts.Content = append(hosts.Content, scalar(u.Host))
		}
		if text(c.config, "kind") == "failover" {
			putAt(c.out, "sentinel.master", scalar(text(c.config, "master")))
			putAt(c.out, "sentinel.addresses", hosts)
			return ""
		}
		put(c.out, "cluster", hosts)
		return ""
	}
	special["channels"] = func(t *translator, c *component, p pair) string {
		key := "channels"
		if text(c.config, "use_patterns") == "true" {
			key = "patterns"
		}
		v, why := t.value(c, p.value, "list")
		put(c.out, key, v)
		return why
	}
	special["tables"] = func(t *translator, c *component, p pair) string {
		all := list()
		schema := text(c.config, "schema")
		for _, item := range items(p.value) {
			name := item.Value
			if schema != "" {
				name = schema + "." + name
			}
			all.Content = append(all.Content, scalar(name))
		}
		put(c.out, "tables", all)
		return ""
	}
	special["subject"] = func(t *translator, c *component, p pair) string {
		if text(c.config, "stream") == "" {
			return "a stream is read by its name: stream, and the subjects in declare.consumer.filter"
		}
		putAt(c.out, "declare.consumer.filter", scalar(p.value.Value))
		return ""
	}
	special["generated"] = func(t *translator, c *component, p pair) string {
		if p.value.Value != "1" {
			t.differs(c.out, p.key, "messages are generated one by one, not in batches of "+p.value.Value)
		}
		return ""
	}
	special["csv"] = func(_ *translator, c *component, p pair) string {
		if p.value.Value == "false" {
			putAt(c.out, "framing.csv.header", code("false"))
		}
		return ""
	}
	special["scanner"], special["codec"] = framing, framing
	special["scanner_whole"], special["codec_whole"] = framing, framing
	special["scanner_csv"] = framing
	special["codec_out"] = codecOut
	special["property"] = func(t *translator, c *component, p pair) string {
		if p.value.Value == "" || p.key.Value == "content_type" && p.value.Value == "application/octet-stream" {
			return ""
		}
		c.before = append(c.before, short("meta", mapping(p.key.Value,
			code(t.templateExpr(c.out, p.value, p.value.Value, c.ctx)))))
		return ""
	}
	special["suffix"] = upsert
	special["backoff_on"] = backoffOn
	special["answer_headers"] = func(_ *translator, c *component, p pair) string {
		if len(items(p.value)) == 0 {
			return ""
		}
		return "headers of the answer are named one by one: metadata"
	}
	special["schema"] = func(t *translator, c *component, p pair) string {
		if empty(p.value) {
			return ""
		}
		if p.key.Value == "schema_path" {
			c.out.Content = nil
			put(c.out, "file", scalar(strings.TrimPrefix(p.value.Value, "file://")))
			return ""
		}
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(p.value.Value), &doc); err != nil || len(doc.Content) == 0 ||
			doc.Content[0].Kind != yaml.MappingNode {
			return "the schema is not JSON"
		}
		put(c.out, "schema", plainCopy(doc.Content[0]))
		return ""
	}
	special["fields"] = func(t *translator, c *component, p pair) string {
		all, ok := t.assignments(c, p.value)
		if !ok {
			return "fields are written one by one: fields"
		}
		put(c.out, "fields", all)
		return ""
	}
	special["path"] = func(_ *translator, c *component, p pair) string {
		query := strings.TrimPrefix(strings.TrimSpace(p.value.Value), ".")
		if !simplePath().MatchString(query) {
			return "write it as an expression: map"
		}
		*c.out = *code("this." + query)
		return ""
	}
	special["init_values"] = func(_ *translator, c *component, p pair) string {
		all := mapping()
		for _, v := range pairsOf(p.value) {
			put(all, v.key.Value, carry(scalar(strings.TrimSpace(v.value.Value)), v))
		}
		if len(all.Content) > 0 {
			put(c.out, "values", all)
		}
		return ""
	}
	special["cache_file"] = func(t *translator, c *component, p pair) string {
		put(c.out, "path", scalar(path.Join(p.value.Value, c.label+".db")))
		t.differs(c.out, p.key, "a cache is one file, in a format of its own: what is in the directory is not read")
		return ""
	}
}

var simplePath = pattern(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*|\[\d+\])*$`)

var conflict = pattern(`(?i)^\s*ON\s+CONFLICT\s*\(([^)]*)\)\s*DO\s+UPDATE\s+SET\b`)

// upsert translates what happens to an existing row.
func upsert(_ *translator, c *component, p pair) string {
	m := conflict().FindStringSubmatch(p.value.Value)
	if m == nil {
		return "the statement is made by flowd: upsert names the key columns, query is a statement of your own"
	}
	all := list()
	for column := range strings.SplitSeq(m[1], ",") {
		all.Content = append(all.Content, scalar(strings.TrimSpace(column)))
	}
	put(c.out, "upsert", all)
	return ""
}
