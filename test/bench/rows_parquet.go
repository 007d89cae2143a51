package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

var parquetRows = []row{
	{
		name: "parquet", does: "JSON file → Parquet files of 5,000 rows", check: checkParquet, data: events,
		contestants: []contestant{inFlowd("parquet"), theLimit("parquet-go", "parquet $in $out")},
		goals:       []goal{{than: "parquet-go", atLeast: 0.7}},
	},
	{
		name: "parquet-read", does: "Parquet files of 5,000 rows → JSON file", check: transformed(unchanged, every),
		data: events, run: runParquetRead,
		contestants: []contestant{inFlowd("parquet-read"), theLimit("parquet-go", "parquet-read $in $out")},
		goals:       []goal{{than: "parquet-go", atLeast: 0.7}},
	},
}

// runParquetRead is the runner of rows whose contestants read Parquet files. The first run makes them from a file of events.
func runParquetRead(w *world, r *row, c *contestant, n int, all bool) (sample, error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return sample{}, err
	}
	dir := vars["in"] + ".parquet"
	if err := toParquet([]string{vars["in"], dir}); err != nil && !errors.Is(err, fs.ErrExist) {
		return sample{}, err
	}
	if err := os.RemoveAll(vars["out"]); err != nil {
		return sample{}, err
	}
	vars["in"] = filepath.Join(dir, "*.parquet")
	used, err := w.runCommand(c.command, vars)
	if err != nil {
		return sample{}, err
	}
	s := used.sample(data{}, n, used.wall)
	s.Bytes, _ = strconv.ParseInt(vars["size"], 10, 64)
	return s, r.check(output{data: r.data, n: n, out: vars["out"], all: all})
}

// parquetRow is an event as a row of a Parquet file.
type parquetRow struct {
	ID       int64   `json:"id" parquet:"id"`
	Status   int32   `json:"status" parquet:"status"`
	Method   string  `json:"method" parquet:"method,dict"`
	Path     string  `json:"path" parquet:"path,dict"`
	Total    float64 `json:"total" parquet:"total"`
	Customer *struct {
		Number int64  `json:"number" parquet:"number"`
		Name   string `json:"name" parquet:"name,dict"`
		Plan   string `json:"plan" parquet:"plan,dict"`
	} `json:"customer" parquet:"customer,optional"`
	Agent    string   `json:"agent" parquet:"agent,dict"`
	Tags     []string `json:"tags" parquet:"tags,list"`
	Duration int32    `json:"duration_ms" parquet:"duration_ms"`
	Trace    string   `json:"trace" parquet:"trace,dict"`
}

const parquetFileRows = 5000 // rows per file

// toParquet reads events with encoding/json and writes them with the Parquet library that flowd uses.
func toParquet(args []string) error {
	if err := os.Mkdir(args[1], 0o700); err != nil {
		return err
	}
	return withFiles(args[:1], os.DevNull, func(r *bufio.Reader, w *bufio.Writer) error {
		rows := make([]parquetRow, 0, parquetFileRows)
		files := 0
		flush := func() error {
			files++
			err := parquet.WriteFile(filepath.Join(args[1], fmt.Sprintf("%d.parquet", files)), rows, parquet.Compression(&parquet.Snappy))
			rows = rows[:0]
			return err
		}
		err := processLines(r, w, func(line []byte) error {
			rows = append(rows, parquetRow{})
			if err := json.Unmarshal(line, &rows[len(rows)-1]); err != nil || len(rows) < parquetFileRows {
				return err
			}
			return flush()
		})
		if err == nil && len(rows) > 0 {
			err = flush()
		}
		return err
	})
}

// readParquet writes the rows of Parquet files as lines of JSON.
func readParquet(args []string) (err error) {
	paths, err := filepath.Glob(args[0])
	if err != nil {
		return err
	}
	out, err := os.Create(args[1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := bufio.NewWriterSize(out, block)
	for _, path := range paths {
		rows, err := parquet.ReadFile[parquetRow](path)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := range rows {
			line, err := json.Marshal(&rows[i])
			if err != nil {
				return err
			}
			w.Write(line) // an error stays until Flush
			w.WriteByte('\n')
		}
	}
	return w.Flush()
}

// checkParquet checks that the files together have a row for each event, and compares all rows.
func checkParquet(o output) error {
	paths, err := filepath.Glob(filepath.Join(o.out, "*.parquet"))
	if err != nil {
		return err
	}
	seen := make(ids, o.n)
	var reference []byte
	for _, path := range paths {
		rows, err := parquet.ReadFile[parquetRow](path)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := range rows {
			id := rows[i].ID
			if id < 0 || id >= int64(len(seen)) || seen[id] {
				return fmt.Errorf("row %d is a duplicate, or was not in the input", id)
			}
			seen[id] = true
			reference = o.data.line(reference[:0], int(id))
			var want parquetRow
			if err := json.Unmarshal(reference, &want); err != nil {
				return err
			}
			if !reflect.DeepEqual(rows[i], want) {
				return fmt.Errorf("got %+v, want %+v", rows[i], want)
			}
		}
	}
	if id := slices.Index(seen, false); id >= 0 {
		return fmt.Errorf("message %d is missing", id)
	}
	return nil
}
