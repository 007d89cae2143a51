package jsonschema

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
	"github.com/flowd-io/flowd/internal/formats/registry"
)

// Options control how schemas are compiled.
type Options struct {
	Draft  string // of schemas without $schema: 2020-12, 2019-09, 7, 6 or 4
	Format bool   // check the keyword format, too
	Most   int    // limit of schemas including references, and of the length of regular expressions; 0: a trusted schema
}

// inline is the address of a schema without a file.
const inline = "config:///schema"

// Compile compiles a schema in the form of encoding/json, with numbers as json.Number. It can't refer to files.
func Compile(v any, o Options) (*Schema, error) { return compile(v, inline, folder(""), o) }

// CompileFile compiles a schema file, JSON or YAML, and the files in its folder that it refers to. They are part of
// the configuration, so lint reports their mistakes.
func CompileFile(name string, o Options) (*Schema, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	v, err := load(os.Stat, func(name string) (fs.File, error) { return os.Open(name) }, name)
	if err != nil {
		return nil, fmt.Errorf("the schema can't be read: %w", err)
	}
	at := &url.URL{Scheme: "file", Path: filepath.ToSlash(abs)}
	return compile(v, at.String(), folder(filepath.Dir(abs)), o)
}

// CompileText compiles a schema of a registry, with its references.
func CompileText(s *engine.Schema, o Options) (*Schema, error) {
	const marks = "{[,"
	err := registry.Bounded(registry.Texts(s), marks, mostValues)
	var v any
	if err == nil {
		v, err = parse([]byte(s.Text))
	}
	if err != nil {
		return nil, fmt.Errorf("not a valid JSON Schema: %w", err)
	}
	return compile(v, inline, &references{needs: s.Needs}, o)
}

func compile(v any, at string, from loader, o Options) (*Schema, error) {
	l := &library{from: from, fallback: draftOf(o.Draft), resources: map[string]*resource{}, format: o.Format, most: o.Most}
	n, err := l.compile(at, v)
	if err != nil {
		return nil, fmt.Errorf("not a valid JSON Schema: %w", err)
	}
	title := ""
	if m, ok := v.(map[string]any); ok {
		title, _ = m["title"].(string)
	}
	return &Schema{library: l, root: n, Title: title}, nil
}

// compile compiles the schema of a document, and everything that it refers to.
func (l *library) compile(at string, v any) (*node, error) {
	p, err := l.add(at, v)
	if err != nil {
		return nil, err
	}
	n, err := l.node(p)
	if err != nil {
		return nil, err
	}
	l.arrange()
	return n, endless(l.made)
}

// arrange orders properties, once all schemas are compiled.
func (l *library) arrange() {
	for _, p := range l.made {
		if n := p.made; n.order == nil && len(n.props) > 0 {
			n.arrange()
		}
	}
}

// references are the schemas that a registry's schema refers to.
type references struct {
	needs []engine.NamedSchema
	read  int
}

// Load returns the schema of a $ref, given its full address or the end of it.
func (r *references) Load(address string) (any, error) {
	const often = 4
	for _, known := range r.needs {
		if address != known.Name && !strings.HasSuffix(address, "/"+known.Name) {
			continue
		}
		if r.read++; r.read > often*len(r.needs) {
			return nil, fmt.Errorf("the schema's references have more than %d addresses each (refer to them by one)", often)
		}
		return parse([]byte(known.Text))
	}
	name := strings.TrimPrefix(address, "config:///")
	return nil, fmt.Errorf("%s is not one of the schema's references in the registry "+
		"(add it to them there, or put it into $defs)", name)
}

// folder contains the files that a $ref may name; "" means none.
type folder string

// Load reads the file of a $ref.
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

// mostMarks limits YAML files; see codec.Crowded.
const mostMarks = 400_000

// load reads a JSON or YAML file.
func load(stat func(string) (fs.FileInfo, error), open func(string) (fs.File, error), name string) (any, error) {
	text, err := registry.ReadFrom(stat, open, name)
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
	v, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// parse checks a text before it parses it.
func parse(text []byte) (any, error) {
	var d doc.Doc
	d.Reset(text, nil)
	if err := d.Valid(); err != nil {
		return nil, err
	}
	return read(text)
}
