//go:build no_avro || (slim && !avro)

package formats

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/builds"
)

// The options of Avro, which are a mistake here.
type (
	AvroReads  struct{ builds.Absent[avro] }
	AvroWrites struct{ builds.Absent[avro] }
)

type avro struct{}

func (avro) Family() string { return "avro" }

// Decoder returns an error.
func (*AvroReads) Decoder(engine.Env) (decoder, error) {
	return nil, builds.Without("decode: avro", "avro")
}

// Encoder returns an error.
func (*AvroWrites) Encoder(engine.Env) (encoder, error) {
	return nil, builds.Without("encode: avro", "avro")
}
