package jsonschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	shown  = 3   // violations in an error
	widest = 200 // bytes of each
)

// explain says in one line what is not valid: the first places in the order of their
// pointers, and how many there are. text puts each into words.
func explain(err error, text func(santhosh.ErrorKind) string) string {
	var failed *santhosh.ValidationError
	if !errors.As(err, &failed) {
		return clip(err.Error())
	}
	var all []violation
	collect(failed, &all)
	slices.SortStableFunc(all, func(a, b violation) int { return slices.Compare(a.at, b.at) })
	var b strings.Builder
	for i, v := range all[:min(shown, len(all))] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(clip(pointer(v.at)) + ": " + clip(text(v.kind)))
	}
	if more := len(all) - shown; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// violation is one keyword that one value breaks.
type violation struct {
	at   []string
	kind santhosh.ErrorKind
}

// collect finds the violations that have no cause but themselves.
func collect(e *santhosh.ValidationError, all *[]violation) {
	if _, ok := e.ErrorKind.(*kind.PropertyNames); ok || len(e.Causes) == 0 {
		*all = append(*all, violation{e.InstanceLocation, e.ErrorKind})
		return
	}
	for _, cause := range e.Causes {
		collect(cause, all)
	}
}

// inFull is what is wrong, in the words of the validator.
func inFull(k santhosh.ErrorKind) string {
	return k.LocalizedString(message.NewPrinter(language.English))
}

// withoutValues is inFull, without texts of the message: they may be long, or private.
func withoutValues(k santhosh.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return "does not match the pattern " + k.Want
	case *kind.Format:
		return "is not a valid " + k.Want
	case *kind.FalseSchema:
		return "nothing is allowed here"
	case *kind.Not:
		return "matches what it must not (keyword not)"
	}
	return inFull(k)
}

// pointer is a JSON pointer (RFC 6901), or words for the whole document.
func pointer(at []string) string {
	if len(at) == 0 {
		return "the document"
	}
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, key := range at {
		b.WriteString("/" + escape.Replace(key))
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
