package nats_kv //nolint:revive // as the component is called

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

func configured(s *natstest.Server, bucket, more string) string {
	return fmt.Sprintf(`{"nats_kv": {"url": %q, "bucket": %q%s}}`, s.URL, bucket, more)
}

func TestConforms(t *testing.T) {
	s, n := natstest.Start(t, nil), atomic.Int32{}
	cachetest.Run(t, func(t *testing.T) engine.Cache {
		return cachetest.New(t, configured(s, fmt.Sprint("bucket", n.Add(1)), ""))
	})
}

func TestProcessesShareIt(t *testing.T) {
	s, n := natstest.Start(t, nil), atomic.Int32{}
	cachetest.Shared(t, func(t *testing.T) (a, b engine.Cache) {
		component := configured(s, fmt.Sprint("bucket", n.Add(1)), "")
		return cachetest.New(t, component), cachetest.New(t, component)
	})
}

// What other programs have written can be read, and what flowd has written by them.
func TestABucketIsShared(t *testing.T) {
	s := natstest.Start(t, nil)
	a, b := cachetest.New(t, configured(s, "shared", "")), cachetest.New(t, configured(s, "shared", `, "create": false`))
	cachetest.Set(t, a, "user.1", "ada", time.Hour)
	if got := cachetest.Get(t, b, "user.1"); got != "ada" {
		t.Errorf("the other cache reads %q", got)
	}
	kv, err := s.JS.KeyValue(t.Context(), "shared")
	if err != nil {
		t.Fatal(err)
	}
	if e, err := kv.Get(t.Context(), "user.1"); err != nil || string(e.Value()) != "ada" {
		t.Errorf("another client reads %v, %v", e, err)
	}
	if _, err := kv.PutString(t.Context(), "user.2", "kim"); err != nil {
		t.Fatal(err)
	}
	if got := cachetest.Get(t, a, "user.2"); got != "kim" {
		t.Errorf("of another client flowd reads %q", got)
	}
	if err := kv.Delete(t.Context(), "user.2"); err != nil {
		t.Fatal(err)
	}
	if got := cachetest.Swap(t, a, "user.2", "", "eve", time.Hour); got != "done" {
		t.Errorf("claim of what another client has deleted: %s", got)
	}
}

func TestTroubleIsExplained(t *testing.T) {
	s := natstest.Start(t, nil)
	t.Run("there is no bucket", func(t *testing.T) {
		c := enginetest.New(t, engine.Caches, configured(s, "none", `, "create": false`))
		err := c.(engine.Opener).Open(t.Context())
		if err == nil || !strings.Contains(err.Error(), "there is no bucket none (create it") {
			t.Errorf("%v", err)
		}
		cachetest.Close(t, c)
	})
	t.Run("the bucket is full", func(t *testing.T) {
		_, err := s.JS.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "full", MaxBytes: 2000})
		if err != nil {
			t.Fatal(err)
		}
		c := cachetest.New(t, configured(s, "full", ""))
		for i := range 100 {
			if err = c.Set(t.Context(), fmt.Sprint(i), make([]byte, 100), 0); err != nil {
				break
			}
		}
		if e := engine.ErrorOf(err, ""); err == nil || e.Class != engine.Transient || !strings.Contains(err.Error(), "full") {
			t.Errorf("%v", err)
		}
	})
	t.Run("the bucket is deleted", func(t *testing.T) {
		c := cachetest.New(t, configured(s, "lost", ""))
		cachetest.Set(t, c, "a", "1", 0)
		if err := s.JS.DeleteKeyValue(t.Context(), "lost"); err != nil {
			t.Fatal(err)
		}
		_, _, err := c.Get(t.Context(), "a")
		if e := engine.ErrorOf(err, ""); err == nil || !e.Holds || !strings.Contains(err.Error(), "bucket lost, or JetStream, is gone") {
			t.Errorf("%v", err)
		}
		cachetest.Set(t, c, "b", "2", 0)
		if got := cachetest.Get(t, c, "b"); got != "2" {
			t.Errorf("in the new bucket the value is %q", got)
		}
	})
	t.Run("the server restarts", func(t *testing.T) {
		c := cachetest.New(t, configured(s, "kept", ""))
		cachetest.Set(t, c, "a", "1", 0)
		s.Stop()
		natstest.Until(t, "noticed", func() bool {
			_, _, err := c.Get(t.Context(), "a")
			return err != nil && engine.ErrorOf(err, "").Holds
		})
		s.Restart(t, nil)
		natstest.Until(t, "connected", func() bool { return c.Set(t.Context(), "b", []byte("3"), 0) == nil })
		if got := cachetest.Get(t, c, "b"); got != "3" {
			t.Errorf("after a restart the value is %q", got)
		}
	})
}

func FuzzSubjectsDiffer(f *testing.F) {
	f.Add("a", "=YQ")
	f.Add("", "=")
	f.Add("a..b", "=YS4uYg")
	b := &bucket{prefix: "$KV.b."}
	f.Fuzz(func(t *testing.T, x, y string) {
		if x != y && b.subject(x) == b.subject(y) {
			t.Errorf("%q and %q are both %q", x, y, b.subject(x))
		}
	})
}
