package otlpdocs

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/flowd-io/flowd/engine/doc"
)

// errInvalid is wrapped by the error of a request that is not valid.
var errInvalid = errors.New("not a valid request")

// errOrder says that a message has the elements of a list apart, or a field twice, which is valid and unusual.
var errOrder = errors.New("fields out of order")

// maxDepth is how deep messages may nest: attribute values that contain each other are the only ones without a limit of their own.
const maxDepth = 200

// The numbers of fields that messages of all signals have.
const (
	listField      protowire.Number = 1 // of resources, in a request
	resourceField  protowire.Number = 1 // of what a resource has: the resource
	scopesField    protowire.Number = 2 // of it: the list of scopes
	recordsField   protowire.Number = 2 // of what a scope has: the list of records
	librariesField protowire.Number = 1000
)

// Documents are the documents of one request.
type Documents struct {
	text []byte
	all  []document
}

type document struct {
	end     int      // in the text; it begins at the end of the one before it
	trace   [16]byte // id; zero: none
	count   int32    // what PartialSuccess counts
	service string
}

const documentSize = int(unsafe.Sizeof(document{}))

// Len is how many documents there are.
func (d *Documents) Len() int { return len(d.all) }

// Text is the i-th document.
func (d *Documents) Text(i int) []byte {
	begin := 0
	if i > 0 {
		begin = d.all[i-1].end
	}
	return d.text[begin:d.all[i].end:d.all[i].end]
}

// Release forgets the texts.
func (d *Documents) Release() { d.text = nil }

// Service is the attribute service.name of the resource of the i-th document, or "".
func (d *Documents) Service(i int) string { return d.all[i].service }

// TraceID is the id of the trace of the i-th document, or "".
func (d *Documents) TraceID(i int) string {
	id := d.all[i].trace
	if id == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(id[:])
}

// Count is how many log records, data points or spans the i-th document has.
func (d *Documents) Count(i int) int64 { return int64(d.all[i].count) }

// Limits bound the documents of a request.
type Limits struct {
	Documents int
	Bytes     int
	Take      func(n int64) bool // reserves bytes while documents are made; false: there is no room
}

// The errors of [Split] beside those of requests that are not valid.
var (
	ErrTooMany  = errors.New("too many records")
	ErrTooLarge = errors.New("its documents are too large")
	ErrFull     = errors.New("no room for its documents")
)

// Split makes a document of each record of a request in protobuf form, or one of the whole request.
func Split(s Signal, request []byte, whole bool, most Limits) (*Documents, error) {
	d, err := split(s, request, whole, most)
	if errors.Is(err, errOrder) {
		if request, err = canonical(s, request); err == nil {
			d, err = split(s, request, whole, most)
		}
	}
	return d, err
}

// expansion is how many bytes of a document are expected for each byte of a record.
const expansion = 3

// firstRoom is how many bytes are allocated at once for documents that are not made yet.
const firstRoom = 1 << 20

func split(s Signal, request []byte, whole bool, most Limits) (*Documents, error) {
	w := writer{most: most, list: names[s].list}
	root := tables()[s]
	var err error
	if whole {
		w.text = make([]byte, 0, min(expansion*len(request), firstRoom))
		w.text, err = w.fields(append(w.text, '{'), request, root, 1, 0)
		w.text = append(w.text, '}')
		if err == nil && len(w.text) > len("{}") {
			err = w.document("")
		}
	} else {
		of := root[listField].of
		err = each(request, listField, func(resource []byte) error { return w.resource(resource, of) })
	}
	if err == nil {
		err = w.reserve()
	}
	return &Documents{w.text, w.all}, err
}

// each calls f for each message of a list in a message.
func each(message []byte, list protowire.Number, f func([]byte) error) error {
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return invalid(n)
		}
		message = message[n:]
		if number != list || wire != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wire, message); n < 0 {
				return invalid(n)
			}
			if number == list {
				return errWire
			}
			if number == librariesField {
				return errOrder // the list of scopes of versions before 0.15, which is converted
			}
			message = message[n:]
			continue
		}
		item, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return invalid(n)
		}
		if err := f(item); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

var errNumber = fmt.Errorf("%w: a field has an invalid number", errInvalid)

var errWire = fmt.Errorf("%w: a field has a value of another type", errInvalid)

func invalid(n int) error { return fmt.Errorf("%w: %w", errInvalid, protowire.ParseError(n)) }

// writer writes documents.
type writer struct {
	most     Limits
	list     string // the name of the list of resources
	text     []byte
	all      []document
	reserved int
	heads    [2][]byte // how the documents of a resource begin, and those of a scope in it

	trace [16]byte // id of the record that is being written
	count int32    // what PartialSuccess counts, since the last document
}

// resource writes the documents of a resource with its scopes.
func (w *writer) resource(message []byte, of *fields) error {
	head, err := w.head(append(append(w.heads[0][:0], `{"`...), w.list+`":[{`...), message, of, scopesField)
	if err != nil {
		return err
	}
	w.heads[0] = head
	service, scopes := serviceOf(message), of[scopesField]
	records := scopes.of[recordsField]
	return each(message, scopesField, func(scope []byte) error {
		head, err := w.head(append(w.heads[1][:0], w.heads[0]...), scope, scopes.of, recordsField)
		if err != nil {
			return err
		}
		w.heads[1] = head
		n := 0
		if err := each(scope, recordsField, func([]byte) error { n++; return nil }); err != nil {
			return err
		}
		switch {
		case n > w.most.Documents:
			return ErrTooMany
		case n*len(head) > w.most.Bytes:
			return ErrTooLarge
		}
		w.all = slices.Grow(w.all, n)
		w.text = slices.Grow(w.text, min(expansion*len(scope)+n*len(head), firstRoom))
		return each(scope, recordsField, func(record []byte) error {
			if records.counted {
				w.count++
			}
			text, err := w.fields(append(w.text, head...), record, records.of, 0, 0)
			w.text = append(text, "}]}]}]}"...)
			if err != nil {
				return err
			}
			return w.document(service)
		})
	})
}

// head appends the fields of a message to the beginning of its documents, and begins its list.
func (w *writer) head(head, message []byte, of *fields, list protowire.Number) ([]byte, error) {
	n := len(head)
	head, err := w.fields(head, message, of, 0, list)
	if len(head) > n {
		head = append(head, ',')
	}
	return append(append(head, of[list].name...), "[{"...), err
}

// document ends a document.
func (w *writer) document(service string) error {
	if len(w.all) == w.most.Documents {
		return ErrTooMany
	}
	w.all = append(w.all, document{end: len(w.text), trace: w.trace, count: w.count, service: service})
	w.trace, w.count = [16]byte{}, 0
	if w.size()-w.reserved >= atOnce {
		return w.reserve()
	}
	return nil
}

// size is how many bytes the documents take.
func (w *writer) size() int { return len(w.text) + len(w.all)*documentSize }

// atOnce is how many bytes of documents are reserved at once.
const atOnce = 64 << 10

func (w *writer) reserve() error {
	n := w.size() - w.reserved
	w.reserved += n
	switch {
	case w.reserved > w.most.Bytes:
		return ErrTooLarge
	case !w.most.Take(int64(n)):
		return ErrFull
	}
	return nil
}

// fields appends the fields of a message, but for one.
func (w *writer) fields(dst, message []byte, of *fields, depth int, but protowire.Number) ([]byte, error) {
	if depth > maxDepth {
		return dst, fmt.Errorf("%w: values nest deeper than %d", errInvalid, maxDepth)
	}
	var seen uint32
	var list *field // whose elements are being written
	for len(message) > 0 {
		tag, n := uint64(message[0]), 1 // most numbers have one byte
		if tag >= 0x80 {
			if tag, n = protowire.ConsumeVarint(message); n < 0 {
				return dst, invalid(n)
			}
		}
		message = message[n:]
		number, wire := protowire.Number(tag>>3), protowire.Type(tag&7)
		if number < protowire.MinValidNumber || tag>>3 > uint64(protowire.MaxValidNumber) {
			return dst, errNumber
		}
		var f *field
		if number < protowire.Number(len(of)) && number != but {
			f = of[number]
		}
		if f == nil || f.kind == hexKind && len(message) > 0 && message[0] == 0 { // pdata also writes ids that are not set
			if n = protowire.ConsumeFieldValue(number, wire, message); n < 0 {
				return dst, invalid(n)
			}
			message = message[n:]
			continue
		}
		if f != list {
			if seen&f.once != 0 {
				return dst, errOrder
			}
			if list != nil {
				dst, list = append(dst, ']'), nil
			}
			if seen != 0 {
				dst = append(dst, ',')
			}
			seen |= f.once
			dst = append(dst, f.name...)
			if f.repeated {
				dst, list = append(dst, '['), f
			}
		}
		var err error
		if wire == protowire.BytesType {
			value := message
			if len(message) > 1 && int(message[0]) < min(len(message), 0x80) {
				n = 1 + int(message[0])
				value = message[1:n]
			} else if value, n = protowire.ConsumeBytes(message); n < 0 {
				return dst, invalid(n)
			}
			dst, err = w.bytes(dst, f, value, depth)
		} else {
			dst, n, err = w.number(dst, f, wire, message)
		}
		if err != nil {
			return dst, err
		}
		message = message[n:]
	}
	if list != nil {
		dst = append(dst, ']')
	}
	return dst, nil
}

// bytes appends a message, text, bytes or an id, or a packed list.
func (w *writer) bytes(dst []byte, f *field, value []byte, depth int) (_ []byte, err error) {
	if f.wire != protowire.BytesType { // packed
		if !f.repeated {
			return dst, errWire
		}
		for len(value) > 0 {
			var n int
			if dst, n, err = w.number(dst, f, f.wire, value); err != nil {
				return dst, err
			}
			value = value[n:]
		}
		return dst, nil
	}
	dst = w.separate(dst, f)
	switch f.kind {
	case messageKind:
		dst, err = w.fields(append(dst, '{'), value, f.of, depth+1, 0)
		return append(dst, '}'), err
	case stringKind:
		return doc.AppendString(dst, value), nil
	case base64Kind:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), value), '"'), nil
	}
	if len(value) != f.bytes {
		return dst, fmt.Errorf("%w: an id has %d bytes, not %d", errInvalid, len(value), f.bytes)
	}
	dst = append(dst, '"')
	if f.traceID && depth == 0 {
		w.trace = [16]byte(value)
	}
	return append(hex.AppendEncode(dst, value), '"'), nil
}

// separate appends the comma between elements of a list.
func (w *writer) separate(dst []byte, f *field) []byte {
	if f.repeated && dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	if f.counted {
		w.count++
	}
	return dst
}

// number appends a number or truth value from the beginning of data, and returns its length there.
func (w *writer) number(dst []byte, f *field, wire protowire.Type, data []byte) (_ []byte, n int, err error) {
	var v uint64
	switch {
	case wire != f.wire:
		return dst, 0, errWire
	case wire == protowire.VarintType:
		v, n = protowire.ConsumeVarint(data)
	case wire == protowire.Fixed64Type:
		v, n = protowire.ConsumeFixed64(data)
	default:
		var short uint32
		short, n = protowire.ConsumeFixed32(data)
		v = uint64(short)
	}
	if n < 0 {
		return dst, n, invalid(n)
	}
	return appendNumber(w.separate(dst, f), f.kind, v), n, nil
}

// appendNumber appends a number or truth value with these bits.
func appendNumber(dst []byte, k kind, v uint64) []byte {
	switch k {
	case boolKind:
		return strconv.AppendBool(dst, v != 0)
	case int32Kind:
		return strconv.AppendInt(dst, int64(int32(v)), 10)
	case uint32Kind:
		return strconv.AppendUint(dst, uint64(uint32(v)), 10)
	case sint32Kind:
		return strconv.AppendInt(dst, protowire.DecodeZigZag(v&math.MaxUint32), 10)
	case int64Kind:
		return append(strconv.AppendInt(append(dst, '"'), int64(v), 10), '"')
	case uint64Kind:
		return append(strconv.AppendUint(append(dst, '"'), v, 10), '"')
	}
	switch f := math.Float64frombits(v); {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	default:
		return doc.AppendFloat(dst, f)
	}
}

// serviceOf returns the attribute service.name of the resource in a message that has one, or "".
func serviceOf(message []byte) (name string) {
	const attributes, key, value, text protowire.Number = 1, 1, 2, 1
	_ = each(message, resourceField, func(resource []byte) error {
		return each(resource, attributes, func(attribute []byte) error {
			return each(attribute, key, func(k []byte) error {
				if string(k) != "service.name" {
					return nil
				}
				return each(attribute, value, func(v []byte) error {
					return each(v, text, func(v []byte) error {
						name = strings.ToValidUTF8(string(v), "\ufffd")
						return nil
					})
				})
			})
		})
	})
	return name
}
