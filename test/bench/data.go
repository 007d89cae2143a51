package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// data is what contestants read: line appends message i, without its line feed.
type data struct {
	name string
	line func(to []byte, i int) []byte
}

// events are of about 330 bytes; the status of a third of them is above 500.
var events = data{"events", event}

func event(to []byte, i int) []byte {
	to = append(to, `{"id":`...)
	to = strconv.AppendInt(to, int64(i), 10)
	to = append(to, `,"status":`...)
	to = strconv.AppendInt(to, int64([...]int{200, 404, 503}[i%3]), 10)
	to = append(to, `,"method":"GET","path":"/api/v1/orders/`...)
	to = strconv.AppendInt(to, int64(i%9973), 10)
	to = append(to, `","total":`...)
	to = strconv.AppendInt(to, int64(i%500), 10)
	to = append(to, '.', byte('0'+i/10%10), byte('1'+i%9)) // a trailing 0 is lost on the way through a float
	to = append(to, `,"customer":{"number":`...)
	to = strconv.AppendInt(to, int64(i%997), 10)
	to = append(to, `,"name":"Customer `...)
	to = strconv.AppendInt(to, int64(i%997), 10)
	to = append(to,
		`","plan":"enterprise"},"agent":"Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Firefox/115.0",`+
			`"tags":["checkout","web","eu-west"],"duration_ms":`...)
	to = strconv.AppendInt(to, int64(i%350), 10)
	return append(to, `,"trace":"4bf92f3577b34da6a3ce929d0e0e4736"}`...)
}

// keyed are small, with this many different keys.
func keyed(keys int) data {
	return data{"keyed" + strconv.Itoa(keys), func(to []byte, i int) []byte {
		// A prime step visits the keys in no order that helps.
		return fmt.Appendf(to, `{"id":%d,"key":"k%07d","status":503,"total":12.5}`, i, i*7_368_787%keys)
	}}
}

// sized are events that are padded to this many bytes.
func sized(bytes int) data {
	return data{"sized" + strconv.Itoa(bytes), func(to []byte, i int) []byte {
		began := len(to)
		to = event(to, i)
		to = append(to[:len(to)-1], `,"pad":"`...)
		if n := bytes - (len(to) - began) - len(`"}`); n > 0 {
			to = append(to, strings.Repeat("x", n)...)
		}
		return append(to, `"}`...)
	}}
}

// file is a file of n messages, which is written once in a run; for more than a file
// may have, a pattern of several that are one and the same.
func (w *world) file(d data, n int) (path string, size int64, err error) {
	if n > w.messages {
		return w.links(d, n)
	}
	path = filepath.Join(w.dir, fmt.Sprintf("%s-%d.ndjson", d.name, n))
	if info, err := os.Stat(path); err == nil {
		return path, info.Size(), nil
	}
	f, err := os.Create(path)
	if err != nil {
		return "", 0, err
	}
	b := bufio.NewWriterSize(f, 1<<18)
	var line []byte
	for i := range n {
		line = append(d.line(line[:0], i), '\n')
		b.Write(line) // an error stays until Flush
		size += int64(len(line))
	}
	return path, size, errors.Join(b.Flush(), f.Close())
}

func (w *world) links(d data, n int) (pattern string, size int64, err error) {
	whole, size, err := w.file(d, w.messages)
	if err != nil {
		return "", 0, err
	}
	dir := filepath.Join(w.dir, fmt.Sprintf("%s-%d", d.name, n))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", 0, err
	}
	files := n / w.messages
	for i := range files {
		if err := os.Link(whole, filepath.Join(dir, fmt.Sprintf("%d.ndjson", i))); err != nil &&
			!errors.Is(err, os.ErrExist) {
			return "", 0, err
		}
	}
	return filepath.Join(dir, "*.ndjson"), size * int64(files), nil
}

// eachLine calls f with all lines of a file.
func eachLine(path string, f func(line []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 1<<18), 1<<22)
	for lines.Scan() {
		if err := f(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

var idKey = []byte(`"id":`)

// idOf is the field id, which nothing else in a message is called.
func idOf(line []byte) (int, error) {
	_, rest, found := bytes.Cut(line, idKey)
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	if !found || end == 0 {
		return 0, fmt.Errorf("a message without an id came out: %.200s", line)
	}
	return strconv.Atoi(string(rest[:end]))
}
