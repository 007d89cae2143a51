package doc

import "fmt"

// SyntaxError is why bytes are not a document.
type SyntaxError struct {
	Offset int    // of the first byte that is not allowed there
	Msg    string // "unexpected end of document"
}

func (e *SyntaxError) Error() string {
	if e.Msg == msgEmpty {
		return "not a JSON document: " + e.Msg
	}
	return fmt.Sprintf("not a JSON document: %s at byte %d", e.Msg, e.Offset)
}

// ValueError is the error of a value that can't be read, set or encoded: a number out of range, a parent without
// fields, an index past the end.
type ValueError struct {
	Path string // where; "" is the whole document
	Msg  string
}

func (e *ValueError) Error() string {
	if e.Path == "" {
		return e.Msg
	}
	return e.Path + ": " + e.Msg
}

// PathError is the error of a text that is not a valid path.
type PathError struct {
	Path   string
	Offset int // in bytes
	Msg    string
}

func (e *PathError) Error() string {
	return fmt.Sprintf("path %q: %s at byte %d", e.Path, e.Msg, e.Offset)
}
