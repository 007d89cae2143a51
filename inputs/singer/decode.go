package singer

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/schema"
)

// item is a message of a tap: a record or a state. Other messages are empty items.
type item struct {
	record []byte
	meta   engine.Meta
	state  json.RawMessage
}

// stream is what a SCHEMA says.
type stream struct {
	source []byte   // the line, since taps repeat their schemas
	names  []string // of the metadata of all its records
	values []any

	// The metadata of the last record, which the next one often shares.
	version, extracted []byte // as JSON
	meta               engine.Meta
}

// decoder decodes the lines of a tap.
type decoder struct {
	secrets    *schema.Secrets
	maxLine    schema.Size
	withSchema bool // add schemas to the metadata
	streams    map[string]*stream

	line  int   // number of the current line
	err   error // what is wrong with it
	doc   doc.Doc
	arena doc.Arena
}

const maxQuoted = 100 // bytes of a line quoted in errors

var (
	typePath, streamPath = doc.MakePath("type"), doc.MakePath("stream")
	recordPath           = doc.MakePath("record")
	versionPath          = doc.MakePath("version")
	extractedPath        = doc.MakePath("time_extracted")
	schemaPath, keysPath = doc.MakePath("schema"), doc.MakePath("key_properties")
	valuePath            = doc.MakePath("value")
)

// decode decodes a line. cut says that it is only the beginning of a line that is too long.
func (d *decoder) decode(line []byte, cut bool) (it item, err error) {
	d.line++
	d.err = nil
	d.doc.Reset(nil, nil)
	d.arena.Reset()
	d.doc.Reset(line, &d.arena)
	if cut {
		d.fail("is longer than max_line, %s (raise it)", d.maxLine)
	} else if len(bytes.TrimSpace(line)) == 0 {
		return it, nil
	} else if err := d.doc.Object(); err != nil {
		d.fail("is not a Singer message, %q: %w (a tap must write nothing else to standard output)", d.quote(line), err)
	}
	switch kind := d.text(typePath); kind {
	case "RECORD":
		it.record = bytes.Clone(d.raw(recordPath, doc.Object))
		it.meta = d.metadata()
	case "SCHEMA":
		d.schema(line)
	case "STATE":
		it.state = bytes.Clone(d.raw(valuePath, doc.Object))
	case "ACTIVATE_VERSION": // for targets that replace tables
	case "BATCH":
		d.fail("is a BATCH, which flowd does not read (remove batch_config from the tap's configuration)")
	default:
		d.fail("has the type %q, which is not a type of Singer messages (SCHEMA, RECORD, STATE or ACTIVATE_VERSION)", d.quote([]byte(kind)))
	}
	if d.err != nil {
		return item{}, d.err
	}
	return it, nil
}

// metadata returns the metadata of a RECORD.
func (d *decoder) metadata() engine.Meta {
	name := d.text(streamPath)
	s := d.streams[name]
	if s == nil {
		d.fail("has a record of the stream %q, which has no SCHEMA yet (a tap must write it before the first record)", d.quote([]byte(name)))
		return engine.Meta{}
	}
	version := d.raw(versionPath, doc.Numeric, doc.Null, doc.Missing)
	extracted := d.raw(extractedPath, doc.String, doc.Null, doc.Missing)
	if s.meta == (engine.Meta{}) || !bytes.Equal(version, s.version) || !bytes.Equal(extracted, s.extracted) {
		s.version, s.extracted = bytes.Clone(version), bytes.Clone(extracted)
		names, values := slices.Clone(s.names), slices.Clone(s.values)
		for _, path := range []doc.Path{versionPath, extractedPath} {
			if v := d.value(path); v != nil {
				names, values = append(names, path.String()), append(values, v)
			}
		}
		s.meta = engine.MetaOf(names, values, len(names))
	}
	return s.meta
}

// schema notes a SCHEMA.
func (d *decoder) schema(line []byte) {
	name := strings.Clone(d.text(streamPath))
	if s := d.streams[name]; s != nil && bytes.Equal(s.source, line) {
		return
	}
	d.raw(schemaPath, doc.Object)
	d.raw(keysPath, doc.Array)
	s := &stream{source: bytes.Clone(line), names: []string{"stream", "key_properties"}, values: []any{name, d.value(keysPath)}}
	if d.withSchema {
		s.names, s.values = append(s.names, "schema"), append(s.values, d.value(schemaPath))
	}
	d.streams[name] = s
}

// raw returns the source text of a field, valid until the next line. The field must be of one of the kinds.
func (d *decoder) raw(path doc.Path, kinds ...doc.ValueKind) []byte {
	raw, _, _ := d.doc.Raw(path) // the document is valid
	if kind := doc.Kind(raw); kind == doc.Missing && !slices.Contains(kinds, kind) {
		d.fail("has no field %s", path)
	} else if !slices.Contains(kinds, kind) {
		d.fail("has a field %s that is %s, not %s", path, kind, kinds[0])
	}
	return raw
}

// text returns the text of a field, valid until the next line.
func (d *decoder) text(path doc.Path) string {
	raw := d.raw(path, doc.String)
	if doc.Surrogate(raw) != nil || len(raw) <= len(`""`) {
		d.fail("has a field %s that is empty or not valid text", path)
	}
	return doc.Unquote(raw)
}

// value decodes a field, and returns nil if there is none.
func (d *decoder) value(path doc.Path) any {
	raw, _, _ := d.doc.Raw(path)
	if len(raw) == 0 {
		return nil
	}
	v, err := doc.DecodeRaw(bytes.Clone(raw))
	if err != nil {
		d.fail("has a field %s that is not valid: %w", path, err)
	}
	return v
}

func (d *decoder) quote(text []byte) string { return call.Head(text, maxQuoted, d.secrets) }

// fail notes what is wrong with the current line, unless something else is.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = engine.Errorf(engine.Decode, "line %d of the tap's output "+format, append([]any{d.line}, args...)...)
	}
}
