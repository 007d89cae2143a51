package migrate

import (
	"regexp"
	"sync"
)

// pattern returns a regular expression that is compiled when it is first used.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// tables are made when they are first used: a process that translates nothing does without them.
var tables sync.Once

func fillTables() {
	tables.Do(func() {
		fillSpecial()
		fillStepKinds()
		fillFinishSteps()
	})
}
