// Package jsonschema checks documents against JSON Schemas of the drafts 4, 6, 7, 2019-09 and 2020-12, and says what
// is wrong with them in one line. Start at [Compile]; the options of the formats that use a registry's are in [Reads]
// and [Writes].
//
// A message, and a schema of a registry, may make a check take exponential time, so it has a budget of steps and ends
// with its context (budget.go). That is why this is not the one library that knows all of these drafts: its checks
// take neither, and what it lets a program add to them, the keywords of a vocabulary, is called too seldom to count
// steps. Under the keyword "not" it takes millions of steps between two calls. Tests hold both equal.
//
// A text is read into a [document], its schemas get addresses (resolve.go) and become nodes (node.go), and values are
// checked by them (check.go): first for yes or no, and once more for what is wrong.
package jsonschema

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	Title   string
	library *library
	root    *node
}

// Check says where and why a document, which is valid JSON, does not match: the first few
// places, without texts of the document. The error is that of ctx when it ends during the check, and
// [ErrGivenUp] for a document that takes more steps than one of its size may.
func (s *Schema) Check(ctx context.Context, document []byte) error {
	value, err := read(document)
	if err != nil {
		return err
	}
	return s.library.check(ctx, s.root, value, len(document))
}

// Explain is the error of a step whose check of a document by a schema of that name failed. fault is the error as it is
// shown, for the name may be nobody else's business.
func Explain(err, fault error, name string) error {
	if errors.Is(err, ErrGivenUp) {
		return fmt.Errorf("could not be checked by %s: %w", name, fault)
	}
	return fmt.Errorf("does not match %s: %w", name, fault)
}

// read decodes a valid document as the validator wants it, numbers as written.
func read(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return v, bounded(v, nil)
}

// longest bounds a number's digits and its power of ten: the validator calculates
// with exact fractions, which a short text can make very long.
const longest = 1000

func bounded(v any, at []string) error {
	switch v := v.(type) {
	case json.Number:
		digits, power, _ := strings.Cut(strings.ToLower(string(v)), "e")
		n, err := strconv.Atoi(cmp.Or(power, "0"))
		if err != nil || len(digits) > longest || n > longest || n < -longest {
			return fmt.Errorf("%s: a number beyond %d digits can't be checked", pointer(at), longest)
		}
	case []any:
		for i := range v {
			if err := bounded(v[i], append(at, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, item := range v {
			if err := bounded(item, append(at, key)); err != nil {
				return err
			}
		}
	}
	return nil
}
