package wire

import (
	"context"
	"log/slog"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/flowd-io/flowd/internal/pool"
)

// Hub carries the jobs of this process's pools to workers in others. It is safe for concurrent use.
type Hub interface {
	// Hold starts the hub if nobody holds it yet. owner names it to other processes that need the same resources. The
	// last release stops the hub.
	Hold(ctx context.Context, owner string, log *slog.Logger) (release func(), err error)
	// Open makes a pool with slots in other processes.
	Open(ctx context.Context, policy pool.Policy, stage *Stage, env engine.Env) (*pool.Pool, error)
	// Close ends a pool.
	Close(ctx context.Context, p *pool.Pool) error
	// Trouble returns what keeps jobs of a pool from its workers, or nil.
	Trouble(p *pool.Pool) *engine.Trouble
	// State returns the jobs of a pool and its workers.
	State(p *pool.Pool) PoolState
}

// Hubs makes the hub of a process. Package hub sets it, if the build includes it.
var Hubs func(*engine.Shared) Hub

// HubOf returns the hub of a process with `service.cluster`.
func HubOf(shared *engine.Shared) (Hub, error) {
	if Hubs == nil {
		return nil, builds.Without("service.cluster", "nats")
	}
	return Hubs(shared), nil
}
