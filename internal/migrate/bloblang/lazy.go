package bloblang

import (
	"regexp"
	"sync"
)

// pattern returns a regular expression that is compiled on first use.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// tables are built on first use: most processes translate nothing.
var tables sync.Once

func fillTables() {
	tables.Do(func() {
		fillMethods()
		fillFunctions()
	})
}
