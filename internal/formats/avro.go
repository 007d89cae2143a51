//go:build !no_avro && (!slim || avro)

package formats

import "github.com/flowd-io/flowd/internal/formats/avro"

// The options of Avro.
type (
	AvroReads  = avro.Reads
	AvroWrites = avro.Writes
)
