package schema

import "strconv"

// holder matches a placeholder, which can replace any scalar.
const holder = `\$\{`

// Patterns of the scalars that have their own form.
const (
	durationPattern = `^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+$|^0$|` + holder
	sizePattern     = `^[0-9]+(\.[0-9]+)?([KMGTP]i?B|B)?$|` + holder
)

// scalar returns the schema of one value of a kind, within the bounds of its field.
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

// words returns the schema of a value that is one of a few words.
func words(k kind, texts []string) map[string]any {
	words := make([]any, len(texts))
	for i, text := range texts {
		words[i] = native(k, text)
	}
	return anyOf(map[string]any{"enum": words}, patterned(holder))
}

// either returns a schema that also allows texts matching a pattern: the value in quotes, or a placeholder.
func either(m map[string]any, pattern string) map[string]any {
	return anyOf(m, patterned(pattern+holder))
}

// anyOf returns a schema that allows what any of the others allows.
func anyOf(forms ...any) map[string]any { return map[string]any{"anyOf": forms} }

// patterned returns the schema of texts matching a pattern.
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

// native returns a default as JSON: numbers and booleans as such.
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
