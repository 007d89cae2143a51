package registry

import (
	"fmt"
	"strings"

	"github.com/flowd-io/flowd/engine"
)

const mostTexts = 2 << 20 // bytes of a schema with its references

// Bounded rejects a schema whose texts have more parts than most, before a parser reads them. Every part of a text
// except the first begins with one of the marks. Registries can be hostile, and so can messages with schemas of their
// own: a part of a few bytes may become two thousand.
func Bounded(texts []string, marks string, most int) error {
	parts, bytes := 0, 0
	for _, text := range texts {
		bytes += len(text)
		for i := range len(text) {
			if strings.IndexByte(marks, text[i]) >= 0 {
				parts++
			}
		}
	}
	switch {
	case bytes > mostTexts:
		return fmt.Errorf("it has %d bytes with its references, more than %d MiB (split it)", bytes, mostTexts>>20)
	case parts > most:
		return fmt.Errorf("it has %d parts with its references, more than %d (split it)", parts, most)
	}
	return nil
}

// Texts returns the texts of a schema and its references.
func Texts(s *engine.Schema) []string {
	texts := make([]string, 0, len(s.Needs)+1)
	for _, needed := range s.Needs {
		texts = append(texts, needed.Text)
	}
	return append(texts, s.Text)
}
