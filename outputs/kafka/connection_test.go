package kafka

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestLogins logs in with the right password and with wrong ones. If Open fails, it says why, and does not show the password.
func TestLogins(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		c := kafkatest.Start(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "admin"),
			kfake.Superuser(mechanism, "me", "s3cret"), kfake.SeedTopics(1, "orders"))
		fields := fmt.Sprintf(`"topic": "orders", "sasl": {"mechanism": %q, "user": "me", "password": "s3cret"}`, mechanism)
		if e, _ := failed(t, opened(t, c, fields), 10*time.Second, "x"); e != nil {
			t.Errorf("%s: %v", mechanism, e)
		}
		c.RefuseLogins()
		err := closed(t, c, strings.Replace(fields, "s3cret", "wr0ng", 1)).Open(t.Context())
		if e := engine.ErrorOf(err, ""); err == nil || e.Class != engine.Auth ||
			!strings.Contains(err.Error(), "check user, password and mechanism in `sasl`") ||
			strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("%s with a wrong password: class %s, %v", mechanism, e.Class, err)
		}
	}
}

// TestAPasswordThatIsRevokedHoldsTheOutput revokes a password while the output runs. Brokers are not flooded with logins.
func TestAPasswordThatIsRevokedHoldsTheOutput(t *testing.T) {
	t.Parallel()
	c := kafkatest.Start(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.SeedTopics(1, "orders"))
	o := opened(t, c, `"topic": "orders", "sasl": {"mechanism": "PLAIN", "user": "admin", "password": "admin"}`)
	if e, _ := failed(t, o, 10*time.Second, "before"); e != nil {
		t.Fatal(e)
	}
	var logins atomic.Int32
	c.Fake.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Fake.KeepControl()
		logins.Add(1)
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return answer, nil, true
	})
	c.Cut()
	e, whole := failed(t, o, 3*time.Second, "meanwhile")
	if e == nil || !whole || !e.HoldsOutput() || e.Class != engine.Auth {
		t.Errorf("class %s: %v, of the output: %t", e.Class, e, whole)
	}
	if n := logins.Load(); n == 0 || n > 30 {
		t.Errorf("%d logins within a write of 3s", n)
	}
}

// TestTLS connects to brokers whose certificate is signed by a private authority.
func TestTLS(t *testing.T) {
	t.Parallel()
	ca, conf := kafkatest.Authority(t)
	other, _ := kafkatest.Authority(t)
	dir := t.TempDir()
	file := func(name string, pem []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right, wrong := file("ca.pem", ca), file("other.pem", other)
	c := kafkatest.Start(t, kfake.TLS(conf), kfake.SeedTopics(1, "orders"))
	for _, tt := range []struct {
		name   string
		fields string
		class  engine.Class // "": it works
		says   string
	}{
		{"the right authority", fmt.Sprintf(`"tls": {"ca": %q}`, right), "", ""},
		{"another authority", fmt.Sprintf(`"tls": {"ca": %q}`, wrong), engine.Auth,
			"name the authority in `tls: {ca: FILE}`"},
		{"the authorities of the system", `"tls": {}`, engine.Auth, "name the authority in `tls: {ca: FILE}`"},
		{"another name", fmt.Sprintf(`"tls": {"ca": %q, "server_name": "kafka.example"}`, right), engine.Auth,
			"set `tls: {server_name: …}`"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := closed(t, c, `"topic": "orders", `+tt.fields)
			err := o.Open(t.Context())
			if tt.class != "" {
				if e := engine.ErrorOf(err, ""); err == nil || e.Class != tt.class || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("class %s: %v; want %s: %s", e.Class, err, tt.class, tt.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, _ := failed(t, o, 10*time.Second, "x"); e != nil {
				t.Fatal(e)
			}
			if n := len(c.As(t, kgo.DialTLSConfig(&tls.Config{RootCAs: conf.RootCAs})).Read(t, "orders")); n != 1 {
				t.Errorf("%d records", n)
			}
		})
	}
}

// TestAnOutageLosesAndRepeatsNothing stops all brokers while batches are written.
func TestAnOutageLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("ordered %t", ordered), func(t *testing.T) {
			t.Parallel()
			const n = 5000
			c := kafkatest.Start(t, kfake.NumBrokers(3))
			topic := c.Topic(t, 3)
			source := &enginetest.Source{Every: 5 * time.Millisecond, PerRead: 20}
			for i := range n {
				source.Payloads = append(source.Payloads, fmt.Sprintf(`{"id": %d, "key": "k%d"}`, i, i%10))
			}
			o := closed(t, c, fmt.Sprintf(`"topic": %q, "key": "key", "timeout": "1s"`, topic))
			o.cfg.Brokers = strings.Split(c.Brokers, ",")
			var log enginetest.Transcript
			o.log = slog.New(slog.NewTextHandler(&log, nil))
			p := &engine.Pipeline{Name: "test", Inputs: enginetest.Named("in", source.Input()),
				Outputs: enginetest.Named("out", engine.OutputSpec{Concurrency: 2, Use: engine.Use(
					func(engine.Env) (engine.Output, error) { return o, nil })})}
			if ordered {
				p.Engine.OrderBy = expr.MustCompile("key")
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				enginetest.Run(t, p, nil)
			}()
			until(t, "some messages", func() bool { return written(t, c, topic) > n/10 })
			c.Down()
			until(t, "the outage is seen", func() bool { return strings.Contains(log.String(), "a broker can't be reached") })
			c.Up(t)
			<-done
			arrivedInOrder(t, c, topic, make([]error, n), ordered)
		})
	}
}

// until waits until f returns true.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !f(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after a minute: not yet %s", what)
		}
	}
}

// written returns the number of records in a topic.
func written(t *testing.T, c *kafkatest.Cluster, topic string) (n int) {
	t.Helper()
	ends, err := c.Admin.ListEndOffsets(t.Context(), topic)
	if err != nil {
		return 0 // the connection was cut
	}
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	return n
}

// TestTooFewReplicas checks that the output waits for replicas, even if a broker has already stored the records.
func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	for _, why := range []*kerr.Error{kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut} {
		t.Run(why.Message, func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Start(t)
			topic := c.Topic(t, 1)
			o := opened(t, c, fmt.Sprintf(`"topic": %q`, topic))
			fault := c.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: why, Count: 2})
			errs, err := sent(t, o, enginetest.Batch("a", "b", "c"))
			if err != nil || errors.Join(errs...) != nil || fault.Hits() != 2 {
				t.Errorf("%v, %v, after %d refusals", err, errs, fault.Hits())
			}
			if n := len(c.Read(t, topic)); n != 3 {
				t.Errorf("%d records are there, want 3", n)
			}
		})
	}
}
