package registry

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	magic  = 0
	header = 5 // in bytes: a magic byte and an id
)

// cut returns the schema id at the beginning of a payload, and the rest.
func cut(payload []byte) (id int, rest []byte, err error) {
	switch {
	case len(payload) == 0:
		return 0, nil, errors.New("the payload is empty, but should begin with a schema id")
	case payload[0] != magic:
		return 0, nil, fmt.Errorf("the payload begins with byte 0x%02x, not with 0x00 and a schema id (was it written "+
			"without a registry?)", payload[0])
	case len(payload) < header:
		return 0, nil, fmt.Errorf("the payload ends within its schema id, after %d bytes", len(payload))
	}
	return int(binary.BigEndian.Uint32(payload[1:])), payload[header:], nil
}

// Header returns the prefix of a payload with a schema id.
func Header(id int) []byte {
	return binary.BigEndian.AppendUint32([]byte{magic}, uint32(id)) // #nosec G115 -- a registry's ids are 32 bits
}
