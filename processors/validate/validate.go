// Package validate is the processor `validate`: it fails messages that are not valid
// against a JSON Schema. Start at [Config].
package validate

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/jsonschema"
)

// Config configures the validate processor.
type Config struct {
	File   string `yaml:"file" doc:"File of the schema, JSON or YAML. It is read when the pipeline is loaded."`
	Schema Inline `yaml:"schema,main" doc:"Instead: the schema itself; text is the name of a file."`
	Draft  string `yaml:"draft" check:"oneof=2020-12|2019-09|7|6|4" doc:"Version of JSON Schema, for a schema without $schema."`
	Format bool   `yaml:"format" doc:"Also check the keyword format, which is otherwise only an annotation (before 2019-09 it is always checked)."`
}

var defaults = Config{Draft: "2020-12"}

// CheckConfig requires exactly one schema.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	switch {
	case c.File == "" && !c.Schema.given:
		report("", "needs a schema", "write `validate: orders.schema.json`, or the schema itself: {type: object, …}")
	case c.File != "" && c.Schema.given:
		report("schema", "there is already a file with a schema", "keep one of them")
	}
}

// ConfigFiles returns the files that are read: the schema, and those that it refers to.
func (c Config) ConfigFiles() []string {
	file := c.file()
	if file == "" {
		return nil
	}
	return []string{file, filepath.Dir(file) + "/"}
}

// file returns the schema's file, or "".
func (c *Config) file() string { return cmp.Or(c.File, c.Schema.file) }

const help = `
Checks the document against a JSON Schema. An invalid message fails with class
rejected; the error says where and why, for the first few places. A valid one continues
unchanged.

    - validate:
        required: [id, total]
        properties: {total: {type: number, minimum: 0}}

From a file it is ` + "`validate: schemas/order.json`" + `; next to draft and format, the
schema goes under schema. A $ref refers to the schema itself or to files in its folder,
never to the network. Patterns are Go regular expressions. To mark invalid messages
instead, give the step an on_error.

A check takes at most a million steps and 32 for each byte of the document: a step is one value
that one schema looks at. Ordinary schemas need a few for each value. A check that needs more is
given up, and fails with class rejected, too.
`

func init() {
	engine.Register(engine.Processors, "validate", help, defaults, build)
}

func build(c Config, _ engine.Env) (engine.Processor, error) {
	v := &validator{name: cmp.Or(c.file(), "the schema")}
	o := jsonschema.Options{Draft: c.Draft, Format: c.Format}
	var err error
	if name := c.file(); name != "" {
		v.schema, err = jsonschema.CompileFile(name, o)
	} else {
		v.schema, err = jsonschema.Compile(c.Schema.value, o)
	}
	if err != nil {
		return nil, err
	}
	return engine.ProcessorFunc(v.process), nil
}

type validator struct {
	schema *jsonschema.Schema
	name   string
}

func (v *validator) process(ctx context.Context, m *engine.Message) error {
	if err := m.Doc().Valid(); err != nil {
		return err
	}
	err := v.schema.Check(ctx, m.Bytes())
	if err != nil && ctx.Err() == nil {
		err = engine.WithClass(engine.Rejected, jsonschema.Explain(err, engine.Fault(err.Error()), v.name))
	}
	return err
}
