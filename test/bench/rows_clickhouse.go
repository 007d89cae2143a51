package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/flowd-io/flowd/internal/testing/clickhousetest"
)

// clickhouseRows write to a ClickHouse on this machine.
var clickhouseRows = []row{{
	name: "clickhouse-insert", does: "file → table, 20,000 rows per block", data: orders, fixed: 400_000, run: runClickHouse,
	needs:       needsClickHouse,
	contestants: []contestant{inFlowd("clickhouse-insert"), theLimit("net/http", "clickhouse-insert $dsn $table $in")},
	goals:       []goal{{than: "net/http", atLeast: 0.7}},
}}

// needsClickHouse starts a server, which runs until this process exits, or says why it can't.
func needsClickHouse(w *world) error {
	if w.clickhouse != "" {
		return nil
	}
	var t skipRecorder
	done := make(chan struct{})
	go func() { // Skip ends this goroutine
		defer close(done)
		w.clickhouse = clickhousetest.Shared(&t)
	}()
	<-done
	if w.clickhouse == "" {
		return errors.New(t.why)
	}
	_, err := queryClickHouse(w.ctx, w.clickhouse, "SELECT 1", nil)
	return err
}

// queryClickHouse sends a statement, with data as the body of the request.
func queryClickHouse(ctx context.Context, dsn, statement string, data []byte) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	user := u.User
	u.User, u.Path, u.RawQuery = nil, "/", url.Values{"query": {statement}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(data))
	if err != nil {
		return "", err
	}
	password, _ := user.Password()
	req.SetBasicAuth(user.Username(), password)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, text)
	}
	return strings.TrimSpace(string(text)), err
}

// runClickHouse is the runner of rows that write the lines of a file to a table.
func runClickHouse(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return s, err
	}
	name := fmt.Sprintf("flowd_bench_%d_%d", os.Getpid(), tables.Add(1))
	if _, err := queryClickHouse(w.ctx, w.clickhouse, "CREATE TABLE "+name+
		" (id Int64, number Int32, name String, path String, trace String) ENGINE = MergeTree ORDER BY id", nil); err != nil {
		return s, err
	}
	defer func() { _, _ = queryClickHouse(context.WithoutCancel(w.ctx), w.clickhouse, "DROP TABLE "+name, nil) }()
	maps.Copy(vars, map[string]string{"dsn": w.clickhouse, "table": name})
	used, err := w.runCommand(c.command, vars)
	if err != nil {
		return s, err
	}
	const whole = "SELECT count(), uniqExact(id), countIf(name = concat('Customer ', toString(number)) AND length(trace) = 32) FROM "
	got, err := queryClickHouse(w.ctx, w.clickhouse, whole+name, nil)
	if want := fmt.Sprintf("%d\t%[1]d\t%[1]d", n); err == nil && got != want {
		err = fmt.Errorf("numbers of rows, of different ids, and of correct rows: got %q, want %q", got, want)
	}
	return used.sample(r.data, n, used.wall), err
}

// clickhouseInsert writes orders from the file args[2] to the table args[1] at args[0], in large blocks.
func clickhouseInsert(args []string) error {
	var body bytes.Buffer
	lines := json.NewEncoder(&body)
	type visit struct {
		ID     int64  `json:"id"`
		Number int32  `json:"number"`
		Name   string `json:"name"`
		Path   string `json:"path"`
		Trace  string `json:"trace"`
	}
	return eachOrderBatch(args[2], 20_000, func(part []order) error {
		body.Reset()
		for _, o := range part {
			if err := lines.Encode(visit{o.ID, o.Customer.Number, o.Customer.Name, o.Path, o.Trace}); err != nil {
				return err
			}
		}
		_, err := queryClickHouse(context.Background(), args[0], "INSERT INTO "+args[1]+" FORMAT JSONEachRow", body.Bytes())
		return err
	})
}
