package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
)

func configured(url, prefix, more string) string {
	return fmt.Sprintf(`{"redis": {"url": %q, "prefix": %q%s}}`, url, prefix, more)
}

func TestConforms(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) engine.Cache {
		return cachetest.New(t, configured(redistest.URL(t), redistest.Key(t)+":", ""))
	})
}

func TestProcessesShareIt(t *testing.T) {
	cachetest.Shared(t, func(t *testing.T) (a, b engine.Cache) {
		component := configured(redistest.URL(t), redistest.Key(t)+":", "")
		return cachetest.New(t, component), cachetest.New(t, component)
	})
}

// Two processes have one cache; others have their own prefix, and values expire by the server's clock.
func TestACacheIsShared(t *testing.T) {
	url, prefix := redistest.URL(t), redistest.Key(t)+":"
	a, b := cachetest.New(t, configured(url, prefix, "")), cachetest.New(t, configured(url, prefix, `, "ttl": "1ms"`))
	other := cachetest.New(t, configured(url, redistest.Key(t)+":", ""))
	cachetest.Set(t, a, "kept", "1", 0)
	cachetest.Set(t, b, "gone", "2", 0) // by its default
	redistest.Until(t, func() error {
		if got := cachetest.Get(t, a, "gone"); got != "none" {
			return errors.New(got)
		}
		return nil
	})
	if got := cachetest.Get(t, b, "kept"); got != "1" {
		t.Errorf("the other process reads %q", got)
	}
	if got := cachetest.Get(t, other, "kept"); got != "none" {
		t.Errorf("with another prefix it is %q", got)
	}
	if ttl := redistest.Client(t, url).PTTL(t.Context(), prefix+"kept").Val(); ttl > 0 {
		t.Errorf("a value without a limit expires in %v", ttl)
	}
}

func TestTroubleIsExplained(t *testing.T) {
	r := redistest.Own(t, "--maxmemory-policy", "noeviction")
	cache := cachetest.New(t, configured(r.URL(), "p:", ""))
	c := redistest.Client(t, r.URL())
	set := func() engine.Class {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		e, _ := errors.AsType[*engine.Error](cache.Set(ctx, "a", []byte("1"), 0))
		if e == nil {
			return ""
		}
		return e.Class
	}
	c.ConfigSet(t.Context(), "maxmemory", "1")
	if class := set(); class != engine.Transient {
		t.Errorf("without memory the class is %q", class)
	}
	c.ConfigSet(t.Context(), "maxmemory", "0")
	c.LPush(t.Context(), "p:list", "x")
	_, _, err := cache.Get(t.Context(), "list")
	if e, ok := errors.AsType[*engine.Error](err); !ok || e.Class != engine.Permanent {
		t.Errorf("a key of another type: %v", err)
	}
	r.Stop()
	if class := set(); class != engine.Transient {
		t.Errorf("without a server the class is %q", class)
	}
	trouble := cache.(engine.Troubled).Trouble
	if said := trouble(); said == nil || !strings.Contains(said.Cause, "check that the server runs") {
		t.Errorf("without a server the trouble is %v", said)
	}
	r.Start(t)
	redistest.Until(t, func() error {
		if class := set(); class != "" {
			return fmt.Errorf("class %s", class)
		}
		return nil
	})
	if said := trouble(); said != nil {
		t.Errorf("with a server again the trouble is %v", said)
	}
}
