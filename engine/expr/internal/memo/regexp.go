package memo

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression that is compiled on its first use. It panics then if text is not one.
func Regexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
