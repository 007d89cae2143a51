package mqtt

import (
	"fmt"
	"math"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/mqtt"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input.
type Config struct {
	mqtt.Connect  `yaml:",inline"`
	Topics        Topics        `yaml:"topics" check:"required,nonempty" doc:"Filters to subscribe to: one such as plant/+/state or plant/#, a list of them, or a map of filters to QoS."`
	QoS           int           `yaml:"qos" check:"min=0,max=2" doc:"Quality of service of filters without their own. 1 and 2: messages are acknowledged when they are settled; 0: messages in flight are lost in a crash."`
	Share         string        `yaml:"share" doc:"Group that shares the subscriptions: each message goes to one of its members. Short for filters $share/GROUP/FILTER; version 5 only."`
	AtMostOnce    bool          `yaml:"at_most_once" doc:"Accept that messages may be lost, with qos 0 or session_expiry 0s; otherwise lint warns."`
	CleanStart    bool          `yaml:"clean_start" doc:"Begin a new session when flowd starts. The server discards what it has kept for this client, including subscriptions of earlier configurations."`
	SessionExpiry time.Duration `yaml:"session_expiry" check:"min=0s" doc:"How long the server keeps the session, and messages for this client, while it is not connected. 0s: not at all; messages that were not settled are then lost with the connection. In version 3.1.1 the server decides."`
	Retained      string        `yaml:"retained" check:"oneof=new|always|never" doc:"When to read messages that the server retains: new, if a filter is new to the session; always, also after each start and each lost connection; or never."`
	Prefetch      int           `yaml:"prefetch" check:"min=1,max=65535" doc:"Maximum number of messages read but not yet settled (the receive maximum of version 5): this limits memory, and how large a batch can grow. Servers may have a lower limit, such as max_inflight_messages in Mosquitto, 20 by default."`
	MaxPacket     schema.Size   `yaml:"max_packet" check:"min=128,max=268435455" doc:"Largest message to accept, including its topic and properties; version 5 only. The server discards larger ones. By default 256MiB, the limit of the protocol."`
}

// Topics is a list of filters.
type Topics []Topic

// Topic is one filter.
type Topic struct {
	Filter string
	QoS    int // or unset
}

// unset is the QoS of a filter that has none of its own.
const unset = -1

// UnmarshalConfig reads a filter, a list of filters, or a map of filters to QoS.
func (t *Topics) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	*t = nil
	switch n.Kind {
	case schema.ListNode:
		var all []string
		d.Decode(n, &all)
		for _, f := range all {
			*t = append(*t, Topic{f, unset})
		}
	case schema.MapNode:
		var all schema.Map[int]
		d.Decode(n, &all)
		for f, qos := range all.All() {
			*t = append(*t, Topic{f, qos})
		}
	default:
		var one string
		d.Decode(n, &one)
		*t = Topics{{one, unset}}
	}
}

// DescribeConfig describes a filter, a list or a map.
func (t *Topics) DescribeConfig() *schema.Type {
	return schema.AnyOf("filter, list of filters, or map of filters and QoS", "", []string(nil), schema.Map[int]{})
}

// ShowConfig shows a list of filters, or a map of them to their own QoS.
func (t Topics) ShowConfig() (instead any, comment string) {
	var filters []string
	var own []schema.Entry[int]
	for _, one := range t {
		filters = append(filters, one.Filter)
		own = append(own, schema.Entry[int]{Key: one.Filter, Value: one.QoS})
	}
	if len(t) == 0 || t[0].QoS == unset {
		return filters, ""
	}
	return schema.MapOf(own...), ""
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Connect.CheckConfig(report)
	seen := map[string]bool{}
	for _, t := range c.Topics {
		if problem, remedy := mqtt.BadFilter(t.Filter); problem != "" {
			report("topics", fmt.Sprintf("%q %s", t.Filter, problem), remedy)
		} else if c.Share != "" && mqtt.IsShared(t.Filter) {
			report("topics", fmt.Sprintf("%q names a group, and share names another", t.Filter), "remove one of them")
		}
		if t.QoS != unset && (t.QoS < 0 || t.QoS > 2) {
			report("topics", fmt.Sprintf("%q has QoS %d", t.Filter, t.QoS), "write 0, 1 or 2")
		}
		if seen[t.Filter] {
			report("topics", fmt.Sprintf("%q occurs twice", t.Filter), "remove one")
		}
		seen[t.Filter] = true
	}
	if problem := mqtt.BadGroup(c.Share); problem != "" {
		report("share", problem, "write another name")
	}
	if c.IsV311() && c.Share != "" {
		report("share", "version 3.1.1 has no shared subscriptions",
			"write `version: 5`, or, if this server has them nevertheless, $share/GROUP/FILTER in `topics`")
	}
	if c.IsV311() && c.MaxPacket > 0 {
		report("max_packet", "can't be sent to the server with version 3.1.1", "remove it, or write `version: 5`")
	}
	if c.ClientID == "" && c.acknowledges() {
		report("client_id", "without a client_id the server can't keep messages for this client",
			"give this client a name that no other client has, or write `qos: 0` or `session_expiry: 0s`")
	}
	if c.AtMostOnce && c.acknowledges() {
		report("at_most_once", "messages are redelivered until they are settled", "remove it, or write `qos: 0`")
	}
	if c.SessionExpiry%time.Second != 0 {
		report("session_expiry", "has a fraction of a second", "write whole seconds: MQTT counts in seconds")
	}
}

// qos returns the QoS of a filter.
func (c *Config) qos(t Topic) int {
	if t.QoS == unset {
		return c.QoS
	}
	return t.QoS
}

// acknowledges reports whether the server keeps unacknowledged messages, even while this client is not connected.
func (c *Config) acknowledges() bool {
	if c.SessionExpiry == 0 {
		return false
	}
	for _, t := range c.Topics {
		if c.qos(t) > 0 {
			return true
		}
	}
	return false
}

// shares reports whether all subscriptions are shared, so that each message goes to one client of several.
func (c *Config) shares() bool {
	for _, t := range c.Topics {
		if c.Share == "" && !mqtt.IsShared(t.Filter) {
			return false
		}
	}
	return true
}

// Traits says that messages are settled up to a position, since MQTT acknowledges in order, and that they can't be redelivered
// if the server does not keep them. The server keeps the order of a topic, unless the subscription is shared.
func (c Config) Traits() engine.Traits {
	t := engine.Traits{Unsettled: c.Prefetch, Forgets: !c.acknowledges(), Lossy: c.AtMostOnce}
	if c.acknowledges() {
		t.TakesBack = engine.TakesPosition
	}
	if !c.shares() {
		t.OrderBy = `meta("topic")`
	}
	return t
}

// Words returns what users of other systems may write, and what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Connect.Words()
	for word, remedy := range map[string]string{
		"topic": "write `topics`", "filters": "write `topics`", "subscriptions": "write `topics`",
		"clean_session": "write `clean_start`, or `session_expiry: 0s`", "group": "write `share`",
		"receive_maximum": "write `prefetch`", "max_inflight": "write `prefetch`", "retain_handling": "write `retained`",
		"max_in_flight": "write `prefetch`", "auto_replay_nacks": "remove it: messages that fail go where on_failure says",
		"maximum_packet_size": "write `max_packet`",
	} {
		words[word] = remedy
	}
	return words
}

// The values of retained.
const (
	whenNew = "new"
	always  = "always"
	never   = "never"
)

// subscriptions returns the subscriptions to request.
func (c *Config) subscriptions() []mqtt.Subscription {
	handling := map[string]byte{always: 0, whenNew: 1, never: 2}[c.Retained]
	all := make([]mqtt.Subscription, 0, len(c.Topics))
	for _, t := range c.Topics {
		s := mqtt.Subscription{Filter: t.Filter, QoS: byte(c.qos(t)), Retains: handling}
		if c.Share != "" {
			s.Filter = mqtt.Shared(c.Share, t.Filter)
		}
		all = append(all, s)
	}
	return all
}

// expiry returns how long the server keeps the session, in seconds.
func (c *Config) expiry() uint32 {
	if !c.acknowledges() {
		return 0
	}
	return uint32(min(c.SessionExpiry/time.Second, math.MaxUint32))
}
