package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/queue/kafka"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/schema"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRefusalsAreExplained uses logins that brokers refuse, or that lack a permission. The log says what to do, and the pipeline
// retries, since permissions may be granted.
func TestRefusalsAreExplained(t *testing.T) {
	t.Parallel()
	all := func(kind kmsg.ACLResourceType, name string) kfake.ACL {
		return kfake.ACL{Resource: kind, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: kmsg.ACLOperationAll, Allow: true}
	}
	topic, group := all(kmsg.ACLResourceTypeTopic, "orders"), all(kmsg.ACLResourceTypeGroup, "g")
	c := kafkatest.Start(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"),
		kfake.User("PLAIN", "group-only", "x", group), kfake.User("PLAIN", "topic-only", "x", topic),
		kfake.User("SCRAM-SHA-256", "scram", "x", topic, group), kfake.SeedTopics(1, "orders"))
	tests := map[string]struct {
		sasl kafka.SASL
		want string
	}{
		"no login": {kafka.SASL{}, "the broker closed the connection"},
		// A real broker says why. The fake one closes the connection.
		"a wrong password": {kafka.SASL{Mechanism: "PLAIN", User: "topic-only", Password: schema.NewSecret("y")},
			"check the port, `tls` and `sasl`"},
		"a mechanism that is not offered": {kafka.SASL{Mechanism: "OAUTHBEARER", Token: schema.NewSecret("y")},
			"choose a mechanism"},
		"no right to the topic": {kafka.SASL{Mechanism: "PLAIN", User: "group-only", Password: schema.NewSecret("x")},
			"--topic TOPIC"},
		"no right to the group": {kafka.SASL{Mechanism: "PLAIN", User: "topic-only", Password: schema.NewSecret("x")},
			"--group GROUP"},
		"all rights": {kafka.SASL{Mechanism: "SCRAM-SHA-256", User: "scram", Password: schema.NewSecret("x")},
			"partitions were assigned"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(c, "orders")
			if tt.sasl.Mechanism != "" {
				cfg.SASL = &tt.sasl
			}
			m := start(t, cfg, func(p *engine.Pipeline) { p.Engine.Restart.Backoff = 10 * time.Millisecond }, &enginetest.Sink{})
			until(t, "explained: "+tt.want, func() bool { return strings.Contains(m.log.String(), tt.want) || ended(m) })
			if !strings.Contains(m.log.String(), tt.want) &&
				(m.rep.Err == nil || !strings.Contains(m.rep.Err.Error(), tt.want)) {
				t.Errorf("not explained: %+v\n%s", m.rep, m.log.String())
			}
		})
	}
}

func ended(m *member) bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}
