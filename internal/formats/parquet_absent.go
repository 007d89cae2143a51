//go:build no_parquet || (slim && !parquet)

package formats

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// The options of Parquet, which are a mistake here.
type (
	ParquetReads struct {
		builds.Absent[parquet]
		codec.Codec `yaml:"-"`
	}
	ParquetWrites struct{ builds.Absent[parquet] }
)

type parquet struct{}

func (parquet) Family() string { return "parquet" }

// Archiver is not called: there are no such options.
func (*ParquetWrites) Archiver() engine.Processor { return nil }
