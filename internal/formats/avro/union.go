package avro

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// fit says how well a value matches a type, as far as visible without looking inside.
type fit uint8

const (
	not   fit = iota
	maybe     // the right kind, as a last resort
	loose     // can be written: text as base64, a number as a timestamp
	exact
)

// union writes the branch that a value fits best. Of equal branches, the first counts.
func (w *writer) union(n *node, json []byte) error {
	best, which := not, 0
	for i, b := range n.branches {
		if f := w.fits(b, json); f > best {
			best, which = f, i
		}
	}
	if best == not {
		names := make([]string, len(n.branches))
		for i, b := range n.branches {
			names[i] = b.name
		}
		return fmt.Errorf("%s does not fit any branch of the union: %s", codec.Kind(json), strings.Join(names, ", "))
	}
	w.dst = appendLong(w.dst, int64(which))
	return w.value(n.branches[which], json)
}

func (w *writer) fits(n *node, json []byte) fit {
	switch json[0] {
	case 'n':
		return when(n.kind == null, exact)
	case 't', 'f':
		return when(n.kind == boolean, exact)
	case '[':
		return when(n.kind == array, exact)
	case '{':
		return w.fitsObject(n, json)
	case '"':
		return w.fitsText(n, json)
	}
	return w.fitsNumber(n, json)
}

func when(is bool, f fit) fit {
	if is {
		return f
	}
	return not
}

// fitsObject compares only names: those of a record identify it.
func (w *writer) fitsObject(n *node, json []byte) fit {
	if n.kind == mapping {
		return loose
	}
	if n.kind != record && n.kind != duration {
		return not
	}
	known := 0
	for name := range doc.Members(json) {
		i, ok := n.index[name]
		if n.kind == duration {
			ok = name == codec.MonthKeys[0] || name == codec.MonthKeys[1] || name == codec.MonthKeys[2]
		}
		if !ok {
			return maybe
		}
		if n.kind == duration || n.fields[i].fills == nil {
			known++
		}
	}
	needed := len(codec.MonthKeys)
	if n.kind == record {
		needed = n.needed
	}
	if known < needed {
		return maybe
	}
	return exact
}

func (w *writer) fitsText(n *node, json []byte) fit {
	b := codec.Text(json)
	switch n.kind {
	case text:
		return exact
	case enum:
		_, ok := n.index[string(b)]
		return when(ok, exact)
	case uuid, date, timeOfDay, timestamp:
		return when(w.tries(n, json) == nil, exact)
	case blob, fixed, decimal:
		return when(w.tries(n, json) == nil, loose)
	case float, double:
		_, ok := codec.NotNumbers[string(b)]
		return when(ok, loose)
	}
	return not
}

func (w *writer) fitsNumber(n *node, json []byte) fit {
	whole := !strings.ContainsAny(str(json), ".eE")
	switch n.kind {
	case integer, long:
		if w.tries(n, json) != nil {
			return not
		}
		return max(when(whole, exact), loose)
	case float:
		f, err := strconv.ParseFloat(str(json), 64)
		precise := err == nil && float64(float32(f)) == f || str(json) == strconv.FormatFloat(f, 'g', -1, 32)
		return when(w.tries(n, json) == nil, max(when(!whole && precise, exact), loose))
	case double, decimal:
		return when(w.tries(n, json) == nil, max(when(!whole || n.kind == decimal, exact), loose))
	case date, timeOfDay, timestamp:
		return when(w.tries(n, json) == nil, maybe)
	}
	return not
}

// tries returns why a scalar can't be written as a type.
func (w *writer) tries(n *node, json []byte) error {
	at := len(w.dst)
	err := w.value(n, json)
	w.dst = w.dst[:at]
	return err
}
