// Package jsonschema checks documents against JSON Schemas, and says what is wrong with them in
// one line. Start at [Compile]; the options of the formats that use a registry's are in [Reads]
// and [Writes].
package jsonschema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	santhosh "github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a compiled schema. It is safe for concurrent use.
type Schema struct {
	Title    string
	compiled *santhosh.Schema
}

// Check says where and why a document, which is valid JSON, does not match: the first few
// places, without texts of the document.
func (s *Schema) Check(document []byte) error {
	value, err := read(document)
	if err != nil {
		return err
	}
	if err := s.compiled.Validate(value); err != nil {
		return errors.New(explain(err, withoutValues))
	}
	return nil
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
