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

// data is a kind of message. line appends message i to a slice, without a line feed.
type data struct {
	name string
	line func(to []byte, i int) []byte
}

// events have about 330 bytes. A third of them has a status above 500.
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
	to = append(to, '.', byte('0'+i/10%10), byte('1'+i%9)) // never ends in 0, which a float would lose
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

// keyed are small messages with the given number of different keys.
func keyed(keys int) data {
	return data{"keyed" + strconv.Itoa(keys), func(to []byte, i int) []byte {
		// A prime step visits the keys in an order that helps no cache.
		return fmt.Appendf(to, `{"id":%d,"key":"k%07d","status":503,"total":12.5}`, i, i*7_368_787%keys)
	}}
}

// sized are events, padded to the given size.
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

// file writes a file of n messages, unless it exists. For more than w.messages, it returns a
// pattern that matches several hard links to one file.
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

// eachLine calls f with each line of a file, without its line feed.
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

// idOf returns the value of the field id. No other field of a message has this name.
func idOf(line []byte) (int, error) {
	_, rest, found := bytes.Cut(line, idKey)
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	if !found || end == 0 {
		return 0, fmt.Errorf("got a message without an id: %.200s", line)
	}
	return strconv.Atoi(string(rest[:end]))
}
