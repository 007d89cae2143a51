// Package value knows the values of expressions by themselves: their kinds, their order and equality, and how errors name
// them. It knows nothing of code or messages. Start at [Kinds].
package value

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

// Kinds is a set of kinds of values: what is known of a value when code is compiled.
type Kinds uint16

const (
	Nil Kinds = 1 << iota
	Bool
	Int
	Float
	Big // an integer beyond int64
	Text
	List
	Object
	Time
	Duration
	Zone
	Bytes

	Number     = Int | Float | Big
	InDocument = Nil | Bool | Number | Text | List | Object // what a document holds
	Any        = Nil | Bool | Number | Text | List | Object | Time | Duration | Zone | Bytes
)

// KindOf is the kind of one value.
func KindOf(v any) Kinds {
	switch v.(type) {
	case nil:
		return Nil
	case bool:
		return Bool
	case int:
		return Int
	case float64:
		return Float
	case doc.Number:
		return Big
	case string:
		return Text
	case []any:
		return List
	case map[string]any:
		return Object
	case time.Time:
		return Time
	case time.Duration:
		return Duration
	case *time.Location:
		return Zone
	case []byte:
		return Bytes
	}
	return Any
}

// kindNames are the words for kinds, in the order in which errors list them.
var kindNames = []struct {
	set  Kinds
	name string
}{
	{Text, "text"},
	{Big, "a large integer"}, // only when no other number is in the set
	{Number, "number"},
	{Bool, "true/false"},
	{List, "list"},
	{Object, "object"},
	{Time, "time"},
	{Duration, "duration"},
	{Zone, "time zone"},
	{Bytes, "bytes"},
	{Nil, "nothing"},
}

// String names the kinds: "text or list".
func (k Kinds) String() string {
	switch k {
	case Any:
		return "anything"
	case InDocument:
		return "a document's value"
	case Any &^ Nil:
		return "a value"
	}
	var names []string
	for _, n := range kindNames {
		if n.set == Big && k&Number != Big {
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

// Describe is a value as errors show it: text "503", number 500, a list, nothing.
func Describe(v any) string {
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
		return "number " + Clip(string(v))
	case string:
		return "text " + strconv.Quote(Clip(v))
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

func Clip(s string) string {
	if len(s) <= shownText {
		return s
	}
	cut := shownText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// Operands are the pairs of kinds that an operator takes, each with the kind of its result.
type Operands []struct{ Left, Right, Out Kinds }

// Result is what an operator can yield for operands of these kinds; 0 means that it always fails.
func (o Operands) Result(left, right Kinds) Kinds {
	var out Kinds
	for _, p := range o {
		if left&p.Left != 0 && right&p.Right != 0 {
			out |= p.Out
		}
	}
	return out
}
