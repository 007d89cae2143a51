package expr

import "github.com/flowd-io/flowd/schema"

// origin is where code is from: a field of a configuration or a template, with placeholders
// where the code has their values.
type origin struct {
	text  string // as written; errors show this and never a placeholder's value
	place schema.Place
	by    *schema.Decoder // nil: a program compiles it
	runs  []run           // in order of code; none: code and text are equal
}

// run is a stretch of code and where it is in the text.
type run struct {
	code, text int
	value      bool // a placeholder's value: all of it is at text
}

// at is the place in the text of a byte of the code.
func (o *origin) at(code int) int {
	text := code
	for _, r := range o.runs {
		if r.code > code {
			break
		}
		text = r.text
		if !r.value {
			text += code - r.code
		}
	}
	return min(max(text, 0), len(o.text))
}

// hidden says whether code from..to holds a placeholder's value, which may be a
// secret: messages don't show it.
func (o *origin) hidden(from, to int) bool {
	for i, r := range o.runs {
		end := to + 1
		if i+1 < len(o.runs) {
			end = o.runs[i+1].code
		}
		if r.value && r.code < to && end > from {
			return true
		}
	}
	return false
}
