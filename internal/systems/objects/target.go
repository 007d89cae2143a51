package objects

import (
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/controls"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	"github.com/flowd-io/flowd/schema"
)

// Target is the configuration that the outputs of all stores embed, with [TargetDefaults].
type Target struct {
	Key             expr.Template             `yaml:"key" check:"required" doc:"Key of the object. The text before the first expression is a prefix that data can't leave; parts such as . and .. are refused. An object replaces an existing one with the same key."`
	ContentType     expr.Template             `yaml:"content_type" doc:"Media type; by default that of the key's extension, or application/octet-stream."`
	ContentEncoding expr.Template             `yaml:"content_encoding" doc:"Content-Encoding of the object, such as gzip, for clients that decompress accordingly."`
	Metadata        schema.Map[expr.Template] `yaml:"metadata" doc:"The object's metadata by name, in addition to that of the message."`
	Tags            schema.Map[expr.Template] `yaml:"tags" doc:"The object's tags by name, up to 10."`
	IfAbsent        bool                      `yaml:"if_absent" doc:"Replace no existing object: if the key exists, the message is rejected, unless an earlier attempt of its own has written the object."`
	PartSize        schema.Size               `yaml:"part_size" check:"min=5MiB,max=512MiB" doc:"Larger objects are sent in parts of this size, several at once."`
	Parallel        int                       `yaml:"parallel" check:"min=1" doc:"Objects of one write that may be sent at once."`
}

// TargetDefaults are the defaults of [Target].
var TargetDefaults = Target{PartSize: 16 << 20, Parallel: 8}

// Check reports what can't work.
func (t *Target) Check(report func(path, message, remedy string)) {
	if key, ok := t.Key.Const(); ok && key != "" {
		if err := checkKey(key, ""); err != nil {
			report("key", err.Error(), "write a name such as orders/2026.ndjson")
		}
	}
	if t.Tags.Len() > mostTags {
		report("tags", "has more than 10 tags", "remove some")
	}
	for name := range t.Metadata.All() {
		if !metadataName(name) {
			report("metadata", "the name "+name+" is not valid", "write lower-case letters, digits, - and _")
		}
	}
}

// mostKey bounds the length of a key, in bytes.
const mostKey = 1024

// checkKey returns why no object may have this key. prefix is the part of it that the configuration spells out. Many programs
// use keys as paths, where parts that come from data must not lead out of the prefix.
func checkKey(key, prefix string) error {
	switch {
	case key == "" || strings.HasSuffix(key, "/"):
		return fmt.Errorf("key %q ends without a name", shortened(key))
	case len(key) > mostKey:
		return fmt.Errorf("key %q… has %d bytes, but at most %d are allowed", shortened(key), len(key), mostKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("key %q is not UTF-8", shortened(key))
	case controls.In(key) != "":
		return fmt.Errorf("key %q %s", shortened(key), controls.In(key))
	case prefix == "" && key[0] == '/':
		return fmt.Errorf("key %q begins with a slash", shortened(key))
	}
	for part := range strings.SplitSeq(key, "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("key %q contains the part %q, which leads elsewhere where keys are used as paths",
				shortened(key), part)
		}
	}
	return nil
}

func shortened(key string) string { return key[:min(len(key), 100)] }

// objectOf returns the object that a message becomes.
func (t *Target) objectOf(m *engine.Message) (p *Put, err error) {
	p = &Put{Body: m.Bytes(), PartSize: int(t.PartSize), IfAbsent: t.IfAbsent}
	if p.Key, err = t.Key.Text(m); err != nil {
		return nil, err
	}
	if err := checkKey(p.Key, t.Key.Prefix()); err != nil {
		return nil, engine.WithClass(engine.Rejected, err)
	}
	if p.ContentType, err = t.ContentType.Text(m); err != nil {
		return nil, err
	}
	if p.ContentType == "" {
		p.ContentType = typeOf(p.Key)
	}
	if p.ContentEncoding, err = t.ContentEncoding.Text(m); err != nil {
		return nil, err
	}
	if p.Metadata, err = texts(&t.Metadata, m); err != nil {
		return nil, err
	}
	p.Metadata = withMetadata(p.Metadata, m.Meta)
	if p.Tags, err = texts(&t.Tags, m); err != nil {
		return nil, err
	}
	for _, text := range []string{p.ContentType, p.ContentEncoding} {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return nil, engine.Errorf(engine.Rejected, "%q contains a control character", text)
		}
	}
	return p, nil
}

// texts evaluates templates for a message. Empty results are left out.
func texts(all *schema.Map[expr.Template], m *engine.Message) (pairs []Pair, err error) {
	for name, t := range all.All() {
		text, err := t.Text(m)
		if err != nil {
			return nil, err
		}
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return nil, engine.Errorf(engine.Rejected, "%s: %q is not text of one line", name, text)
		}
		if text != "" {
			pairs = append(pairs, Pair{name, text})
		}
	}
	return pairs, nil
}

// mostMetadata bounds the metadata of an object, in bytes.
const mostMetadata = 2 << 10

// withMetadata adds the metadata of a message, as far as an object can have it and has room for it.
func withMetadata(pairs []Pair, meta engine.Meta) []Pair {
	size, has := 0, map[string]bool{}
	for _, p := range pairs {
		size += len(p.Name) + len(p.Value)
		has[p.Name] = true
	}
	for name, v := range meta.Added() {
		text, err := textOf(v)
		if name = strings.ToLower(names.Out(name)); strings.HasPrefix(name, "error_") {
			text = failureText(text)
		}
		if err != nil || text == "" || has[name] || !metadataName(name) || !utf8.ValidString(text) ||
			strings.ContainsFunc(text, unicode.IsControl) {
			continue
		}
		if size+len(name)+len(text) > mostMetadata/2 { // encoded as a header, it may be twice as long
			continue
		}
		size += len(name) + len(text)
		has[name] = true
		pairs = append(pairs, Pair{name, text})
	}
	return pairs
}

// mostFailure bounds a value of error_*, in bytes: a long reason must not take the room of the others.
const mostFailure = 512

// failureText makes a value of error_* fit. It is for people, so its line breaks may become spaces.
func failureText(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > mostFailure {
		text = strings.ToValidUTF8(text[:mostFailure], "")
	}
	return text
}

// textOf returns a value of metadata as text. Anything but text becomes JSON.
func textOf(v any) (string, error) {
	switch v.(type) {
	case string, time.Time:
		return metadata.Text(v), nil
	}
	raw, err := doc.Append(nil, v)
	return string(raw), err
}

// metadataName reports whether all stores allow metadata with this name.
func metadataName(name string) bool {
	return name != "" && len(name) <= 128 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// typeOf returns the media type that the extension of a key stands for.
func typeOf(key string) string {
	switch path.Ext(key) {
	case ".json":
		return "application/json"
	case ".ndjson", ".jsonl":
		return "application/x-ndjson"
	case ".csv":
		return "text/csv"
	case ".txt", ".log":
		return "text/plain"
	case ".gz":
		return "application/gzip"
	case ".zst":
		return "application/zstd"
	case ".tar":
		return "application/x-tar"
	case ".avro":
		return "application/avro"
	case ".parquet":
		return "application/vnd.apache.parquet"
	}
	return "application/octet-stream"
}
