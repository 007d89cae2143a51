package migrate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// framing translates a scanner, or a codec of older versions.
func framing(t *translator, c *component, p pair) string {
	form, compression, why := scan(t, c, p.value)
	if why != "" {
		return why
	}
	if form != nil {
		put(c.out, "framing", form)
	}
	if compression != "" && compression != "auto" {
		put(c.out, "compression", scalar(compression))
	}
	return ""
}

// noEmptyLines notes, once per file, that an input makes no messages of empty lines.
func (t *translator) noEmptyLines(c *component, at *yaml.Node) {
	if !t.emptied {
		t.emptied = true
		t.differs(c.out, at, "an empty line, or nothing between two delimiters, is not a message")
	}
}

func scan(t *translator, c *component, v *yaml.Node) (form *yaml.Node, compression, why string) {
	if v.Kind == yaml.ScalarNode {
		parts := strings.Split(v.Value, "/")
		for i, part := range parts {
			if i == len(parts)-1 {
				form, why = codec(part)
				if part == "" || part == "lines" || strings.HasPrefix(part, "delim:") {
					t.noEmptyLines(c, v)
				}
				break
			}
			switch part {
			case "auto", "gzip", "pgzip":
				compression = strings.TrimPrefix(part, "p")
			default:
				return nil, "", fmt.Sprintf("there is no counterpart of the codec %s", v.Value)
			}
		}
		return form, compression, why
	}
	if all := pairsOf(v); len(all) > 0 {
		p := all[0]
		switch p.key.Value {
		case "lines":
			if text(p.value, "omit_empty") != "true" {
				t.noEmptyLines(c, p.key)
			}
			if n, err := strconv.Atoi(text(p.value, "max_buffer_size")); err == nil && n > 1<<20 {
				put(c.out, "max_record", code(strconv.Itoa(n)))
			}
			switch end := text(p.value, "custom_delimiter"); end {
			case "", "\n":
				return scalar("lines"), "", ""
			default:
				return mapping("delimiter", end), "", ""
			}
		case "csv":
			options := mapping()
			if d := text(p.value, "custom_delimiter"); d != "" {
				put(options, "delimiter", scalar(d))
			}
			if text(p.value, "parse_header_row") == "false" {
				put(options, "header", code("false"))
			}
			for _, o := range pairsOf(p.value) {
				if says := csvOptions[o.key.Value]; says != "" && !empty(o.value) && o.value.Value != "false" {
					t.differs(c.out, o.key, says)
				}
			}
			if len(options.Content) == 0 {
				return scalar("csv"), "", ""
			}
			return mapping("csv", options), "", ""
		case "json_documents", "json_array":
			return scalar("json"), "", ""
		case "to_the_end":
			return scalar("whole"), "", ""
		case "tar":
			return scalar("tar"), "", ""
		case "re_match":
			return mapping("start", text(p.value, "pattern")), "", ""
		case "decompress":
			form, _, why = scalar("whole"), "", ""
			if into := lookup(p.value, "into"); into != nil {
				form, _, why = scan(t, c, into)
			}
			algorithm := strings.TrimPrefix(text(p.value, "algorithm"), "p") // pgzip is gzip
			if why == "" && !slices.Contains([]string{"gzip", "zstd", "bzip2", "snappy", "lz4"}, algorithm) {
				why = "an input does not decompress " + algorithm
			}
			return form, algorithm, why
		case "skip_bom":
			if into := lookup(p.value, "into"); into != nil {
				return scan(t, c, into)
			}
			return scalar("whole"), "", ""
		}
		return nil, "", fmt.Sprintf("there is no counterpart of the scanner %s", p.key.Value)
	}
	return nil, "", ""
}

// lazyQuotes is the difference between CSV with lazy quotes and CSV here.
const lazyQuotes = "a quote inside a field with quotes around it must be doubled"

// csvOptions are options of the scanner csv without a counterpart, with the resulting difference.
var csvOptions = map[string]string{
	"lazy_quotes":               lazyQuotes,
	"expected_headers":          "the names in the header are not checked (expected_headers)",
	"expected_number_of_fields": "rows have as many fields as the header, which is not checked (expected_number_of_fields)",
	"continue_on_error": "a row that can't be read is a failed message and goes where engine.on_failure says; " +
		"there it went on, empty",
}

func codec(name string) (*yaml.Node, string) {
	if d, ok := strings.CutPrefix(name, "delim:"); ok {
		return mapping("delimiter", d), ""
	}
	if re, ok := strings.CutPrefix(name, "regex:"); ok {
		return mapping("start", re), ""
	}
	switch name {
	case "", "lines":
		return scalar("lines"), ""
	case "all-bytes":
		return scalar("whole"), ""
	case "csv", "csv-gzip":
		return scalar("csv"), ""
	case "tar":
		return scalar("tar"), ""
	}
	return nil, "there is no counterpart of the codec " + name
}

// codecOut translates how an output separates messages.
func codecOut(t *translator, c *component, p pair) string {
	switch v := p.value.Value; {
	case v == "" || v == "lines":
	case v == "append":
		put(c.out, "framing", mapping("delimiter", ""))
		return "messages need something between them: framing: {delimiter: …}"
	case v == "all-bytes":
		put(c.out, "framing", scalar("whole"))
		if c.entry.To == "file" {
			put(c.out, "append", code("false"))
			t.differs(c.out, p.key, "messages for one path are written one after the other; there, each replaced the last")
		}
	case strings.HasPrefix(v, "delim:"):
		put(c.out, "framing", mapping("delimiter", v[len("delim:"):]))
	default:
		return "there is no counterpart of the codec " + v
	}
	return ""
}
