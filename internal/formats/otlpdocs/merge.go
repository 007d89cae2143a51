package otlpdocs

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

// Encode returns the request of a document, in protobuf form, and its signal. The error has class decode.
func Encode(document []byte) (s Signal, request []byte, err error) {
	if err = codec.Valid(document); err != nil { // also bounds its depth
		return s, nil, err
	}
	if s, err = signalOf(document); err != nil {
		return s, nil, err
	}
	request, err = decode(s, document)
	return s, request, err
}

// group is a request, resource or scope whose parts several requests have.
type group struct {
	head  []byte // its fields but the list
	list  []byte // the records of a scope
	parts []*group
	known map[string]*group // by head
}

// in returns the part with the given fields.
func (g *group) in(head []byte) *group {
	part := g.known[string(head)]
	if part == nil {
		part = &group{head: head}
		if g.known == nil {
			g.known = map[string]*group{}
		}
		g.known[string(head)] = part
		g.parts = append(g.parts, part)
	}
	return part
}

// Merge makes one request of several in canonical protobuf form. Records of equal resources and scopes are joined.
func Merge(requests [][]byte) []byte {
	if len(requests) == 1 {
		return requests[0]
	}
	var all group
	for _, r := range requests {
		_ = each(r, listField, func(resource []byte) error {
			to := all.in(without(resource, scopesField))
			return each(resource, scopesField, func(scope []byte) error {
				to := to.in(without(scope, recordsField))
				return each(scope, recordsField, func(record []byte) error {
					to.list = appendMessage(to.list, recordsField, record)
					return nil
				})
			})
		})
	}
	var request, resource, scope []byte
	for _, r := range all.parts {
		resource = append(resource[:0], r.head...)
		for _, s := range r.parts {
			scope = append(append(scope[:0], s.head...), s.list...)
			resource = appendMessage(resource, scopesField, scope)
		}
		request = appendMessage(request, listField, resource)
	}
	return request
}

// without returns the fields of a valid message, but for one.
func without(message []byte, but protowire.Number) (rest []byte) {
	for len(message) > 0 {
		number, _, n := protowire.ConsumeField(message)
		if number != but {
			rest = append(rest, message[:n]...)
		}
		message = message[n:]
	}
	return rest
}

func appendMessage(to []byte, number protowire.Number, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), message)
}
