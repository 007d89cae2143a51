package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
)

// languageRows measure functions of the expression language.
var languageRows = []row{
	{
		name: "re-find", does: "file → filter by a regular expression → file; a tenth passes",
		check: transformed(itself, endsIn7), data: events,
		contestants: []contestant{inFlowd("re-find"), theLimit("scan and regexp", "re-find $in $out"),
			inBenthos("re-find")},
		goals: []goal{{than: "scan and regexp", atLeast: 0.5}, {than: "benthos", atLeast: 10}},
	},
	{
		name: "sha256", does: "file → set a field to the hash of another → file", check: transformed(digested, every), data: events,
		contestants: []contestant{inFlowd("sha256"), theLimit("scan and sha256", "sha256 $in $out"),
			inBenthos("sha256")},
		goals: []goal{{than: "scan and sha256", atLeast: 0.5}, {than: "benthos", atLeast: 10}},
	},
	{
		name: "redact", does: "file → mask two fields at any depth → file", check: transformed(redacted, every),
		data: events,
		contestants: []contestant{inFlowd("redact"), theLimit("scan and mask", "redact $in $out"),
			inBenthos("redact")},
		goals: []goal{{than: "scan and mask", atLeast: 0.1}, {than: "benthos", atLeast: 10}},
	},
}

func itself(d document) document { return d }

// endsIn7 reports whether the number in the path of event id ends in 7.
func endsIn7(id int) bool { return id%9973%10 == 7 }

func digested(d document) document {
	sum := sha256.Sum256([]byte(d["path"].(string)))
	d["digest"] = hex.EncodeToString(sum[:])
	return d
}

// masked are the fields that are redacted.
var masked = []string{"name", "trace"}

func redacted(d document) document {
	d["trace"] = "***"
	d["customer"].(map[string]any)["name"] = "***"
	return d
}

var ordersOf7 = regexp.MustCompile("/orders/[0-9]*7$")

// reFind filters by a pattern in one field, which it finds with one scan of the line.
func reFind(r *bufio.Reader, w *bufio.Writer) error {
	return processLines(r, w, func(line []byte) error {
		path, _, err := findField(line, "path")
		if err != nil {
			return err
		}
		if ordersOf7.Match(path[1 : len(path)-1]) {
			w.Write(line) // an error stays until Flush
		}
		return nil
	})
}

// digest inserts the hash of a field into the line.
func digest(r *bufio.Reader, w *bufio.Writer) error {
	var buf []byte
	return processLines(r, w, func(line []byte) error {
		path, end, err := findField(line, "path")
		if err != nil {
			return err
		}
		sum := sha256.Sum256(path[1 : len(path)-1])
		buf = append(append(buf[:0], line[:end]...), `,"digest":"`...)
		buf = hex.AppendEncode(buf, sum[:])
		buf = append(append(buf, '"'), line[end:]...)
		w.Write(buf)
		return nil
	})
}

// findField returns the text of a top-level field, and the position of the document's last brace.
func findField(line []byte, name string) (found []byte, end int, err error) {
	if len(line) == 0 || line[0] != '{' {
		return nil, 0, errNoObject
	}
	for i := 1; i < len(line) && line[i] == '"'; i++ {
		key := i + 1
		i = skipString(line, i)
		is := string(line[key:i-1]) == name
		i++ // the colon
		from := i
		if i = skipValue(line, i); i >= len(line) {
			break
		}
		if is {
			found = line[from:i]
		}
		if line[i] == '}' && found != nil {
			return found, i, nil
		}
	}
	return nil, 0, errNoObject
}

// mask replaces the masked fields at any depth, in one scan of the line. Their values must be strings.
func mask(r *bufio.Reader, w *bufio.Writer) error {
	var buf []byte
	return processLines(r, w, func(line []byte) error {
		buf = buf[:0]
		kept := 0
		for i := 0; i < len(line); {
			if line[i] != '"' {
				i++
				continue
			}
			key := i
			i = skipString(line, i)
			hidden := slices.ContainsFunc(masked, func(m string) bool { return string(line[key+1:i-1]) == m })
			if !hidden || !bytes.HasPrefix(line[i:], []byte(`:"`)) {
				continue
			}
			buf = append(append(buf, line[kept:i]...), `:"***"`...)
			i = skipString(line, i+1)
			kept = i
		}
		w.Write(append(buf, line[kept:]...))
		return nil
	})
}
