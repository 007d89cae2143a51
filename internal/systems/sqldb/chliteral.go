package sqldb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/doc"
)

// chBind replaces each ? of a statement by a value. A ? in a string, name or comment is left alone.
func chBind(query string, args []Value) (string, error) {
	var b strings.Builder
	n, from := 0, 0
	for i := 0; i < len(query); {
		if next := chSkip(query, i); next > i {
			i = next
			continue
		}
		if query[i] == '?' && len(args) > 0 {
			if n < len(args) {
				b.WriteString(query[from:i])
				b.WriteString(chLiteral(args[n]))
				from = i + 1
			}
			n++
		}
		i++
	}
	if n != len(args) {
		return "", fmt.Errorf("the query has %d parameters, but args has %d values (write a ? for each value; "+
			"write if(a, b, c) instead of a ? b : c)", n, len(args))
	}
	b.WriteString(query[from:])
	return b.String(), nil
}

// chSkip returns the end of the string, name or comment that begins at i, or i if none begins there.
func chSkip(query string, i int) int {
	switch c := query[i]; {
	case c == '\'' || c == '"' || c == '`':
		for j := i + 1; j < len(query); j++ {
			switch query[j] {
			case '\\':
				j++
			case c:
				return j + 1 // a doubled mark looks like the begin of another string, which is skipped next
			}
		}
		return len(query)
	case strings.HasPrefix(query[i:], "--"):
		if end := strings.IndexByte(query[i:], '\n'); end >= 0 {
			return i + end + 1
		}
		return len(query)
	case strings.HasPrefix(query[i:], "/*"):
		if end := strings.Index(query[i+2:], "*/"); end >= 0 {
			return i + 2 + end + 2
		}
		return len(query)
	}
	return i
}

// chLiteral returns a value as part of a statement. A number that ClickHouse would read as a float, and that a float can't represent
// exactly, becomes text. ClickHouse compares that with a column exactly.
func chLiteral(v Value) string {
	switch v.Kind {
	case Null:
		return "NULL"
	case Bool:
		return map[bool]string{true: "1", false: "0"}[v.Text[0] == 't']
	case Number:
		text := string(v.Text)
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return text
		}
		if _, err := strconv.ParseUint(text, 10, 64); err == nil {
			return text
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && string(doc.AppendFloat(nil, f)) == text {
			return text
		}
	case Time:
		if t, err := time.Parse(time.RFC3339Nano, string(v.Text)); err == nil {
			t = t.UTC()
			if t.Nanosecond() == 0 {
				return t.Format("toDateTime('2006-01-02 15:04:05', 'UTC')")
			}
			return t.Format("toDateTime64('2006-01-02 15:04:05.000000000', 9, 'UTC')")
		}
	case JSON:
		if v.Text[0] == '[' {
			var all []string
			for e := range doc.Elements(v.Text) {
				all = append(all, chLiteral(OfJSON(e)))
			}
			return "[" + strings.Join(all, ", ") + "]"
		}
	}
	return chQuoted(string(v.Text), "'")
}

// chQuoted quotes a string or a name for a statement.
func chQuoted(text, mark string) string {
	text = strings.ReplaceAll(text, `\`, `\\`)
	return mark + strings.ReplaceAll(text, mark, `\`+mark) + mark
}
