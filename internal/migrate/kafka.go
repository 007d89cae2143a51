package migrate

import (
	"regexp"
	"strconv"
	"strings"
)

// partitioners are the partitioners that differ from the Java client's choice by key, with what each does to a
// message with a key.
var partitioners = map[string]string{
	"fnv1a_hash":   "a key goes to the partition that the Java client chooses, not to that of fnv1a_hash",
	"round_robin":  "a key chooses the partition, as in the Java client; there, messages went to all in turn",
	"random":       "a key chooses the partition, as in the Java client; there, messages went to any",
	"least_backup": "a key chooses the partition, as in the Java client; there, messages went to the least busy",
}

// partitioned notes what happens to the keys of an output of Kafka.
func (t *translator) partitioned(c *component) {
	how := text(c.config, "partitioner")
	if how == "" && c.key.Value == "kafka" {
		how = "fnv1a_hash"
	}
	if key := lookup(c.config, "key"); !empty(key) && partitioners[how] != "" {
		t.differs(c.out, key, partitioners[how])
	}
}

// sasl translates the login to Kafka.
func sasl(t *translator, c *component, p pair) string {
	all := items(p.value)
	if len(all) == 0 {
		return ""
	}
	if len(all) > 1 {
		return "there is one way to log in"
	}
	s := all[0]
	mechanism := strings.ToUpper(text(s, "mechanism"))
	switch mechanism {
	case "", "NONE":
		return ""
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
	default:
		return "there is no counterpart of " + mechanism
	}
	user := text(s, "user")
	if user == "" {
		user = text(s, "username")
	}
	put(c.out, "sasl", mapping("mechanism", mechanism, "user", user, "password", text(s, "password")))
	return ""
}

// topics translates the topics that an input of Kafka reads.
func topics(t *translator, c *component, p pair) string {
	if text(c.config, "regexp_topics") == "true" {
		all := list()
		for _, item := range items(p.value) {
			if item.Value == ".*" || item.Value == ".+" {
				all.Content = append(all.Content, scalar("*"))
				continue
			}
			rest, found := strings.CutSuffix(strings.TrimPrefix(strings.TrimSuffix(item.Value, "$"), "^"), ".*")
			if regexp.QuoteMeta(rest) != rest && regexp.QuoteMeta(rest) != strings.ReplaceAll(rest, ".", `\.`) || !found {
				return "topics are patterns with *, ? and [a-z], not regular expressions"
			}
			all.Content = append(all.Content, scalar(rest+"*"))
		}
		put(c.out, "topics", all)
		return ""
	}
	all := list()
	partitions := list()
	for _, item := range items(p.value) {
		for one := range strings.SplitSeq(item.Value, ",") {
			topic, partition, chosen := strings.Cut(strings.TrimSpace(one), ":")
			if chosen {
				if _, err := strconv.Atoi(partition); err != nil || len(items(p.value)) > 1 {
					return "partitions are numbers, the same of all topics: partitions"
				}
				partitions.Content = append(partitions.Content, code(partition))
			}
			all.Content = append(all.Content, scalar(topic))
		}
	}
	if len(partitions.Content) > 0 {
		put(c.out, "partitions", partitions)
	}
	if len(all.Content) == 1 {
		put(c.out, "topics", carry(all.Content[0], p))
		return ""
	}
	put(c.out, "topics", all)
	return ""
}
