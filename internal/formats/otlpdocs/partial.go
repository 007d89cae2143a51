package otlpdocs

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flowd-io/flowd/engine/doc"
)

// PartialSuccess is the answer to a request: how much of it was rejected, which should not be sent again, and why.
type PartialSuccess struct {
	Rejected int64 // log records, data points or spans
	Message  string
}

// The numbers of fields in answers, which those of all signals have.
const (
	partialField  protowire.Number = 1
	rejectedField protowire.Number = 1
	messageField  protowire.Number = 2
)

// Proto returns the answer in protobuf form. It is empty for a full success.
func (p PartialSuccess) Proto() []byte {
	if p == (PartialSuccess{}) {
		return nil
	}
	inner := protowire.AppendVarint(protowire.AppendTag(nil, rejectedField, protowire.VarintType), uint64(p.Rejected))
	inner = protowire.AppendString(protowire.AppendTag(inner, messageField, protowire.BytesType), p.Message)
	return appendMessage(nil, partialField, inner)
}

// JSON returns the answer in JSON form.
func (p PartialSuccess) JSON(s Signal) []byte {
	if p == (PartialSuccess{}) {
		return []byte("{}")
	}
	text := `{"partialSuccess":{"` + names[s].rejected + `":"` + strconv.FormatInt(p.Rejected, 10) + `","errorMessage":`
	return append(doc.AppendString([]byte(text), p.Message), "}}"...)
}

// ParsePartialSuccess reads an answer in protobuf form.
func ParsePartialSuccess(answer []byte) (p PartialSuccess, err error) {
	err = each(answer, partialField, func(inner []byte) error {
		for len(inner) > 0 {
			number, wire, n := protowire.ConsumeTag(inner)
			if n < 0 {
				return invalid(n)
			}
			value := inner[n:]
			if n = protowire.ConsumeFieldValue(number, wire, value); n < 0 {
				return invalid(n)
			}
			inner = value[n:]
			switch {
			case number == rejectedField && wire == protowire.VarintType:
				v, _ := protowire.ConsumeVarint(value)
				p.Rejected = int64(v)
			case number == messageField && wire == protowire.BytesType:
				text, _ := protowire.ConsumeString(value)
				p.Message = text
			}
		}
		return nil
	})
	if err != nil {
		return PartialSuccess{}, fmt.Errorf("the answer is not OTLP: %w", err)
	}
	return p, nil
}
