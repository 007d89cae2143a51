//go:build !no_parquet && (!slim || parquet)

package formats

import "github.com/flowd-io/flowd/internal/formats/parquet"

// The options of Parquet.
type (
	ParquetReads  = parquet.Reads
	ParquetWrites = parquet.Writes
)
