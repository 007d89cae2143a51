//go:build no_sql || (slim && !sql)

package tables

import (
	"context"
	"time"

	"github.com/flowd-io/flowd/internal/components/builds"
)

// Query is an error in this build.
type Query struct {
	builds.Absent[family]
	Driver string `yaml:"-"`
}

type family struct{}

func (family) Family() string { return "sql" }

// answer is not used: this build has no queries.
type answer struct{ cfg *Config }

func (*answer) pause() time.Duration { return time.Minute }

func (a *answer) read(ctx context.Context) ([]byte, error) { return a.changed(ctx) }

func (*answer) changed(context.Context) ([]byte, error) {
	return nil, builds.Without("a table by sql", "sql")
}
