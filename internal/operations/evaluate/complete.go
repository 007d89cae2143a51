package evaluate

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
)

// word is the path at the end of a line, of which the last name is to be completed.
var word = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:[\pL_][\pL\pN_]*(?:\[\d+\])*\.)*(?:[\pL_][\pL\pN_]*)?$`)
})

// identifier is a name that can stand in an expression as it is, of a length that a prompt has room for.
var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\pL_][\pL\pN_]{0,63}$`) })

// Complete returns what the last name of a line may be, of which the line has everything from byte from on: fields of the
// sample, and functions, with their parenthesis. The sample is a payload.
func Complete(line string, sample []byte) (names []string, from int) {
	path := word().FindString(line)
	start := strings.LastIndexByte(path, '.') + 1
	from = len(line) - len(path) + start
	prefix := path[start:]
	if parent := strings.TrimSuffix(path[:start], "."); parent != "" {
		return having(prefix, fieldsAt(sample, parent)), from
	}
	if before := line[:from]; path == "" && strings.HasSuffix(before, ".") {
		return nil, from // a field of a value that only an evaluation knows
	}
	functions := []string{}
	for _, f := range expr.Functions() {
		functions = append(functions, f.Name+"(")
	}
	return slices.Concat(having(prefix, fieldsAt(sample, "this")), having(prefix, functions)), from
}

// having returns the names with a prefix.
func having(prefix string, names []string) (all []string) {
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			all = append(all, name)
		}
	}
	return all
}

// fieldsAt returns the names of the fields of an object in the sample, sorted, without those that need quotes.
func fieldsAt(sample []byte, path string) (names []string) {
	v, err := doc.Decode(sample)
	if err != nil {
		return nil
	}
	for i, part := range strings.Split(path, ".") {
		name, indexes, _ := strings.Cut(part, "[")
		if i > 0 || name != "this" {
			object, _ := v.(map[string]any)
			v = object[name]
		}
		for index := range strings.SplitSeq(strings.TrimSuffix(indexes, "]"), "][") {
			if index == "" {
				continue
			}
			list, _ := v.([]any)
			n, err := strconv.Atoi(index)
			if err != nil || n >= len(list) {
				return nil
			}
			v = list[n]
		}
	}
	object, _ := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if identifier().MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// Extend returns the longest text that all names begin with.
func Extend(names []string) string {
	if len(names) == 0 {
		return ""
	}
	common := names[0]
	for _, name := range names[1:] {
		for !strings.HasPrefix(name, common) {
			common = common[:len(common)-1]
		}
	}
	return common
}
