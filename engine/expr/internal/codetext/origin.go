package codetext

import "github.com/flowd-io/flowd/schema"

// Origin is where code is from: a field of a configuration, or a template. The text there has placeholders, and the code has
// their values.
type Origin struct {
	Text    string // as written; errors show this and never a placeholder's value
	Place   schema.Place
	Decoder *schema.Decoder // nil: a program compiles it
	Runs    []Run           // in the order of the code; none if code and text are equal
}

// Run is a stretch of code: where it begins in the code and in the text, in bytes.
type Run struct {
	Code, Text int
	Value      bool // it is the value of the placeholder at Text
}

// At is the offset in the text of a byte of the code.
func (o *Origin) At(code int) int {
	text := code
	for _, r := range o.Runs {
		if r.Code > code {
			break
		}
		text = r.Text
		if !r.Value {
			text += code - r.Code
		}
	}
	return min(max(text, 0), len(o.Text))
}

// Hidden says whether the value of a placeholder is within code[from:to]. It may be a secret, so errors do not show it.
func (o *Origin) Hidden(from, to int) bool {
	for i, r := range o.Runs {
		end := to + 1
		if i+1 < len(o.Runs) {
			end = o.Runs[i+1].Code
		}
		if r.Value && r.Code < to && end > from {
			return true
		}
	}
	return false
}
