package migrate

import (
	"fmt"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// Statuses with a standard meaning.
var (
	successes = []string{"200", "201", "202", "203", "204", "205", "206", "207", "208", "226"}
	redirects = []string{"300", "301", "302", "303", "304", "305", "307", "308"}
)

// statuses translates which statuses are successes: all of 2xx and successful_on, and redirects that are not
// followed, but not drop_on and backoff_on.
func (t *translator) statuses(c *component) {
	follow := pairOf(c.config, "follow_redirects")
	stays := follow.key != nil && follow.value.Value == "false"
	added, failed := items(lookup(c.config, "successful_on")), items(lookup(c.config, "drop_on"))
	if stays && c.kind == "output" {
		for _, status := range redirects {
			added = append(added, &yaml.Node{Value: status})
		}
	} else if stays {
		t.lostField(c.out, follow, fmt.Sprintf(
			"follow_redirects of %s: redirects are followed where they lead to the same host", c.key.Value))
	}
	all := slices.Clone(successes)
	for _, n := range added {
		if !slices.Contains(all, n.Value) {
			all = append(all, n.Value)
		}
	}
	refused := slices.Concat(failed, items(lookup(c.config, "backoff_on")))
	all = slices.DeleteFunc(all, func(status string) bool {
		return slices.ContainsFunc(refused, func(n *yaml.Node) bool { return n.Value == status })
	})
	if !slices.Equal(all, successes) {
		slices.Sort(all)
		expect := list()
		for _, status := range all {
			expect.Content = append(expect.Content, code(status))
		}
		put(c.out, "expect", expect)
		t.differs(expect, lookupOr(c.config, "successful_on", "drop_on", "follow_redirects"),
			"successes are listed one by one: a status that no standard names, such as 299, is none")
	}
	for _, n := range failed {
		if passing(n.Value) {
			t.differs(c.out, n, "an answer of "+n.Value+" is tried again, as retry says; there, it was not")
		}
	}
}

// passing reports whether flowd treats a status as a temporary failure.
func passing(status string) bool {
	n, _ := strconv.Atoi(status)
	return n == 408 || n == 425 || n == 429 || n >= 500
}

// backoffOn notes which statuses have no special pause in flowd. Those of 2xx do not count as successes.
func backoffOn(t *translator, c *component, p pair) string {
	for _, n := range items(p.value) {
		if !passing(n.Value) {
			t.differs(c.out, n, "an answer of "+n.Value+" is not tried again; there, it was, after a growing pause")
		}
	}
	return ""
}

// polled translates the polling of the input http_client: there, each answer is one message, and the next request
// follows at once.
func (t *translator) polled(c *component) {
	if !has(c.out, "stream") {
		put(c.out, "framing", scalar("whole"))
		put(c.out, "interval", code("1s"))
		t.differs(c.out, c.key,
			"an answer is asked for again a second after the one before, unless interval says otherwise")
		return
	}
	stream := lookup(c.config, "stream")
	t.differs(c.out, lookupOr(c.config, "stream"), "each line of a stream is a JSON document: another one fails")
	said := t.emptied
	t.emptied = said || text(c.config, "drop_empty_bodies") != "false" // then empty lines are not messages there, either
	defer func() { t.emptied = said }()
	if text(stream, "reconnect") == "false" {
		t.differs(c.out, lookup(stream, "reconnect"),
			"a stream that ends is opened again, except by an answer of 204; there, the input ended")
	}
	for _, p := range pairsOf(stream) {
		if p.key.Value != "scanner" && p.key.Value != "codec" || empty(p.value) {
			continue
		}
		form, compression, why := scan(t, c, p.value)
		if why == "" && (form == nil || form.Value != "lines" || compression != "") {
			why = "a stream is read line by line (ndjson) or as server-sent events (sse)"
		}
		if why != "" {
			t.lostField(c.out, p, fmt.Sprintf("stream.%s of %s: %s", p.key.Value, c.key.Value, why))
		}
	}
}
