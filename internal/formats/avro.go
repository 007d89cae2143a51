//go:build !no_avro && (!slim || avro)

package formats

import "github.com/flowd-io/flowd/internal/avro"

// The options of Avro.
type (
	AvroReads  = avro.Reads
	AvroWrites = avro.Writes
)
