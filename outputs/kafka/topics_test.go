package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// failed returns the error of a write or, if there is none, that of its only message.
func failed(t *testing.T, o engine.Output, within time.Duration, bodies ...string) (e *engine.Error, whole bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	b := enginetest.Batch(bodies...)
	var why error
	all := slices.Collect(b.All())
	err := o.Write(ctx, b)
	for _, m := range all {
		if m.Err() != nil {
			why = m.Err()
		}
	}
	switch {
	case err != nil:
		return engine.ErrorOf(err, ""), true
	case why != nil:
		return engine.ErrorOf(why, ""), false
	}
	return nil, false
}

// TestAMissingTopicIsNotCreated checks that, even if brokers create topics on request. If the output has only one topic, it is held;
// otherwise the message fails.
func TestAMissingTopicIsNotCreated(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.AllowAutoTopicCreation())
	e, whole := failed(t, opened(t, c, `"topic": "missing"`), 10*time.Second, "x")
	if e == nil || !whole || !e.HoldsOutput() || e.Class != engine.Transient ||
		!strings.Contains(e.Error(), "create the topic") {
		t.Errorf("one topic: %v, of the output: %t", e, whole)
	}
	e, whole = failed(t, opened(t, c, `"topic": "$(to)"`), 10*time.Second, `{"to": "missing"}`)
	if e == nil || whole || e.Class != engine.Rejected || !strings.Contains(e.Error(), "topic missing") {
		t.Errorf("one of several: %v, of the output: %t", e, whole)
	}
	if names, err := c.Admin.ListTopics(t.Context()); err != nil || names.Has("missing") {
		t.Errorf("topics %v: %v", names.Names(), err)
	}
}

// TestATopicThatIsDeletedWhileItRuns checks that the output is held until the topic exists again. With declare, flowd creates it.
func TestATopicThatIsDeletedWhileItRuns(t *testing.T) {
	t.Parallel()
	for _, declare := range []bool{false, true} {
		t.Run(fmt.Sprintf("declare %t", declare), func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t)
			c.Create(t, "orders", 2)
			fields := `"topic": "orders"`
			if declare {
				fields += `, "declare": {"partitions": 2}`
			}
			o := opened(t, c, fields)
			if e, _ := failed(t, o, 10*time.Second, "before"); e != nil {
				t.Fatal(e)
			}
			if err := c.Fake.DeleteTopic("orders"); err != nil {
				t.Fatal(err)
			}
			e, whole := failed(t, o, 10*time.Second, "meanwhile")
			if e == nil || !whole || !e.HoldsOutput() {
				t.Fatalf("a deleted topic: %v, of the output: %t", e, whole)
			}
			if !declare {
				c.Create(t, "orders", 2)
			}
			for range 10 {
				if err := o.(engine.Prober).Probe(t.Context()); err != nil {
					t.Fatal(err)
				}
				if e, _ = failed(t, o, 10*time.Second, "after"); e == nil {
					break
				}
			}
			all := c.Read(t, "orders")
			if e != nil || len(all) != 1 || string(all[0].Value) != "after" {
				t.Errorf("when it is there again: %v, %d records", e, len(all))
			}
		})
	}
}

func TestDeclareCreatesWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.NumBrokers(3))
	o := opened(t, c, `"topic": "$(to)",
		"declare": {"partitions": 3, "replication": 2, "config": {"retention.ms": "86400000"}}`)
	errs, err := sent(t, o, enginetest.Batch(`{"to": "a"}`, `{"to": "b"}`, `{"to": "a"}`))
	if err != nil || errors.Join(errs...) != nil {
		t.Fatal(err, errs)
	}
	for topic, n := range map[string]int{"a": 2, "b": 1} {
		found, err := c.Admin.ListTopics(t.Context(), topic)
		if p := found[topic].Partitions; err != nil || len(p) != 3 || len(p[0].Replicas) != 2 || len(c.Read(t, topic)) != n {
			t.Errorf("topic %s: %+v: %v", topic, p, err)
		}
		configs, err := c.Admin.DescribeTopicConfigs(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if v := setting(configs, "retention.ms"); v != "86400000" {
			t.Errorf("topic %s: retention.ms is %q", topic, v)
		}
	}
}

func setting(all kadm.ResourceConfigs, name string) string {
	for _, r := range all {
		for _, c := range r.Configs {
			if c.Key == name {
				return c.MaybeValue()
			}
		}
	}
	return ""
}

// TestDeclareLeavesATopicAsItIs checks that the log reports a different number of partitions.
func TestDeclareLeavesATopicAsItIs(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t)
	c.Create(t, "orders", 1)
	for declared, warns := range map[int]bool{6: true, 1: false} {
		var log enginetest.Transcript
		o := logged(t, c, &log, fmt.Sprintf(`"topic": "orders", "declare": {"partitions": %d}`, declared))
		if e, _ := failed(t, o, 10*time.Second, "x"); e != nil {
			t.Fatal(e)
		}
		warned := strings.Contains(log.String(), "level=WARN msg=\"topic has another number of partitions than "+
			"`declare` says; it is not changed\" topic=orders partitions=1 declared=6")
		if warned != warns || !warns && strings.Contains(log.String(), "WARN") {
			t.Errorf("declared are %d:\n%s", declared, log.String())
		}
	}
	if found, err := c.Admin.ListTopics(t.Context(), "orders"); err != nil || len(found["orders"].Partitions) != 1 {
		t.Errorf("it has %d partitions: %v", len(found["orders"].Partitions), err)
	}
}

// TestATopicThatCanNotBeCreated checks that the output is held, whatever the reason is, and that the error names the reason.
func TestATopicThatCanNotBeCreated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err   *kerr.Error
		class engine.Class
		says  string
	}{
		{kerr.TopicAuthorizationFailed, engine.Auth, "create topic orders"},
		{kerr.PolicyViolation, engine.Rejected, "ask its administrators"},
		{kerr.InvalidReplicationFactor, engine.Transient, "INVALID_REPLICATION_FACTOR"},
	} {
		c := kafkatest.Start(t)
		o := opened(t, c, `"topic": "$(to)", "declare": {"replication": 3}`)
		c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: "orders", Err: tt.err, Count: -1})
		e, whole := failed(t, o, 10*time.Second, `{"to": "orders"}`)
		if e == nil || !whole || !e.HoldsOutput() || e.Class != tt.class || !strings.Contains(e.Error(), tt.says) {
			t.Errorf("%s: class %s, %v, of the output: %t", tt.err.Message, e.Class, e, whole)
		}
	}
}

// TestATopicThatMayNotBeWritten checks that the output is held if it has one topic, and that otherwise the message fails alone.
func TestATopicThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	may := func(name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral,
			Operation: op, Allow: true}
	}
	c := kafkatest.Start(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"),
		kfake.User("PLAIN", "me", "x", may("mine", kmsg.ACLOperationWrite), may("mine", kmsg.ACLOperationDescribe),
			may("theirs", kmsg.ACLOperationDescribe)), kfake.SeedTopics(1, "mine", "theirs"))
	login := `"sasl": {"mechanism": "PLAIN", "user": "me", "password": "x"}, `
	e, whole := failed(t, opened(t, c, login+`"topic": "theirs"`), 10*time.Second, "x")
	if e == nil || !whole || e.Class != engine.Auth ||
		!strings.Contains(e.Error(), "--operation READ or WRITE --topic TOPIC") {
		t.Errorf("one topic: %v, of the output: %t", e, whole)
	}
	o := opened(t, c, login+`"topic": "$(to)"`)
	errs, err := sent(t, o, enginetest.Batch(`{"to": "mine"}`, `{"to": "theirs"}`, `{"to": "mine"}`))
	if err != nil || errs[0] != nil || errs[1] == nil || errs[2] != nil ||
		engine.ErrorOf(errs[1], "").Class != engine.Rejected {
		t.Errorf("one of several: %v, %v", err, errs)
	}
	if n := len(c.As(t, kafkatest.Login("admin", "admin")).Read(t, "mine")); n != 2 {
		t.Errorf("%d records are written, want 2", n)
	}
}
