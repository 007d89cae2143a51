package registry

import (
	"fmt"
	"strings"

	"github.com/flowd-io/flowd/engine"
)

const mostTexts = 2 << 20 // bytes of a schema with its references

// Bounded is the error of a schema that takes too much time or memory to compile, whose texts have more parts than most,
// before anything reads them. Each part but the first of a text begins with one of the marks. A registry can be
// hostile, and so can a message that brings a schema of its own; a part of a few bytes may become two thousand.
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

// Texts are those of a schema and its references.
func Texts(s *engine.Schema) []string {
	texts := make([]string, 0, len(s.Needs)+1)
	for _, needed := range s.Needs {
		texts = append(texts, needed.Text)
	}
	return append(texts, s.Text)
}
