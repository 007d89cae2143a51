package jsonschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// findings are what was found wrong.
type findings struct {
	loud bool     // they are wanted, and not only whether there are any
	at   []string // the way to the value that is looked at
	all  []finding
}

// finding is one keyword that one value breaks.
type finding struct {
	at   []string
	text string
}

func (f *findings) add(text string) {
	if f.loud {
		f.all = append(f.all, finding{slices.Clone(f.at), text})
	}
}

// below calls a function one step further.
func (f *findings) below(step string, call func()) {
	f.at = append(f.at, step)
	call()
	f.at = f.at[:len(f.at)-1]
}

const (
	shown  = 3   // findings in an error
	widest = 200 // bytes of each
)

// err says in one line what was found: the first places in the order of their pointers, and how
// many there are.
func (f *findings) err() error {
	if len(f.all) == 0 {
		return nil
	}
	slices.SortStableFunc(f.all, func(a, b finding) int { return slices.Compare(a.at, b.at) })
	var b strings.Builder
	for i, v := range f.all[:min(shown, len(f.all))] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(clip(pointer(v.at)) + ": " + clip(v.text))
	}
	if more := len(f.all) - shown; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return errors.New(b.String())
}

// pointer is a JSON pointer (RFC 6901), or words for the whole document.
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

// clip shortens a text and makes it harmless to a terminal and a log.
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
