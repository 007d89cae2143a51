// Package docs has the guides of this folder for `flowd docs`, and searches them: start at [NewIndex].
package docs

import "embed"

// Guides are the guides in Markdown; the reference is not among them, for flowd
// writes it itself.
//
//go:embed clickhouse.md cookbook.md dead-letters.md debugging.md expressions.md failures.md formats.md from-benthos.md
//go:embed from-logstash.md http.md kafka.md language.md lifecycle.md limits.md migrate.md mqtt.md opentelemetry.md operations.md
//go:embed plugins.md pools.md postgres.md programs.md queues.md schemas.md security.md states.md testing.md tutorial.md windows.md
var Guides embed.FS
