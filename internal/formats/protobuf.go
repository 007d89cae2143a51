//go:build !no_protobuf && (!slim || protobuf)

package formats

import "github.com/flowd-io/flowd/internal/formats/protobuf"

// The options of Protobuf.
type (
	ProtobufReads  = protobuf.Reads
	ProtobufWrites = protobuf.Writes
)
