// Package docs has the guides of this folder for `flowd docs`.
package docs

import "embed"

// Guides are the guides in Markdown; the reference is not among them, for flowd
// writes it itself.
//
//go:embed clickhouse.md expressions.md failures.md formats.md http.md kafka.md language.md lifecycle.md limits.md
//go:embed migrate.md mqtt.md operations.md plugins.md pools.md postgres.md queues.md schemas.md security.md states.md testing.md windows.md
var Guides embed.FS
