package validate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/codec"
)

var drafts = map[string]*jsonschema.Draft{
	"2020-12": jsonschema.Draft2020, "2019-09": jsonschema.Draft2019,
	"7": jsonschema.Draft7, "6": jsonschema.Draft6, "4": jsonschema.Draft4,
}

// inline is the address of a schema in the configuration.
const inline = "config:///schema"

// compile makes the schema. It reads the schema's files, which are part of the
// configuration: lint finds what is wrong in them.
func compile(c Config) (*jsonschema.Schema, error) {
	comp := jsonschema.NewCompiler()
	comp.DefaultDraft(drafts[c.Draft])
	if c.Format {
		comp.AssertFormat()
	}
	from, text, at := folder(""), c.Schema.value, inline
	if name := c.file(); name != "" {
		abs, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		if text, err = load(os.Stat, func(name string) (fs.File, error) { return os.Open(name) }, name); err != nil {
			return nil, fmt.Errorf("the schema can't be read: %w", err)
		}
		from, at = folder(filepath.Dir(abs)), (&url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}).String()
	}
	comp.UseLoader(from)
	if err := comp.AddResource(at, text); err != nil {
		return nil, err
	}
	s, err := comp.Compile(at)
	if err != nil {
		return nil, fmt.Errorf("not a valid JSON Schema: %s", reason(err))
	}
	return s, nil
}

// reason is why a schema is not valid, in one line.
func reason(err error) string {
	if bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		return explain(bad.Err, inFull)
	}
	if missing, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return missing.Err.Error()
	}
	return strings.ReplaceAll(err.Error(), inline, "")
}

// folder contains the files to which a $ref may refer; "" means none.
type folder string

// Load reads the file that a $ref names.
func (f folder) Load(address string) (any, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "file" && u.Scheme != "config" || u.Host != "":
		return nil,
			fmt.Errorf("%s is not fetched (put it beside the schema and refer to the file, or put it into $defs)",
				address)
	case f == "":
		return nil,
			fmt.Errorf("a schema in the configuration can't refer to the file %s (put it into $defs, or use `file`)",
				strings.TrimPrefix(u.Path, "/"))
	}
	name, err := filepath.Rel(string(f), filepath.FromSlash(u.Path))
	if err != nil || !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%s is outside of %s, the folder of the schema (put it there)", u.Path, f)
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return load(root.Stat, func(name string) (fs.File, error) { return root.Open(name) }, name)
}

const (
	largest   = 4 << 20 // bytes of a schema's file
	mostMarks = 400_000 // of one in YAML, see codec.Crowded
)

// load reads a file of JSON or YAML.
func load(stat func(string) (fs.FileInfo, error), open func(string) (fs.File, error), name string) (any, error) {
	info, err := stat(name)
	var place *fs.PathError
	switch {
	case errors.As(err, &place):
		return nil, fmt.Errorf("%s: %w", name, place.Err)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular(): // a pipe would never end
		return nil, fmt.Errorf("%s is not a file", name)
	case info.Size() > largest:
		return nil, fmt.Errorf("%s is larger than %d MiB", name, largest>>20)
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largest))
	if err != nil {
		return nil, err
	}
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		if at := codec.Crowded(string(text), mostMarks); at >= 0 {
			return nil, fmt.Errorf("%s has more than %d values (split it, and refer to the parts by $ref)", name,
				mostMarks)
		}
		if text, err = (&codec.YAML{}).Decode(nil, text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	var d doc.Doc
	d.Reset(text, nil)
	if err := d.Valid(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	v, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}
