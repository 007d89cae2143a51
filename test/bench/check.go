package main

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// output has the results of a run that a check looks at.
type output struct {
	data   data
	n      int    // messages in the input
	in     string // path of the input
	out    string // path of the output, or "" if the row has none
	stderr string
	all    bool // decode every message, not a sample
	flowd  bool // the contestant is flowd
}

// check returns an error if an output is wrong.
type check func(output) error

type document = map[string]any

// sampled is how many messages of an output are decoded if output.all is not set.
const sampled = 2000

// transformed checks that each message for which passes is true was delivered exactly once, with
// the document that want returns for its input. It checks all ids, but only a sample of documents.
func transformed(want func(document) document, passes func(id int) bool) check {
	return func(o output) error {
		seen, came := make(ids, o.n), 0
		for id := range seen {
			seen[id] = !passes(id)
		}
		stride := max(o.n/sampled, 1)
		if o.all {
			stride = 1
		}
		var reference []byte
		err := eachLine(o.out, func(line []byte) error {
			id, err := seen.mark(line)
			if err != nil {
				return err
			}
			if came++; came%stride != 0 {
				return nil
			}
			reference = o.data.line(reference[:0], id)
			return compareDocuments(line, reference, want)
		})
		if err != nil {
			return err
		}
		if id := slices.Index(seen, false); id >= 0 {
			return fmt.Errorf("message %d is missing", id)
		}
		return nil
	}
}

// ids is true for each message that has arrived, and for those that must not arrive.
type ids []bool

// mark records that the message of a line has arrived, and returns its id. An id that is
// already true is an error.
func (seen ids) mark(line []byte) (int, error) {
	id, err := idOf(line)
	if err != nil {
		return 0, err
	}
	if id >= len(seen) || seen[id] {
		return 0, fmt.Errorf("message %d is a duplicate or should have been dropped", id)
	}
	seen[id] = true
	return id, nil
}

func decode(text []byte) (d document, err error) {
	if err = json.Unmarshal(text, &d); err != nil {
		err = fmt.Errorf("%w: %.200s", err, text)
	}
	return d, err
}

func compareDocuments(line, reference []byte, want func(document) document) error {
	got, err := decode(line)
	if err != nil {
		return err
	}
	d, err := decode(reference)
	if err != nil {
		return err
	}
	if expected := want(d); !reflect.DeepEqual(got, expected) {
		return fmt.Errorf("got %v, want %v", got, expected)
	}
	return nil
}

// failed reports whether the status of event id is above 500.
func failed(id int) bool { return id%3 == 2 }

func every(int) bool { return true }

// graded adds two fields to an event.
func graded(d document) document {
	d["severity"] = "critical"
	d["total_eur"] = d["total"].(float64) * 2
	return d
}

// wrapped puts an event into a field of a new document.
func wrapped(d document) document { return document{"event": d} }

// copied checks that output and input have the same lines, in any order.
func copied(o output) error {
	want, err := fingerprint(o.in)
	if err != nil {
		return err
	}
	got, err := fingerprint(o.out)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("the output differs from the input: it has %d lines, the input %d", got.lines, want.lines)
	}
	return nil
}

type lines struct {
	lines int
	sum   uint64 // of the hashes of all lines, so that their order does not matter
}

var seed = maphash.MakeSeed()

func fingerprint(path string) (l lines, err error) {
	err = eachLine(path, func(line []byte) error {
		l.lines++
		l.sum += maphash.Bytes(seed, line)
		return nil
	})
	return l, err
}

var delivered = regexp.MustCompile(`([\d,]+) received: ([\d,]+) delivered in`)

// counted checks rows without an output. flowd reports on stderr how many messages it has
// delivered, and a baseline prints the number. Peers need only exit with code 0.
func counted(o output) error {
	told := o.stderr
	if o.flowd {
		m := delivered.FindStringSubmatch(o.stderr)
		if m == nil {
			return fmt.Errorf("flowd does not report that it delivered all messages: %s", o.stderr)
		}
		told = strings.ReplaceAll(m[2], ",", "")
	}
	if n, err := strconv.Atoi(told); (o.flowd || told != "") && (err != nil || n != o.n) {
		return fmt.Errorf("%s of %d messages arrived", told, o.n)
	}
	return nil
}

// inOrder checks that the messages of each customer kept their order, and then runs the other check.
func inOrder(then check) check {
	return func(o output) error {
		last := map[int]int{} // id by customer
		err := eachLine(o.out, func(line []byte) error {
			id, err := idOf(line)
			if err != nil {
				return err
			}
			customer := id % 997
			if before, ok := last[customer]; ok && before >= id {
				return fmt.Errorf("message %d arrived after %d, which has the same customer", id, before)
			}
			last[customer] = id
			return nil
		})
		if err != nil {
			return err
		}
		return then(o)
	}
}
