package jsonschema

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// findings collects what is wrong.
type findings struct {
	loud      bool      // collect texts, not only a verdict
	at        []string  // path of the current value
	first     []Finding // findings that an error shows, ordered by place
	count     int       // of all findings
	more      bool      // the check did not cover everything
	inspected int       // values of a schema; see inspect
}

// Finding is one keyword that one value violates.
type Finding struct {
	At   []string // the keys and indexes that lead to the value
	Text string   // such as "minimum: got 0, want 1"
}

// Invalid is the error of a document, or a schema, with at least one [Finding].
type Invalid struct {
	First []Finding // the first ones, ordered by place
	text  string
}

// Error returns the findings on one line: the first ones, and the total number.
func (e *Invalid) Error() string { return e.text }

const (
	shown  = 3   // findings in an error
	widest = 200 // bytes per finding
)

// add adds a finding. Beyond those that an error shows, findings only count: a document can have millions.
func (f *findings) add(text string) {
	if !f.loud || !f.keep(Finding{f.at, text}) {
		return
	}
	f.count++
}

// include adds the findings of an inspection.
func (f *findings) include(o *findings) {
	for _, one := range o.first {
		f.keep(one)
	}
	f.count += o.count
}

// keep keeps a finding if it is one of the first. It returns false if it was there already.
func (f *findings) keep(one Finding) bool {
	i := len(f.first)
	for i > 0 {
		order := slices.Compare(f.first[i-1].At, one.At)
		if order == 0 && f.first[i-1].Text == one.Text {
			return false
		}
		if order <= 0 {
			break
		}
		i--
	}
	if i < shown {
		one.At = slices.Clone(one.At)
		f.first = slices.Insert(f.first, i, one)
		f.first = f.first[:min(shown, len(f.first))]
	}
	return true
}

// below calls a function one step further.
func (f *findings) below(step string, call func()) {
	f.at = append(f.at, step)
	call()
	f.at = f.at[:len(f.at)-1]
}

// err returns an [Invalid] with the findings, or nil.
func (f *findings) err() error {
	if f.count == 0 {
		return nil
	}
	var b strings.Builder
	for i, v := range f.first {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(clip(pointer(v.At)) + ": " + clip(v.Text))
	}
	switch more := f.count - len(f.first); {
	case f.more:
		b.WriteString("; and perhaps more")
	case more > 0:
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return &Invalid{First: f.first, text: b.String()}
}

// pointer returns a JSON pointer (RFC 6901), or words for the whole document.
func pointer(at []string) string {
	if len(at) == 0 {
		return "the document"
	}
	var b strings.Builder
	for _, key := range at {
		b.WriteString("/" + escaped(key))
		if b.Len() > widest {
			break
		}
	}
	return b.String()
}

// clip shortens a text and makes it safe for a terminal and a log.
func clip(text string) string {
	if len(text) > widest {
		text = text[:widest] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
