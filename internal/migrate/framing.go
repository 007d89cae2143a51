package migrate

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// framing translates a scanner, or a codec of older versions.
func framing(otherwise string) func(t *translator, c *component, p pair) string {
	return func(t *translator, c *component, p pair) string {
		form, compression, why := scan(t, p.value)
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
}

func scan(t *translator, v *yaml.Node) (form *yaml.Node, compression, why string) {
	if v.Kind == yaml.ScalarNode {
		parts := strings.Split(v.Value, "/")
		for i, part := range parts {
			if i == len(parts)-1 {
				form, why = codec(part)
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
				form, _, why = scan(t, into)
			}
			return form, text(p.value, "algorithm"), why
		case "skip_bom":
			if into := lookup(p.value, "into"); into != nil {
				return scan(t, into)
			}
			return scalar("whole"), "", ""
		}
		return nil, "", fmt.Sprintf("there is no counterpart of the scanner %s", p.key.Value)
	}
	return nil, "", ""
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

// codecOut translates how an output writes messages one after the other.
func codecOut(_ *translator, c *component, p pair) string {
	switch v := p.value.Value; {
	case v == "" || v == "lines":
	case v == "append":
		put(c.out, "framing", mapping("delimiter", ""))
		return "messages need something between them: framing: {delimiter: …}"
	case v == "all-bytes":
		put(c.out, "framing", scalar("whole"))
		put(c.out, "append", code("false"))
	case strings.HasPrefix(v, "delim:"):
		put(c.out, "framing", mapping("delimiter", v[len("delim:"):]))
	default:
		return "there is no counterpart of the codec " + v
	}
	return ""
}
