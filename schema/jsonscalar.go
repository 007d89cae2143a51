package schema

import "strconv"

// holder is what a placeholder looks like: any scalar may be one.
const holder = `\$\{`

// Patterns of the scalars that have their own form.
const (
	durationPattern = `^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+$|^0$|` + holder
	sizePattern     = `^[0-9]+(\.[0-9]+)?([KMGTP]i?B|B)?$|` + holder
)

// scalar is the schema of one value of a kind, in the bounds of its field.
func scalar(k kind, f *field) map[string]any {
	var c check
	if f != nil {
		c = f.check
	}
	switch k {
	case boolKind:
		return either(map[string]any{"type": "boolean"}, `^([Tt]rue|TRUE|[Ff]alse|FALSE)$|`)
	case intKind, uintKind:
		m := map[string]any{"type": "integer"}
		if k == uintKind {
			m["minimum"] = 0
		}
		return either(bounded(m, c), `^[-+]?[0-9]+$|`)
	case floatKind:
		return either(bounded(map[string]any{"type": "number"}, c), `^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$|`)
	case durationKind:
		return patterned(durationPattern)
	case sizeKind:
		return anyOf(map[string]any{"type": "integer", "minimum": 0}, patterned(sizePattern))
	}
	if len(c.oneof) > 0 {
		return words(k, c.oneof)
	}
	return text()
}

// words is the schema of a value that is one of a few words.
func words(k kind, texts []string) map[string]any {
	words := make([]any, len(texts))
	for i, text := range texts {
		words[i] = native(k, text)
	}
	return anyOf(map[string]any{"enum": words}, patterned(holder))
}

// either is a schema, or a text that a pattern allows: the value in quotes, or
// a placeholder.
func either(m map[string]any, pattern string) map[string]any {
	return anyOf(m, patterned(pattern+holder))
}

// anyOf is a schema that takes what one of others takes.
func anyOf(forms ...any) map[string]any { return map[string]any{"anyOf": forms} }

// patterned is the schema of a text that a pattern allows.
func patterned(pattern string) map[string]any {
	return map[string]any{"type": "string", "pattern": pattern}
}

func bounded(m map[string]any, c check) map[string]any {
	for key, bound := range map[string]string{"minimum": c.min, "maximum": c.max} {
		if n, err := strconv.ParseFloat(bound, 64); err == nil {
			m[key] = n
		}
	}
	return m
}

// native is a default as JSON has it: numbers and booleans as such.
func native(k kind, text string) any {
	switch k {
	case boolKind:
		return text == "true"
	case intKind, uintKind, floatKind:
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n
		}
	}
	return text
}
