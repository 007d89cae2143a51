// Package jsonschema checks documents against JSON Schemas of the drafts 4, 6, 7, 2019-09 and 2020-12, and says what
// is wrong with them in one line. Start at [Compile]; the options of the formats that use a registry's are in [Reads]
// and [Writes].
//
// The one library that knows these drafts compiles the schemas of schemas of all of them when a program starts: a third
// of the time until flowd reads its configuration, whether a schema is used or not. Tests hold both equal.
//
// A text is read into a [document], its schemas get addresses (resolve.go) and become nodes (node.go), and values are
// checked by them (check.go): first for yes or no, and once more for what is wrong.
package jsonschema

import (
	"bytes"
	"cmp"
	"encoding/json"
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
// places, without texts of the document.
func (s *Schema) Check(document []byte) error {
	value, err := read(document)
	if err != nil {
		return err
	}
	return s.library.check(s.root, value)
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
