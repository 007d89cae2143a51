package sql

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
	"github.com/flowd-io/flowd/internal/testing/cachetest"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/flowd-io/flowd/internal/testing/sqltest"
)

func configured(driver, dsn, more string) string {
	return fmt.Sprintf(`{"sql": {"driver": %q, "dsn": %q, "table": "flowd_cache"%s}}`, driver, dsn, more)
}

func TestConforms(t *testing.T) {
	for _, driver := range sqltest.Drivers {
		t.Run(driver, func(t *testing.T) {
			cachetest.Run(t, func(t *testing.T) engine.Cache {
				return cachetest.New(t, configured(driver, sqltest.Database(t, driver), ""))
			})
		})
	}
}

func TestProcessesShareIt(t *testing.T) {
	for _, driver := range sqltest.Drivers {
		t.Run(driver, func(t *testing.T) {
			cachetest.Shared(t, func(t *testing.T) (a, b engine.Cache) {
				component := configured(driver, sqltest.Database(t, driver), "")
				return cachetest.New(t, component), cachetest.New(t, component)
			})
		})
	}
}

func TestClickHouseIsNoCache(t *testing.T) {
	const at = "http://db.example:8123/web"
	if got := fmt.Sprint(enginetest.Problems(t, engine.Caches, configured("clickhouse", at, ""))); !strings.Contains(got, "no unique keys") {
		t.Errorf("got %s", got)
	}
}

// Two processes have one cache; what has expired is deleted when it is time.
func TestATableIsShared(t *testing.T) {
	for _, driver := range sqltest.Drivers {
		t.Run(driver, func(t *testing.T) {
			dsn := sqltest.Database(t, driver)
			a, b := cachetest.New(t, configured(driver, dsn, "")), cachetest.New(t, configured(driver, dsn, `, "ttl": "1ms"`))
			cachetest.Set(t, a, "kept", "1", 0)
			cachetest.Set(t, b, "gone", "2", 0) // by its default
			for cachetest.Get(t, b, "gone") != "none" {
				<-time.After(time.Millisecond)
			}
			if got := cachetest.Get(t, b, "kept"); got != "1" {
				t.Errorf("the other process reads %q", got)
			}
			a.(*cache).purged = time.Now().Add(-time.Hour)
			cachetest.Set(t, a, "new", "3", time.Hour)
			conn := sqltest.Connect(t, driver, dsn)
			got := sqltest.Rows(t, conn, "SELECT count(*) AS n FROM flowd_cache")
			if want := []string{`{"n":2}`}; !slices.Equal(got, want) {
				t.Errorf("the table has %s rows, want %s", got, want)
			}
		})
	}
}

// fails is the class of what a write fails with.
func fails(t *testing.T, c engine.Cache, key string) (class engine.Class, message string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := c.Set(ctx, key, []byte("x"), 0)
	if err == nil {
		t.Fatal("the write did not fail")
	}
	if e, ok := errors.AsType[*engine.Error](err); ok {
		class = e.Class
	}
	return class, err.Error()
}

func TestTroubleIsExplained(t *testing.T) {
	t.Run("the table is missing", func(t *testing.T) {
		for _, driver := range sqltest.Drivers {
			c := enginetest.New(t, engine.Caches, configured(driver, sqltest.Database(t, driver), `, "create": false`))
			err := c.(engine.Opener).Open(t.Context())
			if err == nil || !strings.Contains(err.Error(), "flowd_cache") {
				t.Errorf("%s: %v", driver, err)
			}
			cachetest.Close(t, c)
		}
	})
	t.Run("a key is too long", func(t *testing.T) {
		c := cachetest.New(t, configured("mariadb", sqltest.Database(t, "mariadb"), ""))
		if class, message := fails(t, c, strings.Repeat("k", 701)); class != engine.Rejected {
			t.Errorf("class %v: %s", class, message)
		}
	})
	t.Run("the server restarts", func(t *testing.T) {
		p := pgtest.Own(t)
		c := cachetest.New(t, configured("postgres", p.URL(""), ""))
		cachetest.Set(t, c, "a", "1", 0)
		p.Stop(t)
		if class, message := fails(t, c, "a"); class != engine.Transient {
			t.Errorf("class %v: %s", class, message)
		}
		p.Start(t)
		if got := cachetest.Get(t, c, "a"); got != "1" {
			t.Errorf("after a restart the value is %q", got)
		}
	})
}
