package numbers_test

import (
	"testing"

	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
)

func TestNumbers(t *testing.T) {
	exprtest.CheckOutcomes(t, exprtest.Outcomes{
		{`log(8, 2) + log(1000, 10)`, 6.0, ""},
		{`sqrt(0 - i)`, nil, "sqrt() has no result for number -1"},
		{`pow(10, 400)`, nil, "pow() has no result for number 10"},
		{`percentile([5], 99)`, 5.0, ""},
		{`percentile([], 50)`, nil, "percentile() of an empty list has no value (write len(list) > 0 ? … : nil)"},
		{`percentile([1], 101)`, nil, "percentile() needs a percentage from 0 to 100, not number 101"},
		{`percentile(["a"], 5)`, nil, `percentile() needs numbers, not text "a"`},
		{`parse_number("-1'234")`, -1234, ""},
		{`parse_number("+5")`, 5, ""},
		{`parse_number("18 446 744 073 709 551 616") == big`, true, ""},
		{`parse_number(".5") + parse_number("5.")`, 5.5, ""},
		{`parse_number("-.")`, nil, `parse_number(): text "-." is not a number`},
		{`parse_number("")`, nil, `parse_number(): text "" is not a number`},
		{`parse_number("1e3")`, 1000.0, ""},
		{`parse_number("Inf")`, nil, `parse_number(): text "Inf" is not a number`},
		{`parse_number("0x10")`, nil, `parse_number(): text "0x10" is not a number`},
		{`parse_number("1", ";")`, nil, `parse_number(): a decimal sign is "." or ",", not text ";"`},
		{`bool("maybe")`, nil, `bool(): text "maybe" is neither true nor false`},
	})
}
