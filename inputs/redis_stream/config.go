// Package redisstream reads streams of Redis as a member of a consumer group. Start at [input.Read]. fetch.go fetches
// entries; settle.go acknowledges entries, and renews those in flight so that no other consumer claims them.
package redisstream

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
)

// Config configures the input.
type Config struct {
	redis.Connect `yaml:",inline"`
	Key           engine.Names  `yaml:"key" check:"required" doc:"Stream to read, or a list of them. In a cluster, several must be in one slot, so their names need the same {tag}."`
	Group         string        `yaml:"group" check:"required,nonempty" doc:"Consumer group: its consumers share the entries, and it remembers what is settled."`
	Consumer      string        `yaml:"consumer" doc:"Name of this consumer, under which unsettled entries are kept for its next start; HOST.PIPELINE.INPUT by default. Each process needs its own, the same at every start. Instances of one input append -0, -1 and so on."`
	Create        bool          `yaml:"create" doc:"Create a group, and its stream, if it is missing, even if it is dropped while it is read. With false, the input waits until somebody creates it."`
	Start         string        `yaml:"start" doc:"Where a group that this input creates begins: earliest, latest (entries added from then on), or the id of an entry, after which it begins."`
	Field         string        `yaml:"field" doc:"Field with the payload; the others become metadata. \"\" makes all fields the payload, as a JSON object."`
	ClaimAfter    time.Duration `yaml:"claim_after" check:"min=1s,max=24h" doc:"How long an entry may be idle before another consumer claims it. While one is in flight here, it is renewed well before."`
	MaxDeliver    int           `yaml:"max_deliver" check:"min=0" doc:"Maximum number of deliveries of an entry: one that was delivered more often, for instance because it crashes its readers, fails unread (class rejected) and goes where on_failure says. 0 means no limit."`
	Delete        bool          `yaml:"delete" doc:"Delete settled entries from the stream. With several groups, the slower ones lose them."`
}

const (
	earliest = "earliest"
	latest   = "latest"
)

var validID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{1,20}(-\d{1,20})?$`) })

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	if len(c.Key) == 0 || slices.Contains(c.Key, "") {
		report("key", "is empty", "name a stream")
	}
	for i, k := range c.Key {
		switch {
		case slices.Contains(c.Key[:i], k):
			report("key", strconv.Quote(k)+" is named twice", "remove one")
		case c.Clustered() && redis.Tag(k) != redis.Tag(c.Key[0]):
			report("key", fmt.Sprintf("%q and %q may be on different nodes of the cluster", c.Key[0], k),
				"give both the same {tag}, or make an input of each")
		}
	}
	if c.Start != earliest && c.Start != latest && !validID().MatchString(c.Start) {
		report("start", fmt.Sprintf("%q is not a position in a stream", c.Start), "write earliest, latest or an id such "+
			"as 1700000000000-0")
	}
}

// startID returns start as XGROUP CREATE expects it.
func (c *Config) startID() string {
	switch c.Start {
	case earliest:
		return "0"
	case latest:
		return "$"
	}
	return c.Start
}

const about = `
Reads streams in Redis (6.2 or newer), as a consumer in a group.

An entry is acknowledged (XACK) when it is settled. Entries that a consumer has read but not
settled stay with it: after a restart they are read first. An entry that has been idle for
claim_after is claimed by another consumer of the group (XAUTOCLAIM); entries in flight are
renewed, and if one is lost nevertheless, it stops before the next step or write. A message
that is returned because it failed is redelivered after claim_after; one that a stop returns,
at once.

Entries that were trimmed before they could be read are counted in the log. A group that is
dropped while it is read is recreated (create) before the oldest entry that this input has not
settled: entries that other consumers had in flight are not redelivered.

Metadata: stream, id, timestamp, delivery_count, redelivered, and the other fields by name. A
field with one of the names above becomes field_NAME; several fields with the same name become
a list.

    inputs:
      orders: {redis_stream: {url: "redis://localhost:6379", key: orders, group: shop}}
`

func init() {
	engine.Register(engine.Inputs, "redis_stream", about, Config{Connect: redis.Defaults, Create: true, Start: earliest,
		Field: "payload", ClaimAfter: time.Minute}, newInput)
}
