package sqldb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
)

// chKind is the kind of a ClickHouse type. It determines how values are written.
type chKind uint8

const (
	chOther chKind = iota // values are written as JSON, which the server converts
	chInteger
	chFloat
	chDecimal
	chBool
	chText
	chDate
	chMoment
	chWord // such as UUID, IPv4 or Enum8, which the server reads as text
	chList
	chTuple
	chMap
)

// chType is the type of a column.
type chType struct {
	name     string // as the server has it
	kind     chKind
	nullable bool
	signed   bool
	bits     int // of an integer or float
	digits   int // of a decimal; of a text: its largest size in bytes, or 0 without a limit
	scale    int // digits after the point, of a decimal or of the seconds of a moment
	elements []chType
	fields   []string // the names of a tuple's elements, if they have names
}

// Limits of the names of types.
const (
	longestType = 64 << 10 // bytes
	deepestType = 64       // nesting
	shownOfType = 200      // bytes that errors show
)

// parseCHType parses the name of a type. A type that is unknown, or beyond the limits, is of kind chOther.
func parseCHType(text string) chType { return parseCHTypeIn(text, 1) }

func parseCHTypeIn(text string, depth int) chType {
	text = strings.TrimSpace(text)
	t := chType{name: text}
	if len(text) > shownOfType {
		t.name = strings.ToValidUTF8(text[:shownOfType], "") + "…"
	}
	if len(text) > longestType || depth > deepestType {
		return t
	}
	name, rest, _ := strings.Cut(text, "(")
	args := chArgs(strings.TrimSuffix(rest, ")"))
	number := func(i int) int {
		if i >= len(args) {
			return 0
		}
		n, _ := strconv.Atoi(args[i])
		return n
	}
	inner := func() {
		for _, a := range args {
			t.elements = append(t.elements, parseCHTypeIn(a, depth+1))
		}
	}
	switch name {
	case "Nullable", "LowCardinality":
		if len(args) == 1 {
			t = parseCHTypeIn(args[0], depth+1)
			t.nullable = t.nullable || name == "Nullable"
		}
	case "SimpleAggregateFunction":
		if len(args) == 2 {
			t = parseCHTypeIn(args[1], depth+1)
		}
	case "Int8", "Int16", "Int32", "Int64", "Int128", "Int256",
		"UInt8", "UInt16", "UInt32", "UInt64", "UInt128", "UInt256":
		size, unsigned := strings.CutPrefix(name, "U")
		t.kind, t.signed = chInteger, !unsigned
		t.bits, _ = strconv.Atoi(strings.TrimPrefix(size, "Int"))
	case "Float32", "Float64", "BFloat16":
		t.kind, t.bits = chFloat, 32
		if name == "Float64" {
			t.bits = 64
		}
	case "Decimal":
		t.kind, t.digits, t.scale = chDecimal, number(0), number(1)
	case "Bool":
		t.kind = chBool
	case "String":
		t.kind = chText
	case "FixedString":
		t.kind, t.digits = chText, number(0)
	case "Date", "Date32":
		t.kind = chDate
	case "DateTime":
		t.kind = chMoment
	case "DateTime64":
		t.kind, t.scale = chMoment, number(0)
	case "UUID", "IPv4", "IPv6", "Enum8", "Enum16", "Time", "Time64":
		t.kind = chWord
	case "Array":
		if inner(); len(t.elements) == 1 {
			t.kind = chList
		}
	case "Map":
		if inner(); len(t.elements) == 2 {
			t.kind = chMap
		}
	case "Tuple":
		t.kind = chTuple
		for _, a := range args {
			if field, rest, named := chField(a); named {
				t.fields, a = append(t.fields, field), rest
			}
			t.elements = append(t.elements, parseCHTypeIn(a, depth+1))
		}
	}
	return t
}

// chField splits an element of a tuple into its name and its type. named is false if it has no name.
func chField(text string) (name, rest string, named bool) {
	if strings.HasPrefix(text, "`") {
		end := chSkip(text, 0)
		name, rest = strings.Trim(text[:end], "`"), text[end:]
		return strings.NewReplacer("\\`", "`", `\\`, `\`).Replace(name), rest, true
	}
	name, rest, named = strings.Cut(text, " ")
	if strings.ContainsAny(name, "('") { // a type such as Decimal(18, 4)
		return "", text, false
	}
	return name, rest, named
}

// chArgs splits the arguments between brackets at their commas.
func chArgs(text string) (args []string) {
	depth, from := 0, 0
	for i := 0; i < len(text); {
		if next := chSkip(text, i); next > i {
			i = next
			continue
		}
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				args, from = append(args, strings.TrimSpace(text[from:i])), i+1
			}
		}
		i++
	}
	if last := strings.TrimSpace(text[from:]); last != "" {
		args = append(args, last)
	}
	return args
}

// chTypes converts values to the JSON for their columns. It refuses values that the server would change silently: the server lets
// integers overflow, cuts off digits, and replaces null by a default.
type chTypes []chType

func (t chTypes) Fit(i int, v Value) (Value, error) {
	const around = 8 // bytes that are added to most values
	text, err := t[i].append(make([]byte, 0, len(v.Text)+around), v)
	if err != nil {
		return Value{}, engine.WithClass(engine.Rejected, err)
	}
	return Value{JSON, text}, nil
}

// misfit returns the error of a value that is not valid for the type. problem "" means just that.
func (t *chType) misfit(v Value, problem string) error {
	if problem == "" {
		problem = "is not a valid " + t.name
	}
	if v.Kind == Number || v.Kind == Bool {
		return fmt.Errorf("%.60s %s", v.Text, problem)
	}
	return fmt.Errorf("%.60q %s", v.Text, problem)
}

func (t *chType) append(dst []byte, v Value) ([]byte, error) {
	if v.Kind == Null {
		if !t.nullable && t.kind != chOther {
			return nil, fmt.Errorf("null is not a valid %s (write FIELD ?? VALUE, or make the column Nullable)", t.name)
		}
		return append(dst, "null"...), nil
	}
	switch t.kind {
	case chInteger:
		return t.appendInteger(dst, v)
	case chDecimal:
		return t.appendDecimal(dst, v)
	case chFloat:
		return t.appendFloat(dst, v)
	case chBool:
		switch string(v.Text) {
		case "true", "1":
			return append(dst, "true"...), nil
		case "false", "0":
			return append(dst, "false"...), nil
		}
		return nil, t.misfit(v, "")
	case chText:
		if t.digits > 0 && len(v.Text) > t.digits {
			return nil, t.misfit(v, fmt.Sprintf("is longer than the %d bytes of %s", t.digits, t.name))
		}
		return appendCHString(dst, v.Text), nil
	case chWord:
		if v.Kind == Number {
			return append(dst, v.Text...), nil
		}
		return appendCHString(dst, v.Text), nil
	case chDate, chMoment:
		return t.appendTime(dst, v)
	case chList, chTuple, chMap:
		return t.appendElements(dst, v)
	}
	return append(dst, v.JSON()...), nil
}

// appendElements appends a list, tuple or map.
func (t *chType) appendElements(dst []byte, v Value) (out []byte, err error) {
	isObject := v.Kind == JSON && v.Text[0] == '{'
	if v.Kind != JSON || isObject && t.kind == chList || !isObject && t.kind == chMap {
		return nil, t.misfit(v, "")
	}
	if t.kind == chMap {
		dst = append(dst, '{')
		for key, raw := range doc.Members(v.Text) {
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			if _, err := t.elements[0].append(nil, Value{Text, []byte(key)}); err != nil {
				return nil, err
			}
			dst = append(appendCHString(dst, []byte(key)), ':')
			if dst, err = t.elements[1].append(dst, OfJSON(raw)); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	var all []Value
	if v.Text[0] == '[' {
		for raw := range doc.Elements(v.Text) {
			all = append(all, OfJSON(raw))
		}
	} else if all, err = t.inOrder(v); err != nil {
		return nil, err
	}
	if t.kind == chTuple && len(all) != len(t.elements) {
		return nil, t.misfit(v, "")
	}
	dst = append(dst, '[')
	for i, v := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		element := &t.elements[0]
		if t.kind == chTuple {
			element = &t.elements[i]
		}
		if dst, err = element.append(dst, v); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// inOrder returns the fields of an object as the elements of a tuple. Missing fields are null.
func (t *chType) inOrder(v Value) ([]Value, error) {
	all := make([]Value, len(t.fields))
	for name, raw := range doc.Members(v.Text) {
		known := false
		for i, f := range t.fields {
			if f == name {
				all[i], known = OfJSON(raw), true
			}
		}
		if !known {
			return nil, t.misfit(v, "is not a valid "+t.name+", which has no field "+strconv.Quote(name))
		}
	}
	return all, nil
}

// appendCHString appends a JSON string that may have arbitrary bytes, which ClickHouse accepts.
func appendCHString(dst, text []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		if c < ' ' {
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, '\\', c)
		}
	}
	return append(append(dst, text[from:]...), '"')
}

func (t *chType) appendFloat(dst []byte, v Value) ([]byte, error) {
	if v.Kind == Number || v.Kind == Text && valid(v.Text) {
		if doc.Kind(v.Text) == doc.Numeric {
			// The server would make 0 of a number that is too small, and infinity of one that is too large.
			if f, err := strconv.ParseFloat(string(v.Text), t.bits); err != nil || f == 0 && !doc.SpellsZero(v.Text) {
				return nil, t.misfit(v, "")
			}
			return append(dst, v.Text...), nil
		}
	}
	switch text := strings.ToLower(string(v.Text)); text {
	case "nan", "inf", "-inf":
		return append(append(append(dst, '"'), text...), '"'), nil
	case "infinity", "-infinity":
		return append(append(append(dst, '"'), strings.TrimSuffix(text, "inity")...), '"'), nil
	}
	return nil, t.misfit(v, "")
}

// largestInts has the largest unsigned and signed integers by number of bits. The least signed integer is -largest-1.
var largestInts = map[int][2]string{
	8:   {"255", "127"},
	16:  {"65535", "32767"},
	32:  {"4294967295", "2147483647"},
	64:  {"18446744073709551615", "9223372036854775807"},
	128: {"340282366920938463463374607431768211455", "170141183460469231731687303715884105727"},
	256: {"115792089237316195423570985008687907853269984665640564039457584007913129639935",
		"57896044618658097711785492504343953926634992332820282019728792003956564819967"},
}

func (t *chType) appendInteger(dst []byte, v Value) ([]byte, error) {
	n, ok := plainNumber(v)
	if !ok || n.fraction != "" {
		return nil, t.misfit(v, "")
	}
	limit := largestInts[t.bits][0]
	if t.signed {
		limit = largestInts[t.bits][1]
		if n.minus { // the limit is one more, and no limit ends with 9
			limit = limit[:len(limit)-1] + string(limit[len(limit)-1]+1)
		}
	}
	if n.minus && !t.signed || len(n.integer) > len(limit) || len(n.integer) == len(limit) && n.integer > limit {
		return nil, t.misfit(v, "is out of the range of "+t.name)
	}
	return n.append(dst), nil
}

func (t *chType) appendDecimal(dst []byte, v Value) ([]byte, error) {
	n, ok := plainNumber(v)
	switch {
	case !ok:
		return nil, t.misfit(v, "")
	case len(n.fraction) > t.scale:
		return nil, t.misfit(v, "has more digits than "+t.name+" (write round(FIELD, DIGITS))")
	case n.integer != "0" && len(n.integer) > t.digits-t.scale:
		return nil, t.misfit(v, "is out of the range of "+t.name)
	}
	return n.append(dst), nil
}

// plain is a number without an exponent.
type plain struct {
	minus    bool
	integer  string // without leading zeros, except for "0"
	fraction string // without trailing zeros
}

func (n plain) append(dst []byte) []byte {
	if n.minus {
		dst = append(dst, '-')
	}
	dst = append(dst, n.integer...)
	if n.fraction != "" {
		dst = append(append(dst, '.'), n.fraction...)
	}
	return dst
}

// mostExponent limits the exponent of a number that is written without one. No column has more digits.
const mostExponent = 100

// plainNumber returns the number in a value, which may be text. true is 1 and false is 0.
func plainNumber(v Value) (n plain, ok bool) {
	text := string(v.Text)
	switch {
	case v.Kind == Bool && text == "true":
		return plain{integer: "1"}, true
	case v.Kind == Bool:
		return plain{integer: "0"}, true
	case v.Kind != Number && (v.Kind != Text || len(text) == 0 || !valid(v.Text) || doc.Kind(v.Text) != doc.Numeric):
		return n, false
	}
	text = strings.TrimSpace(text)
	text, n.minus = strings.CutPrefix(text, "-")
	exponent := 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(text[i+1:]); err != nil || exponent < -mostExponent || exponent > mostExponent {
			return n, false
		}
		text = text[:i]
	}
	n.integer, n.fraction, _ = strings.Cut(text, ".")
	switch {
	case exponent > 0:
		n.fraction += strings.Repeat("0", max(0, exponent-len(n.fraction)))
		n.integer, n.fraction = n.integer+n.fraction[:exponent], n.fraction[exponent:]
	case exponent < 0:
		n.integer = strings.Repeat("0", max(0, -exponent-len(n.integer))) + n.integer
		point := len(n.integer) + exponent
		n.integer, n.fraction = n.integer[:point], n.integer[point:]+n.fraction
	}
	n.integer, n.fraction = strings.TrimLeft(n.integer, "0"), strings.TrimRight(n.fraction, "0")
	if n.integer == "" {
		n.integer = "0"
	}
	if n.integer == "0" && n.fraction == "" {
		n.minus = false
	}
	return n, true
}

// The times that columns can store: from the first up to, but not including, the second.
var (
	epoch  = time.Unix(0, 0).UTC()
	ranges = map[string][2]time.Time{
		"Date":       {epoch, epoch.AddDate(0, 0, 1<<16)},
		"Date32":     {time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)},
		"DateTime":   {epoch, time.Unix(1<<32, 0)},
		"DateTime64": {time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
)

// appendTime appends a moment, or its date in UTC. A number counts seconds since 1970. For a moment, text in any other format is left
// to the server.
func (t *chType) appendTime(dst []byte, v Value) ([]byte, error) {
	moment, err := time.Parse(time.RFC3339Nano, string(v.Text))
	if v.Kind != Number && err != nil && t.kind == chDate {
		moment, err = time.Parse(time.DateOnly, string(v.Text))
	}
	switch {
	case v.Kind == Number && t.kind == chMoment:
		n, ok := plainNumber(v)
		seconds, parseErr := strconv.ParseInt(n.integer, 10, 64)
		if !ok || parseErr != nil || len(n.fraction) > 9 {
			return nil, t.misfit(v, "")
		}
		nanos, _ := strconv.ParseInt((n.fraction + "000000000")[:9], 10, 64)
		if n.minus {
			seconds, nanos = -seconds, -nanos
		}
		moment = time.Unix(seconds, nanos)
	case err != nil && v.Kind == Text && t.kind == chMoment:
		return appendCHString(dst, v.Text), nil
	case err != nil:
		return nil, t.misfit(v, "")
	}
	name, _, _ := strings.Cut(t.name, "(")
	if moment.Before(ranges[name][0]) || !moment.Before(ranges[name][1]) || t.scale == 9 && moment.Year() > 2261 {
		return nil, t.misfit(v, "is out of the range of "+t.name)
	}
	layout := "2006-01-02T15:04:05"
	switch {
	case t.kind == chDate:
		return moment.UTC().AppendFormat(dst, `"2006-01-02"`), nil
	case t.scale > 0:
		layout += "." + strings.Repeat("0", t.scale)
	}
	return moment.UTC().AppendFormat(dst, `"`+layout+`Z"`), nil
}
