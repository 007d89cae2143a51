package expr

import (
	"errors"
	"strings"
	"testing"
)

func TestEvalFails(t *testing.T) {
	tests := []struct {
		name string
		src  string
		want string // the first line, and the part that the caret points at
		at   string
	}{
		{"text is not a number", `text == 503`, `cannot compare text "503" with number 503 using ==`, `== 503`},
		{"the right side may be wrong", `503 != text`, `cannot compare number 503 with text "503" using !=`, `!= text`},
		{"an order of kinds", `name > 1`, `cannot compare text "Ann" with number 1 using >`, `> 1`},
		{"true is not a number", `ok == 1`, `cannot compare true with number 1 using ==`, `== 1`},
		{"a list is no text", `list == "a"`, `cannot compare a list with text "a" using ==`, `== "a"`},
		{"an object is no list", `user == list`, `cannot compare an object with a list using ==`, `== list`},
		{"lists have no order", `list < list`, `cannot compare a list with a list using <`, `< list`},
		{"nil has no order", `missing > 1`, `cannot compare nothing with number 1 using > (?? gives a missing field a default)`, `> 1`},
		{"a long text is cut", `user == repeat("a", 100)`, `cannot compare an object with text "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…" using ==`, `== repeat`},
		{"in a list of other kinds", `text in [500, 503]`, `cannot look for text "503" in a list of number`, `in [`},
		{"in a number", `name in status`, `cannot look for text "Ann" in number 503`, `in status`},
		{"a number in an object", `status in user`, `cannot look for number 503 in an object`, `in user`},
		{"a number in a text", `status in name`, `cannot look for number 503 in text "Ann"`, `in name`},

		{"and needs truth", `status and ok`, `a condition must be true or false, but this is number 503`, `status and`},
		{"on the right too", `ok and name`, `a condition must be true or false, but this is text "Ann"`, `name`},
		{"or needs truth", `missing or ok`, `a condition must be true or false, but this is nothing (?? gives a missing field a default)`, `missing`},
		{"not needs truth", `not name`, `a condition must be true or false, but this is text "Ann"`, `name`},
		{"?: needs truth", `list ? 1 : 2`, `a condition must be true or false, but this is a list`, `list ?`},
		{"if needs truth", `if status { 1 } else { 2 }`, `a condition must be true or false, but this is number 503`, `status {`},
		{"filter needs truth", `filter(items, .qty)`, `a condition must be true or false, but this is number 2`, `qty)`},
		{"any needs truth", `any(list, nil ?? #)`, `a condition must be true or false, but this is number 3`, `#)`},
		{"count needs truth", `count(list)`, `a condition must be true or false, but this is number 3`, `count`},

		{"text plus number", `name + status`, `cannot add text "Ann" and number 503 (string(x) turns a number into text)`, `+ status`},
		{"nil plus number", `missing + 1`, `cannot add nothing and number 1 (?? gives a missing field a default)`, `+ 1`},
		{"lists do not add", `list + list`, `cannot add a list and a list`, `+ list`},
		{"minus", `name - 1`, `cannot subtract number 1 from text "Ann"`, `- 1`},
		{"times", `name * 2`, `cannot multiply text "Ann" by number 2`, `* 2`},
		{"divided", `ok / 2`, `cannot divide true by number 2`, `/ 2`},
		{"modulo of a float", `ratio % 2`, `cannot use % on number 0.5 and number 2`, `% 2`},
		{"negated text", `-name`, `cannot negate text "Ann"`, `-name`},
		{"plus of a list", `+list`, `cannot use + on a list`, `+list`},
		{"divided by zero", `status / 0`, `cannot divide by zero`, `/ 0`},
		{"divided by zero as float", `status / 0.0`, `cannot divide by zero`, `/ 0.0`},
		{"modulo zero", `status % 0`, `cannot divide by zero`, `% 0`},
		{"overflow of +", `max + 1`, `the result of + does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `+ 1`},
		{"overflow of -", `-max - 2`, `the result of - does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `- 2`},
		{"overflow of *", `max * 2`, `the result of * does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `* 2`},
		{"overflow of min int", `(-max - 1) * -1`, `the result of * does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `* -1`},
		{"overflow of unary minus", `-(-max - 1)`, `the result of - does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `-(`},
		{"an infinite power", `1.5 ** 10000`, `the result of ** is not a JSON number: it is too large or undefined`, `** 10000`},
		{"a power beyond int64", `status ** 1000`, `the result of ** does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `** 1000`},
		{"an infinite product", `float(max) * 1e300 * 1e300`, `the result of * is not a JSON number: it is too large or undefined`, `* 1e300`},
		{"calculating beyond int64", `big + 1`, `cannot add number 18446744073709551616 and number 1 (integers beyond 64 bits compare and copy only; float(x) rounds)`, `+ 1`},
		{"negating beyond int64", `-big`, `cannot negate number 18446744073709551616 (integers beyond 64 bits compare and copy only; float(x) rounds)`, `-big`},

		{"contains in a number", `status contains "5"`, `cannot look for text "5" in number 503 using contains`, `contains`},
		{"startsWith nil", `name startsWith missing`, `cannot use startsWith on text "Ann" and nothing (?? gives a missing field a default)`, `startsWith`},
		{"nil matches", `missing matches "a"`, `cannot use matches on nothing and text "a" (?? gives a missing field a default)`, `matches`},
		{"a number matches", `status matches "5"`, `cannot use matches on number 503 and text "5"`, `matches`},
		{"a bad pattern from a field", `name matches ("(" + empty)`, `matches: text "(" is not a regular expression: missing closing )`, `matches`},
		{"a part of a number", `status[1:2]`, `cannot take a part of number 503`, `[1`},
		{"a part of nil", `missing[1:]`, `cannot take a part of nothing`, `[1`},
		{"a part from a text", `name["a":]`, `a position is a whole number, not text "a"`, `["a"`},
		{"an index that is true", `list[ok]`, `a key is text and an index a whole number, not true`, `[ok`},
		{"an index that is broken", `list[ratio]`, `a key is text and an index a whole number, not number 0.5`, `[ratio`},
		{"a key that is a number", `{(status): 1}`, `a key is text, not number 503`, `{(`},
		{"a range of texts", `name..3`, `cannot use .. on text "Ann" and number 3`, `..3`},

		{"filter of a text", `filter(name, true)`, `filter() needs a list, not text "Ann"`, `filter`},
		{"filter of nil", `filter(missing, true)`, `filter() needs a list, not nothing (write ?? [] for a list that may be missing)`, `filter`},
		{"map of an object", `map(user, #)`, `map() needs a list, not an object`, `map`},
		{"sum of texts", `sum(texts)`, `sum() needs numbers, not text "b"`, `sum`},
		{"sum overflows", `sum([max, 1])`, `the result of sum does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `sum`},
		{"an element's wrong type", `filter(items, .sku > 1)`, `cannot compare text "a" with number 1 using >`, `> 1`},
		{"reduce of nothing", `reduce(nolist, #acc + #)`, `reduce() of an empty list has no value (give it a third argument to start with)`, `reduce`},
		{"groupBy a list", `groupBy(items, [1])`, `groupBy() needs keys that are text, numbers, true or false, not a list`, `groupBy`},
		{"groupBy nil", `groupBy(items, .none)`, `groupBy() needs keys that are text, numbers, true or false, not nothing`, `groupBy`},
		{"sortBy mixed", `sortBy(mixed, #)`, `sortBy() cannot compare text "a" with number 1`, `sortBy`},
		{"sortBy up", `sortBy(list, #, name)`, `sortBy() sorts "asc" or "desc", not text "Ann"`, `sortBy`},
		{"sort mixed", `sort(mixed)`, `sort() cannot compare text "a" with number 1`, `sort`},

		{"upper of a number", `upper(status)`, `upper() needs text, not number 503`, `upper`},
		{"upper of nil", `upper(missing)`, `upper() needs text, not nothing (?? gives a missing field a default)`, `upper`},
		{"len of a number", `len(status)`, `len() needs text or list or object, not number 503`, `len`},
		{"len of nil", `len(missing)`, `len() needs text or list or object, not nothing (?? gives a missing field a default)`, `len`},
		{"trim with a number", `trim(name, status)`, `trim() needs text, not number 503`, `trim`},
		{"split nil", `split(missing, ",")`, `split() needs text, not nothing (?? gives a missing field a default)`, `split`},
		{"join numbers", `join(list)`, `join() needs a list of texts, but one element is number 3 (map(list, string(#)) turns its elements into texts)`, `join`},
		{"join nil", `join(missing)`, `join() needs list, not nothing (?? gives a missing field a default)`, `join`},
		{"repeat a negative time", `repeat("a", -i)`, `repeat() can't repeat a text -1 times`, `repeat`},
		{"repeat a broken time", `repeat("a", ratio)`, `repeat() needs a whole number`, `repeat`},
		{"int of a word", `int(name)`, `int(): text "Ann" is not a whole number`, `int`},
		{"int of two signs", `int("+-1" + empty)`, `int(): text "+-1" is not a whole number`, `int`},
		{"int of nil", `int(missing)`, `int() needs text or number, not nothing (?? gives a missing field a default)`, `int`},
		{"int of a large float", `int(1e30 * whole)`, `the result of int does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `int`},
		{"float of a word", `float(name)`, `float(): text "Ann" is not a number`, `float`},
		{"float of infinity", `float("Inf" + empty)`, `float(): text "Inf" is not a number`, `float`},
		{"float of a huge text", `float("1e999" + empty)`, `float(): text "1e999" is not a number`, `float`},
		{"string of nil", `string(missing)`, `string() needs a value, not nothing (?? gives a missing field a default)`, `string`},
		{"round of a text", `round(name)`, `round() needs number, not text "Ann"`, `round`},
		{"min of texts", `min(texts)`, `min() needs numbers, not text "b"`, `min`},
		{"mean of nil", `mean(1, missing)`, `mean() needs numbers, not nothing`, `mean`},
		{"keys of a list", `keys(list)`, `keys() needs object, not a list`, `keys`},
		{"first of a text", `first(name)`, `first() needs list, not text "Ann"`, `first`},
		{"take of minus one", `take(list, -i)`, `take() can't take -1 elements`, `take`},
		{"fromPairs of numbers", `fromPairs(list)`, `fromPairs() needs lists of a key and a value`, `fromPairs`},
		{"fromPairs with a number as key", `fromPairs([[i, 1]])`, `fromPairs() needs keys that are text, not number 1`, `fromPairs`},
		{"fromJSON of a word", `fromJSON(name)`, `fromJSON(): the text is not JSON: not a JSON document: expected a value at byte 0`, `fromJSON`},
		{"fromBase64 of a word", `fromBase64(word)`, `fromBase64(): text "héllo" is not base64`, `fromBase64`},
		{"fromBase64 of bytes", `fromBase64("/////w==" + empty)`, `fromBase64(): the decoded bytes are not text`, `fromBase64`},
		{"duration of a word", `duration(name)`, `duration(): text "Ann" is not a duration such as 250ms or 1h30m`, `duration`},
		{"a zone that several have", `date("02 Jan 26 15:04 EST")`, `date(): text "EST" is not an abbreviation of a time zone that UTC uses (name its zone: date(text, layout, "America/New_York"))`, `date`},
		{"a zone that another has", `date("15:04 EST", "15:04 MST", "Europe/Zurich")`, `date(): text "EST" is not an abbreviation of a time zone that Europe/Zurich uses (name its zone: date(text, layout, "America/New_York"))`, `date`},
		{"date of a word", `date(name)`, `date(): text "Ann" is not a date in this layout`, `date`},
		{"a zone of a word", `timezone(name)`, `text "Ann" is not a time zone such as Europe/Zurich`, `timezone`},
		{"a zone is no file", `timezone("../../etc/passwd" + empty)`, `text "../../etc/passwd" is not a time zone such as Europe/Zurich`, `timezone`},
		{"a zone is no value", `timezone("UTC" + empty)`, `the result is a time zone, which a message can't contain`, `timezone`},
		{"get with a bad path", `get(this, "a..b" + empty)`, `get(): text "a..b" is not a path such as a.b[0]`, `get`},
		{"get with nil", `get(this, missing)`, `get() needs a path as text, not nothing`, `get`},
		{"a duration by nothing", `duration("1h") / 0`, `cannot divide by zero`, `/ 0`},
		{"a duration that is too long", `duration("1000000h") * 1e9`, `the result of * does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `* 1e9`},
		{"durations that are too long", `duration("2000000h") + duration("2000000h")`, `the result of + does not fit into 64 bits (write float(x) to calculate with rounded numbers)`, `+ dur`},
		{"a duration and a text", `duration("1h") / name`, `cannot divide duration 1h0m0s by text "Ann"`, `/ name`},
		{"a date without text", `date(timezone("UTC"))`, `date() needs a text, and optionally its layout and time zone`, `date`},
		{"a shift by a negative count", `bitshl(1, -i)`, `bitshl(): invalid operation: negative shift count -1 (type int)`, `bitshl`},
		{"an operator in a let", `let x = name; x > 1`, `cannot compare text "Ann" with number 1 using >`, `> 1`},
	}
	m := msg(sample)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := runBoth(t, test.src, m)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%s: got error %v, want an *Error", test.src, err)
			}
			if got := e.Short(); got != test.want {
				t.Errorf("%s\n got %s\nwant %s", test.src, got, test.want)
			}
			if got := e.Expr[e.Offset:]; !strings.HasPrefix(got, test.at) {
				t.Errorf("%s: caret at %q, want at %q", test.src, got, test.at)
			}
		})
	}
}
