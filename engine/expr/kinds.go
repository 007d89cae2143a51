package expr

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

// kinds is a set of kinds of values: what is known about a value before it is there.
type kinds uint16

const (
	kNil kinds = 1 << iota
	kBool
	kInt
	kFloat
	kBig // an integer beyond int64
	kText
	kList
	kObject
	kTime
	kDuration
	kZone
	kBytes

	kNumber = kInt | kFloat | kBig
	kField  = kNil | kBool | kNumber | kText | kList | kObject // what a document holds
	kAny    = kNil | kBool | kNumber | kText | kList | kObject | kTime | kDuration | kZone | kBytes
)

// kindOf is the kind of one value.
func kindOf(v any) kinds {
	switch v.(type) {
	case nil:
		return kNil
	case bool:
		return kBool
	case int:
		return kInt
	case float64:
		return kFloat
	case doc.Number:
		return kBig
	case string:
		return kText
	case []any:
		return kList
	case map[string]any:
		return kObject
	case time.Time:
		return kTime
	case time.Duration:
		return kDuration
	case *time.Location:
		return kZone
	case []byte:
		return kBytes
	}
	return kAny
}

// kindNames are users' words, in the order in which a message lists them.
var kindNames = []struct {
	set  kinds
	name string
}{
	{kText, "text"},
	{kBig, "a large integer"}, // only when no other number is in the set
	{kNumber, "number"},
	{kBool, "true/false"},
	{kList, "list"},
	{kObject, "object"},
	{kTime, "time"},
	{kDuration, "duration"},
	{kZone, "time zone"},
	{kBytes, "bytes"},
	{kNil, "nothing"},
}

// String names the kinds in users' words: "text or list".
func (k kinds) String() string {
	switch k {
	case kAny:
		return "anything"
	case kField:
		return "a document's value"
	case kAny &^ kNil:
		return "a value"
	}
	var names []string
	for _, n := range kindNames {
		if n.set == kBig && k&kNumber != kBig {
			continue
		}
		if k&n.set != 0 {
			names = append(names, n.name)
			k &^= n.set
		}
	}
	return strings.Join(names, " or ")
}

// shownText is how many bytes of a text an error shows.
const shownText = 40

// describe is a value in users' words: text "503", number 500, a list, nothing.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case bool:
		return strconv.FormatBool(v)
	case int:
		return "number " + strconv.Itoa(v)
	case float64:
		return "number " + strconv.FormatFloat(v, 'g', -1, 64)
	case doc.Number:
		return "number " + clip(string(v))
	case string:
		return "text " + strconv.Quote(clip(v))
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	case time.Time:
		return "time " + doc.Timestamp(v).Format(time.RFC3339Nano)
	case time.Duration:
		return "duration " + v.String()
	case *time.Location:
		return "a time zone"
	case []byte:
		return fmt.Sprintf("%d bytes", len(v))
	}
	return fmt.Sprintf("a value of type %T", v)
}

func clip(s string) string {
	if len(s) <= shownText {
		return s
	}
	cut := shownText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// combo is one pair of operand kinds that an operator takes, and the kind of the result.
type combo struct{ left, right, out kinds }

// result is what an operator can yield for operands of these kinds; 0 means
// that it always fails.
func result(table []combo, left, right kinds) kinds {
	var out kinds
	for _, c := range table {
		if left&c.left != 0 && right&c.right != 0 {
			out |= c.out
		}
	}
	return out
}
