// Package jsonschema checks documents against JSON Schemas of the drafts 4, 6, 7, 2019-09 and 2020-12, and describes
// violations on one line. Start at [Compile]. The options of the formats that use a registry are [Reads] and
// [Writes].
//
// A message, or a schema from a registry, may make a check take exponential time. So a check has a budget of steps,
// and ends with its context (budget.go). The one library for all of these drafts supports neither: its extension
// point, custom vocabularies, is called too rarely to count steps. Under the keyword "not", it takes millions of
// steps between two calls. Tests compare the results of both.
//
// A text becomes a [document], its schemas get addresses (resolve.go) and become nodes (node.go), and values are
// checked against them (check.go): first for a verdict only, and again for the findings if it is negative.
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

// Check returns where and why a document, which must be valid JSON, does not match: the first few places, without
// text of the document. The error is that of ctx if it ends during the check, and [ErrGivenUp] for a document that
// takes more steps than its size allows.
func (s *Schema) Check(ctx context.Context, document []byte) error {
	value, err := read(document)
	if err != nil {
		return err
	}
	return s.library.check(ctx, s.root, value, len(document))
}

// Explain returns the error of a step whose check against a schema with that name failed. fault is the text to show,
// since err may quote a name that must stay private.
func Explain(err, fault error, name string) error {
	if errors.Is(err, ErrGivenUp) {
		return fmt.Errorf("could not be checked by %s: %w", name, fault)
	}
	return fmt.Errorf("does not match %s: %w", name, fault)
}

// read decodes a valid document for the validator, with numbers as written.
func read(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return v, bounded(v, nil)
}

// longest bounds a number's digits and its power of ten: the validator calculates with exact fractions, which a short
// text can make very long.
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
