package protobuf

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/registry"
)

// Schema names a configured schema.
type Schema struct {
	Schema      string   `yaml:"schema,main" doc:"File of the schema (.proto), or its text."`
	Descriptors string   `yaml:"descriptors" doc:"Instead: file of a compiled descriptor set, as protoc --include_imports --descriptor_set_out writes it, or buf build -o."`
	ImportPaths []string `yaml:"import_paths" doc:"Folders in which the schema's imports are looked for; by default that of its file."`
	Message     string   `yaml:"message" doc:"Full name of the message, such as shop.Order; by default the only one on the top level of the schema."`
}

// ConfigFiles returns the files that are read.
func (s Schema) ConfigFiles() []string {
	files := []string{s.file(), s.Descriptors}
	for _, dir := range s.folders() {
		files = append(files, strings.TrimSuffix(dir, "/")+"/")
	}
	return files
}

// file returns the schema's file, or "".
func (s *Schema) file() string {
	if strings.ContainsAny(s.Schema, ";\n") {
		return ""
	}
	return s.Schema
}

func (s *Schema) folders() []string {
	if file := s.file(); len(s.ImportPaths) == 0 && file != "" {
		return []string{filepath.Dir(file)}
	}
	return s.ImportPaths
}

func (s *Schema) isZero() bool { return s.Schema == "" && s.Descriptors == "" }

// check requires exactly one source of schemas.
func (s *Schema) check(hasRegistry bool, report func(path, message, remedy string)) {
	switch {
	case !hasRegistry && s.isZero():
		report("", "there is no schema",
			"write `{registry: NAME}`, `{schema: order.proto}` or `{descriptors: order.binpb, message: shop.Order}`")
	case s.Schema != "" && s.Descriptors != "":
		report("descriptors", "there is a schema already", "keep `schema` or `descriptors`")
	case s.Descriptors != "" && s.Message == "":
		report("message", "is missing: a descriptor set has many", "write the full name of one, such as shop.Order")
	case s.Schema == "" && len(s.ImportPaths) > 0:
		report("import_paths", "there is no schema that imports anything", "remove it")
	}
}

// compileSchema compiles the schema, or returns nil if there is none.
func (s *Schema) compileSchema(o Options) (*engine.Schema, *Program, error) {
	if s.isZero() {
		return nil, nil, nil
	}
	if s.Descriptors != "" {
		set, err := registry.ReadFile(s.Descriptors)
		if err != nil {
			return nil, nil, err
		}
		types, err := compileSet(set, o)
		return s.program(nil, s.Descriptors, types, err)
	}
	own := &engine.Schema{Type: Kind, Text: s.Schema}
	name, shown := "schema.proto", "the schema"
	if file := s.file(); file != "" {
		text, err := registry.ReadFile(file)
		if err != nil {
			return nil, nil, err
		}
		own.Text = string(text)
		name, shown = s.imported(file), file
	}
	files, err := compile(name, shown, own.Text, folders(s.folders()), false)
	if err != nil {
		return nil, nil, err
	}
	return s.program(own, shown, newTypes(files[0], files, o), nil)
}

func (s *Schema) program(own *engine.Schema, shown string, t *Types, err error) (*engine.Schema, *Program, error) {
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", shown, err)
	}
	p, err := t.Program(s.Message)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", shown, err)
	}
	return own, p, nil
}

// imported returns the name by which other files import a file.
func (s *Schema) imported(file string) string {
	for _, dir := range s.folders() {
		if name, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(name) {
			return filepath.ToSlash(name)
		}
	}
	return filepath.Base(file)
}
