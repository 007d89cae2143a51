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

// output is what is checked after a run.
type output struct {
	data   data
	n      int    // messages that went in
	in     string // file
	out    string // file, or "" where nothing comes out
	stderr string
	all    bool // every message is decoded, not a sample
	flowd  bool // is the contestant
}

// check says what is wrong with an output: a wrong answer has no speed.
type check func(output) error

type document = map[string]any

// sampled is how many messages of an output are decoded, unless all are.
const sampled = 2000

// becomes checks that exactly one message was delivered for each that passes, and that it
// is what want makes of it. All ids are checked; only a sample of the documents is decoded.
func becomes(want func(document) document, passes func(id int) bool) check {
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
			id, err := seen.add(line)
			if err != nil {
				return err
			}
			if came++; came%stride != 0 {
				return nil
			}
			reference = o.data.line(reference[:0], id)
			return same(line, reference, want)
		})
		if err != nil {
			return err
		}
		if id := slices.Index(seen, false); id >= 0 {
			return fmt.Errorf("message %d did not come out", id)
		}
		return nil
	}
}

// ids says of each message whether it has come out, or must not.
type ids []bool

// add takes the message of a line, and says which one it is.
func (seen ids) add(line []byte) (int, error) {
	id, err := idOf(line)
	if err != nil {
		return 0, err
	}
	if id >= len(seen) || seen[id] {
		return 0, fmt.Errorf("message %d came out, which is one too many", id)
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

func same(line, reference []byte, want func(document) document) error {
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

// failed says of an event whether its status is above 500.
func failed(id int) bool { return id%3 == 2 }

func every(int) bool { return true }

// graded is what two fields make of an event that has failed.
func graded(d document) document {
	d["severity"] = "critical"
	d["total_eur"] = d["total"].(float64) * 2
	return d
}

// wrapped is an event in a document around it.
func wrapped(d document) document { return document{"event": d} }

// copied checks that the lines that came out are those that went in, in any order.
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
		return fmt.Errorf("%d lines came out of %d, or other ones", got.lines, want.lines)
	}
	return nil
}

type lines struct {
	lines int
	sum   uint64 // of all their hashes: the order does not matter
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

// counted checks rows without output: flowd reports how many messages it has delivered, a
// baseline prints it. For others, exit code 0 is enough.
func counted(o output) error {
	told := o.stderr
	if o.flowd {
		m := delivered.FindStringSubmatch(o.stderr)
		if m == nil {
			return fmt.Errorf("no report that all was delivered: %s", o.stderr)
		}
		told = strings.ReplaceAll(m[2], ",", "")
	}
	if n, err := strconv.Atoi(told); (o.flowd || told != "") && (err != nil || n != o.n) {
		return fmt.Errorf("%s messages arrived of %d", told, o.n)
	}
	return nil
}

// inOrder checks that messages with equal customers kept their order, and then the rest.
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
				return fmt.Errorf("message %d came behind %d, of one customer", id, before)
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
