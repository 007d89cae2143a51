package sqldb

import (
	"bytes"
	"context"
	"strings"
)

// Copy sends rows in the format of COPY.
func (c *pgConn) Copy(ctx context.Context, table string, columns []string, rows [][]Value) error {
	quoted, params := make([]string, len(columns)), make([]string, len(columns))
	for i, name := range columns {
		quoted[i], params[i] = c.pool.db.Quote(name), placeholder(i+1)
	}
	into := c.pool.db.Table(table) + " (" + strings.Join(quoted, ", ") + ")"
	s, err := c.prepare(ctx, "INSERT INTO "+into+" VALUES ("+strings.Join(params, ", ")+")") // for the types of its parameters
	if err != nil {
		return err
	}
	if len(s.ParamOIDs) != len(columns) {
		return errParameters
	}
	var text []byte
	for _, row := range rows {
		for i, v := range row {
			if i > 0 {
				text = append(text, '\t')
			}
			if v.Kind == Null {
				text = append(text, `\N`...)
				continue
			}
			field, err := c.pool.text(v, s.ParamOIDs[i])
			if err != nil {
				return err
			}
			text = appendCopied(text, field)
		}
		text = append(text, '\n')
	}
	defer c.watch.Unread()()
	// The count of rows is not checked, since a trigger may leave rows out.
	return c.result(ctx, s, checkTag(c.pg.CopyFrom(ctx, bytes.NewReader(text), "COPY "+into+" FROM STDIN")))
}

// appendCopied appends a field of COPY. It escapes backslashes and the characters that end a field or row.
func appendCopied(dst, field []byte) []byte {
	for _, c := range field {
		switch c {
		case '\\':
			dst = append(dst, `\\`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
