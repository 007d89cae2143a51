package migrate

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// archive translates a processor that joins a batch into one message. On a copy of one message it makes an archive of
// one.
func archive(t *translator, c *component) ([]*yaml.Node, string) {
	format := text(c.config, "format")
	if format == "lines" && !c.ctx.alone {
		t.says(c.key, "an archive of lines ends with a line break, too")
	}
	if c.ctx.alone && format == "json_array" {
		return []*yaml.Node{short("map", code("[this]"))}, ""
	}
	if c.ctx.alone && (format == "lines" || format == "concatenate") {
		return []*yaml.Node{}, ""
	}
	var form *yaml.Node
	switch format {
	case "lines", "json_array":
		form = scalar(format)
	case "concatenate":
		form = scalar("concat")
	case "tar":
		form = scalar("tar")
		if path := text(c.config, "path"); path != "" {
			head := mapping()
			name := t.template(head, lookup(c.config, "path"), path, c.ctx)
			form = mapping("tar", mapping("name", name))
			form.HeadComment = head.HeadComment
		}
	default:
		if d, ok := strings.CutPrefix(format, "delim:"); ok {
			form = mapping("concat", mapping("separator", d))
			break
		}
		return nil, fmt.Sprintf("archives of the format %s are not made", format)
	}
	return []*yaml.Node{short("archive", form)}, ""
}

// unarchive translates a processor that splits a message.
func unarchive(t *translator, c *component) ([]*yaml.Node, string) {
	format := text(c.config, "format")
	if c.ctx.alone {
		if format == "json_array" && c.ctx.packed {
			return []*yaml.Node{short("map", code("this[0]"))}, ""
		}
		return nil, "a message can't be split on a copy: each runs steps on the elements of an array"
	}
	switch {
	case format == "lines":
		return []*yaml.Node{short("split", "lines")}, ""
	case format == "json_array":
		return []*yaml.Node{short("split", code("this"))}, ""
	case format == "csv":
		return []*yaml.Node{short("decode", "csv"), short("split", code("this"))}, ""
	case strings.HasPrefix(format, "csv:") && len(format) > 4:
		decode := short("decode", mapping("csv", mapping("delimiter", format[4:])))
		return []*yaml.Node{decode, short("split", code("this"))}, ""
	case format == "json_documents":
		return []*yaml.Node{short("split", code(`map(filter(split(raw(), "\n"), trim(#) != ""), from_json(#))`))}, ""
	case format == "json_map": // a pair is its key and its value
		return []*yaml.Node{short("split", code("to_pairs(this)")), short("meta", mapping("archive_key", code("this[0]"))),
			short("map", code("this[1]"))}, ""
	}
	return nil, fmt.Sprintf("archives of the format %s are read by an input, with its framing, or not at all", format)
}

func splitStep(t *translator, c *component) ([]*yaml.Node, string) {
	size := text(c.config, "size")
	if size == "" || size == "1" {
		return []*yaml.Node{}, "" // steps work on single messages
	}
	return nil, "a batch has the size that its batcher says: batch: {size: …}"
}

func bounds(t *translator, c *component) ([]*yaml.Node, string) {
	var conditions []string
	if least := text(c.config, "min_part_size"); least != "0" && least != "" {
		conditions = append(conditions, "size() >= "+least)
	}
	if most := text(c.config, "max_part_size"); most != "" {
		conditions = append(conditions, "size() <= "+most)
	}
	if has(c.config, "max_parts") || has(c.config, "min_parts") {
		return nil, "how many messages a batch has is for its batcher to say: batch: {size: …}"
	}
	if len(conditions) == 0 {
		conditions = []string{"size() >= 1"}
	}
	return []*yaml.Node{short("filter", code(strings.Join(conditions, " and ")))}, ""
}

func selectParts(_ *translator, c *component) ([]*yaml.Node, string) {
	if parts := items(lookup(c.config, "parts")); len(parts) == 1 {
		switch parts[0].Value {
		case "0":
			return []*yaml.Node{short("limit", code("1"))}, ""
		case "-1":
			return []*yaml.Node{short("limit", mapping("count", code("1"), "from", "last"))}, ""
		}
	}
	return nil, "messages are not picked by their index: limit keeps the first or the last ones"
}

func grok(t *translator, c *component) ([]*yaml.Node, string) {
	all := items(lookup(c.config, "expressions"))
	if len(all) != 1 {
		return nil, "decode: {grok: …} takes one pattern: write several with | between them"
	}
	if text(c.config, "named_captures_only") == "false" || text(c.config, "use_default_patterns") == "false" ||
		len(items(lookup(c.config, "pattern_paths"))) > 0 {
		return nil, "patterns are those that are known and those of patterns; only those with a name become fields"
	}
	own := lookup(c.config, "pattern_definitions")
	if empty(own) {
		return []*yaml.Node{short("decode", mapping("grok", all[0].Value))}, ""
	}
	return []*yaml.Node{short("decode", mapping("grok", mapping("pattern", all[0].Value, "patterns", plainCopy(own))))}, ""
}

func codecStep(format string) func(*translator, *component) ([]*yaml.Node, string) {
	return func(_ *translator, c *component) ([]*yaml.Node, string) {
		switch text(c.config, "operator") {
		case "to_json":
			return []*yaml.Node{short("decode", format)}, ""
		case "from_json":
			return []*yaml.Node{short("encode", format)}, ""
		}
		return nil, "the operator is to_json or from_json"
	}
}

var fromTo = map[string]string{"to_json": "decode", "from_json": "encode"}

func avro(_ *translator, c *component) ([]*yaml.Node, string) {
	step := fromTo[text(c.config, "operator")]
	if step == "" {
		return nil, "the operator is to_json or from_json"
	}
	if enc := text(c.config, "encoding"); enc != "binary" {
		return nil, "Avro is read and written in its binary form only"
	}
	options := mapping()
	if path := text(c.config, "schema_path"); path != "" {
		put(options, "schema", scalar(strings.TrimPrefix(path, "file://")))
	} else {
		put(options, "schema", scalar(text(c.config, "schema")))
	}
	return []*yaml.Node{short(step, mapping("avro", options))}, ""
}

// protobuf searches the schema's file in the given folders.
func protobuf(t *translator, c *component) ([]*yaml.Node, string) {
	step, message := fromTo[text(c.config, "operator")], text(c.config, "message")
	if step == "" {
		return nil, "the operator is to_json or from_json"
	}
	parts := strings.Split(message, ".")
	defines := regexp.MustCompile(`\bmessage\s+` + regexp.QuoteMeta(parts[len(parts)-1]) + `\b`)
	for _, dir := range items(lookup(c.config, "import_paths")) {
		names, err := t.o.List(dir.Value)
		if err != nil {
			continue
		}
		for _, name := range names {
			data, err := t.o.Read(name)
			if err != nil || path.Ext(name) != ".proto" || !defines.Match(data) {
				continue
			}
			options := mapping("schema", name, "import_paths", list(scalar(dir.Value)), "message", message)
			if step == "encode" && text(c.config, "discard_unknown") == "true" { // decoding leaves unknown fields out
				put(options, "drop_unknown", code("true"))
			}
			if step == "decode" {
				if text(c.config, "use_proto_names") != "true" {
					put(options, "names", scalar("json"))
				}
				put(options, "defaults", code("false"))
			}
			made := short(step, mapping("protobuf", options))
			if step == "decode" {
				t.differs(made, c.key, "integers of 64 bits are numbers rather than text")
			}
			return []*yaml.Node{made}, ""
		}
	}
	return nil, "the file of the schema is needed: protobuf: {schema: FILE, message: " + message + "}"
}

// registered translates a codec with a schema registry.
func registered(step string) func(*translator, *component) ([]*yaml.Node, string) {
	return func(t *translator, c *component) ([]*yaml.Node, string) {
		n := mapping()
		name := t.registry(n, c)
		format := "avro"
		if f := text(c.config, "format"); f == "json_schema" || f == "protobuf" {
			format = f
		} else if f == "" {
			t.differs(n, c.key, "the format is taken to be Avro: write protobuf or json_schema for another")
		}
		options := mapping("registry", name)
		if step == "encode" {
			subject := text(c.config, "subject")
			put(options, "subject", scalar(t.template(n, lookupOr(c.config, "subject"), subject, c.ctx)))
			if text(c.config, "schema_metadata") != "" {
				put(options, "register", code("true"))
				return nil, "a schema is a file, or the newest of its subject: it is not made of metadata"
			}
		} else if text(c.config, "default_schema_id") != "" && text(c.config, "default_schema_id") != "0" {
			return nil, "a payload without the id of a schema is read by a schema of a file"
		}
		put(n, step, mapping(format, options))
		return []*yaml.Node{n}, ""
	}
}

// registry defines a schema registry, and returns its name.
func (t *translator) registry(made *yaml.Node, c *component) string {
	address := text(c.config, "url")
	all := t.resources["registries"]
	if all == nil {
		all = mapping()
		t.resources["registries"] = all
	}
	for _, p := range pairsOf(all) {
		if text(p.value, "url") == address {
			return p.key.Value
		}
	}
	name := "main"
	if len(all.Content) > 0 {
		name = fmt.Sprintf("registry_%d", len(all.Content)/2+1)
	}
	def := mapping("url", address)
	if text(c.config, "basic_auth", "enabled") == "true" {
		put(def, "auth", mapping("basic", mapping("user", text(c.config, "basic_auth", "username"),
			"password", text(c.config, "basic_auth", "password"))))
	}
	put(all, name, def)
	return name
}

func stringSplit(_ *translator, c *component) ([]*yaml.Node, string) {
	expr := "split(raw(), " + quote(text(c.config, "delimiter")) + ")"
	if text(c.config, "empty_as_null") == "true" {
		expr = "map(" + expr + `, # == "" ? nil : #)`
	}
	return []*yaml.Node{short("payload", code(expr))}, ""
}

// parquetTypes maps the source system's types of columns to flowd's.
var parquetTypes = map[string]string{"BOOLEAN": "bool", "INT32": "int32", "INT64": "int64", "FLOAT": "float",
	"DOUBLE": "double", "BYTE_ARRAY": "text", "UTF8": "text", "TIMESTAMP": "timestamp(ns)", "JSON": "json", "UUID": "uuid"}

// parquet translates what makes a Parquet file of a batch.
func parquet(_ *translator, c *component) ([]*yaml.Node, string) {
	options := mapping()
	if columns := items(lookup(c.config, "schema")); len(columns) > 0 {
		schema, why := parquetColumns(columns)
		if why != "" {
			return nil, why
		}
		put(options, "schema", schema)
	}
	switch compression := text(c.config, "default_compression"); compression {
	case "snappy":
	case "", "uncompressed":
		put(options, "compression", scalar("none"))
	case "gzip", "zstd":
		put(options, "compression", scalar(compression))
	default:
		return nil, fmt.Sprintf("columns are not compressed by %s", compression)
	}
	return []*yaml.Node{short("encode", mapping("parquet", options))}, ""
}

func parquetColumns(columns []*yaml.Node) (*yaml.Node, string) {
	schema := mapping()
	for _, column := range columns {
		var made *yaml.Node
		name, kind := text(column, "name"), strings.ToUpper(text(column, "type"))
		switch inner := items(lookup(column, "fields")); {
		case len(inner) > 0 && kind == "":
			fields, why := parquetColumns(inner)
			if why != "" {
				return nil, why
			}
			made = fields
		case kind == "DECIMAL":
			made = scalar(fmt.Sprintf("decimal(%s,%s)", text(column, "decimal_precision"), text(column, "decimal_scale")))
		case parquetTypes[kind] != "":
			made = scalar(parquetTypes[kind])
		default:
			return nil, fmt.Sprintf("the type %s of the column %s has no counterpart", kind, name)
		}
		required := text(column, "optional") != "true"
		switch {
		case text(column, "repeated") == "true":
			made = list(made)
		case required && made.Kind == yaml.ScalarNode:
			made.Value += " required"
		}
		put(schema, name, made)
	}
	return schema, ""
}

// parquetDecode translates what makes a message of each row of a Parquet file.
func parquetDecode(*translator, *component) ([]*yaml.Node, string) {
	return []*yaml.Node{short("decode", "parquet"), short("split", code("this"))}, ""
}
