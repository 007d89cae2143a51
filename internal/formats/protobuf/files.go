package protobuf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/options"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/flowd-io/flowd/internal/formats/registry"
)

// Limits of the files of one schema.
const (
	mostFiles   = 256
	mostText    = 4 << 20 // bytes in total; descriptors take forty times as many
	mostNesting = 200     // of braces; messages may nest less deep

	// For a schema from a registry, which can be hostile: the library takes 2 KB per part, and compares fields,
	// oneofs and reserved names of a message with each other.
	mostParts   = 20_000
	mostInBlock = 2_500
)

// opener returns the text of an imported file, and its name for users.
type opener func(name string) (text, shown string, err error)

// folders opens files in the first of these folders that has them.
func folders(dirs []string) opener {
	return func(name string) (text, shown string, err error) {
		if len(dirs) == 0 {
			return "", "", errors.New("there is no folder to look in (set `import_paths`)")
		}
		for _, dir := range dirs {
			shown = filepath.Join(dir, name)
			text, err = readIn(dir, name)
			if !errors.Is(err, os.ErrNotExist) {
				return text, shown, err
			}
		}
		return "", "", fmt.Errorf("not found in %s (set `import_paths`)", strings.Join(dirs, ", "))
	}
}

// readIn reads a file in a folder. Links can't lead out of it.
func readIn(dir, name string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := registry.ReadFrom(root.Stat, func(name string) (fs.File, error) { return root.Open(name) }, name)
	return string(text), err
}

// compiler makes descriptors from .proto files, one after the other, imports first.
type compiler struct {
	open    opener
	shown   map[string]string      // names of files in errors
	made    map[string]linker.File // nil: in progress
	order   []linker.File
	bytes   int
	parts   int
	hostile bool // the schema may be hostile, so limits are lower
	symbols linker.Symbols
	handler *reporter.Handler // keeps the first error
}

// compile returns the file with a text, followed by everything that it imports.
func compile(name, shown, text string, open opener, hostile bool) ([]protoreflect.FileDescriptor, error) {
	c := &compiler{open: open, hostile: hostile, shown: map[string]string{}, made: map[string]linker.File{},
		handler: reporter.NewHandler(nil)}
	if _, err := c.file(name, shown, text); err != nil {
		return nil, c.placed(err)
	}
	slices.Reverse(c.order)
	files := make([]protoreflect.FileDescriptor, len(c.order))
	for i, f := range c.order {
		files[i] = f
	}
	return files, nil
}

// placed replaces the place in an error by the file, line and column that users know.
func (c *compiler) placed(err error) error {
	at, ok := errors.AsType[reporter.ErrorWithPos](err)
	if !ok {
		return err
	}
	pos := at.GetPosition()
	shown := c.shown[pos.Filename]
	if shown == "" {
		shown = pos.Filename
	}
	return fmt.Errorf("%s:%d:%d: %w", shown, pos.Line, pos.Col, at.Unwrap())
}

func (c *compiler) file(name, shown, text string) (linker.File, error) {
	c.shown[name], c.made[name] = shown, nil
	if c.bytes += len(text); c.bytes > mostText || len(c.made) > mostFiles {
		return nil, fmt.Errorf("%s: the schema has more than %d files or %d MiB", shown, mostFiles, mostText>>20)
	}
	extent := measure(text)
	c.parts += extent.parts
	switch {
	case extent.depth > mostNesting:
		return nil, fmt.Errorf("%s: nested deeper than %d", shown, mostNesting)
	case c.hostile && c.parts > mostParts:
		return nil, fmt.Errorf("%s: the schema has more than %d fields and other parts (split it)", shown, mostParts)
	case c.hostile && extent.block > mostInBlock:
		return nil, fmt.Errorf("%s: one message or enum has more than %d parts (split it)", shown, mostInBlock)
	}
	tree, err := parser.Parse(name, strings.NewReader(text), c.handler)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ResultFromAST(tree, true, c.handler)
	if err != nil {
		return nil, err
	}
	var imports linker.Files
	for _, d := range tree.Decls {
		if i, ok := d.(*ast.ImportNode); ok {
			f, err := c.imported(i.Name.AsString())
			if _, has := errors.AsType[reporter.ErrorWithPos](err); err != nil && !has {
				err = reporter.Error(tree.NodeInfo(i.Name), fmt.Errorf("import %q: %w", i.Name.AsString(), err))
			}
			if err != nil {
				return nil, err
			}
			imports = append(imports, f)
		}
	}
	linked, err := linker.Link(parsed, imports, &c.symbols, c.handler)
	if err != nil {
		return nil, err
	}
	if _, err := options.InterpretOptions(linked, c.handler); err != nil {
		return nil, err
	}
	if err := linked.ValidateOptions(c.handler, &c.symbols); err != nil {
		return nil, err
	}
	linked.RemoveAST()
	return c.add(name, linked), c.handler.Error()
}

func (c *compiler) add(name string, f linker.File) linker.File {
	c.made[name] = f
	c.order = append(c.order, f)
	return f
}

func (c *compiler) imported(name string) (linker.File, error) {
	if f, ok := c.made[name]; ok {
		if f == nil {
			return nil, errors.New("it imports this file, directly or through others")
		}
		return f, nil
	}
	if f := standard(name); f != nil {
		linked, err := linker.NewFileRecursive(f)
		if err != nil {
			return nil, err
		}
		return c.add(name, linked), nil
	}
	text, shown, err := c.open(name)
	if own := ambient[name]; err != nil && own != "" {
		text, shown, err = own, name, nil
	}
	if err != nil {
		return nil, err
	}
	return c.file(name, shown, text)
}

// extent is the size of a file's text: the parser recurses, and takes time and memory.
type extent struct {
	depth int // of nested brackets
	parts int // statements, items and parts of names
	block int // parts of the largest block, without nested blocks
}

// measure ignores comments and strings.
func measure(text string) (e extent) {
	counts := []int{0} // parts of the open blocks
	for i := 0; i < len(text); i++ {
		switch b := text[i]; b {
		case ';', ',', '.':
			e.part(counts)
		case '{', '[', '<', '(':
			e.part(counts)
			if len(counts) <= mostNesting+1 {
				counts = append(counts, 0)
			}
			e.depth = max(e.depth, len(counts)-1)
		case '}', ']', '>', ')':
			if len(counts) > 1 {
				counts = counts[:len(counts)-1]
			}
		case '"', '\'':
			for i++; i < len(text) && text[i] != b && text[i] != '\n'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '/':
			end := ""
			if strings.HasPrefix(text[i:], "//") {
				end = "\n"
			} else if strings.HasPrefix(text[i:], "/*") {
				end = "*/"
			} else {
				continue
			}
			n := strings.Index(text[i+2:], end)
			if n < 0 {
				return e
			}
			i += 2 + n + len(end) - 1
		}
	}
	return e
}

// part counts a part of the innermost block.
func (e *extent) part(counts []int) {
	e.parts++
	counts[len(counts)-1]++
	if len(counts) > 1 {
		e.block = max(e.block, counts[len(counts)-1])
	}
}
