package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// baselines are programs that do the work of a row and nothing else, to compare flowd with.
// Each runs in a separate process, as `bench baseline NAME ARGS`.
var baselines = map[string]func(args []string) error{
	"split":              func(a []string) error { return withFiles(a, os.DevNull, split) },
	"copy":               func(a []string) error { return withFiles(a, "-", copyLines) },
	"splice":             func(a []string) error { return withFiles(a, "-", splice) },
	"json":               func(a []string) error { return withFiles(a, "-", decodeAndEncode) },
	"json-wrap":          func(a []string) error { return withFiles(a, "-", wrap) },
	"re-find":            func(a []string) error { return withFiles(a, "-", reFind) },
	"sha256":             func(a []string) error { return withFiles(a, "-", digest) },
	"redact":             func(a []string) error { return withFiles(a, "-", mask) },
	"generate":           generate,
	"http-echo":          httpEcho,
	"http-poll":          httpPoll,
	"http-relay":         httpRelay,
	"amqp-relay":         amqpRelay,
	"kafka-avro":         kafkaAvro,
	"kafka-broker":       kafkaBroker,
	"kafka-drop":         kafkaDrop,
	"kafka-relay":        kafkaRelay,
	"kafka-transactions": kafkaTransactions,
	"redis-relay":        redisRelay,
	"mqtt-relay":         mqttRelay,
	"nats-relay":         natsRelay,
	"nats-server":        natsServer,
	"otlp-receiver":      otlpReceiver,
	"s3-read":            s3Read,
	"s3-write":           s3Write,
	"sql-insert":         sqlInsert,
	"sql-copy":           sqlCopy,
	"sql-read":           sqlRead,
	"clickhouse-insert":  clickhouseInsert,
	"postgres-cdc":       cdc,
	"parquet":            toParquet,
	"parquet-read":       readParquet,
	"sleepers":           sleepers,
	"identity":           identity,
	"flowd-alloc":        allocations,
}

func baseline(args []string) error {
	if len(args) == 0 || baselines[args[0]] == nil {
		return fmt.Errorf("unknown baseline %q", args)
	}
	return baselines[args[0]](args[1:])
}

const block = 256 << 10 // bytes per read or write

// withFiles calls f with a reader of the files that match args[0] and a writer of the file
// args[1]. Without args[0], or if it is "-", the reader reads stdin. Without args[1], the
// writer writes to the file out. "-" as an output is stdout.
func withFiles(args []string, out string, f func(*bufio.Reader, *bufio.Writer) error) (err error) {
	src, dst := io.Reader(os.Stdin), os.Stdout
	if len(args) > 0 && args[0] != "-" {
		paths, err := filepath.Glob(args[0])
		if err != nil {
			return err
		}
		var all []io.Reader
		for _, path := range paths {
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			defer file.Close()
			all = append(all, file)
		}
		src = io.MultiReader(all...)
	}
	if len(args) > 1 {
		out = args[1]
	}
	if out != "-" {
		if dst, err = os.Create(out); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dst.Close()) }()
	}
	w := bufio.NewWriterSize(dst, block)
	if err := f(bufio.NewReaderSize(src, block), w); err != nil {
		return err
	}
	return w.Flush()
}

// processLines calls f with each line, including its line feed. It flushes w whenever
// the buffer of r is empty.
func processLines(r *bufio.Reader, w *bufio.Writer, f func(line []byte) error) error {
	for {
		line, err := r.ReadSlice('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if errors.Is(err, bufio.ErrBufferFull) { // longer than a block
			long := bytes.Clone(line)
			line, err = r.ReadBytes('\n')
			line = append(long, line...)
		}
		if err != nil {
			return err
		}
		if err := f(line); err != nil {
			return err
		}
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// split counts lines.
func split(r *bufio.Reader, w *bufio.Writer) error {
	n := 0
	err := processLines(r, w, func([]byte) error { n++; return nil })
	fmt.Fprintln(os.Stderr, n)
	return err
}

func copyLines(r *bufio.Reader, w *bufio.Writer) error {
	return processLines(r, w, func(line []byte) error {
		_, err := w.Write(line)
		return err
	})
}

// splice does the work of the row filter with one scan of each line. It copies all other bytes.
func splice(r *bufio.Reader, w *bufio.Writer) error {
	var buf []byte
	return processLines(r, w, func(line []byte) error {
		status, total, end, err := scan(line)
		if err != nil {
			return err
		}
		code, err := strconv.Atoi(string(status))
		if err != nil || code < 500 {
			return err
		}
		amount, err := strconv.ParseFloat(string(total), 64)
		if err != nil {
			return err
		}
		buf = append(buf[:0], line[:end]...)
		buf = append(buf, `,"severity":"critical","total_eur":`...)
		buf = strconv.AppendFloat(buf, amount*2, 'f', -1, 64)
		buf = append(buf, line[end:]...)
		_, err = w.Write(buf)
		return err
	})
}

var errNoObject = errors.New("a line is not a JSON object")

// scan returns the fields status and total of a document, and the position of its last brace.
// It scans the line once, and does not check that values are well formed.
func scan(line []byte) (status, total []byte, end int, err error) {
	i := 0
	if len(line) == 0 || line[0] != '{' {
		return nil, nil, 0, errNoObject
	}
	for i++; i < len(line) && line[i] == '"'; i++ {
		key := i + 1
		i = skipString(line, i)
		name := line[key : i-1]
		i++ // the colon
		from := i
		i = skipValue(line, i)
		switch string(name) {
		case "status":
			status = line[from:i]
		case "total":
			total = line[from:i]
		}
		if i >= len(line) {
			break
		}
		if line[i] == '}' {
			return status, total, i, nil
		}
	}
	return nil, nil, 0, errNoObject
}

// skipString returns the position after the string that begins at i.
func skipString(line []byte, i int) int {
	for i++; i < len(line) && line[i] != '"'; i++ {
		if line[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipValue returns the position after the value that begins at i.
func skipValue(line []byte, i int) int {
	depth := 0
	for i < len(line) {
		switch line[i] {
		case '"':
			i = skipString(line, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// decodeAndEncode does the work of the row filter with encoding/json.
func decodeAndEncode(r *bufio.Reader, w *bufio.Writer) error {
	return recode(r, w, func(event document) document {
		if status, _ := event["status"].(float64); status < 500 {
			return nil
		}
		return graded(event)
	})
}

// wrap puts each document into a field of a new one, with encoding/json.
func wrap(r *bufio.Reader, w *bufio.Writer) error { return recode(r, w, wrapped) }

// recode decodes each document, calls edit, and encodes its result. It drops the document if
// the result is nil.
func recode(r *bufio.Reader, w *bufio.Writer, edit func(document) document) error {
	return processLines(r, w, func(line []byte) error {
		var event document
		if err := json.Unmarshal(line, &event); err != nil {
			return err
		}
		if event = edit(event); event == nil {
			return nil
		}
		body, err := json.Marshal(event)
		if err != nil {
			return err
		}
		w.Write(body) // an error stays until Flush
		return w.WriteByte('\n')
	})
}

// generate makes args[0] messages, reads a field of each, and adds one.
func generate(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	var buf []byte
	made := 0
	for i := range n {
		buf = append(buf[:0], `{"id":`...)
		buf = strconv.AppendInt(buf, int64(i+1), 10)
		buf = append(buf, `,"status":503,"total":12.5}`...)
		status, _, end, err := scan(buf)
		if err != nil {
			return err
		}
		if string(status) < "500" {
			continue
		}
		buf = append(buf[:end], `,"severity":"critical"}`...)
		made++
	}
	fmt.Fprintln(os.Stderr, made)
	return nil
}
