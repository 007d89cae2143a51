//go:build no_protobuf || (slim && !protobuf)

package formats

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/builds"
)

// The options of Protobuf, which are a mistake here.
type (
	ProtobufReads  struct{ builds.Absent[protobuf] }
	ProtobufWrites struct{ builds.Absent[protobuf] }
)

type protobuf struct{}

func (protobuf) Family() string { return "protobuf" }

// Decoder returns an error.
func (*ProtobufReads) Decoder(engine.Env) (decoder, error) {
	return nil, builds.Without("decode: protobuf", "protobuf")
}

// Encoder returns an error.
func (*ProtobufWrites) Encoder(engine.Env) (encoder, error) {
	return nil, builds.Without("encode: protobuf", "protobuf")
}
