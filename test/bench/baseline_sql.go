package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// order has the fields of an order that are written to a table.
type order struct {
	ID       int64 `json:"id"`
	Customer struct {
		Number int32  `json:"number"`
		Name   string `json:"name"`
	} `json:"customer"`
	Path  string `json:"path"`
	Trace string `json:"trace"`
}

func (o *order) values() []any {
	return []any{o.ID, o.Customer.Number, o.Customer.Name, o.Path, o.Trace}
}

// eachOrderBatch calls f with up to most orders of a file at a time.
func eachOrderBatch(path string, most int, f func([]order) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in, part := bufio.NewReaderSize(file, block), make([]order, 0, most)
	for {
		line, err := in.ReadSlice('\n')
		if err == nil {
			var o order
			if err := json.Unmarshal(line, &o); err != nil {
				return err
			}
			part = append(part, o)
		}
		if len(part) == most || err != nil && len(part) > 0 {
			if err := f(part); err != nil {
				return err
			}
			part = part[:0]
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// sqlInsert writes orders from the file args[2] to the table args[1] at args[0], many per INSERT.
func sqlInsert(args []string) error {
	const most = 500
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, args[0])
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	statement := func(n int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "INSERT INTO %s (%s) VALUES ", args[1], orderColumns)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "($%d,$%d,$%d,$%d,$%d)", 5*i+1, 5*i+2, 5*i+3, 5*i+4, 5*i+5)
		}
		return b.String()
	}
	full, values := statement(most), make([]any, 0, 5*most)
	return eachOrderBatch(args[2], most, func(part []order) error {
		text := full
		if len(part) < most {
			text = statement(len(part))
		}
		values = values[:0]
		for i := range part {
			values = append(values, part[i].values()...)
		}
		_, err := conn.Exec(ctx, text, values...)
		return err
	})
}

// sqlCopy does the same as sqlInsert, with COPY.
func sqlCopy(args []string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, args[0])
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return eachOrderBatch(args[2], 10_000, func(part []order) error {
		_, err := conn.CopyFrom(ctx, pgx.Identifier{args[1]}, strings.Split(orderColumns, ", "),
			pgx.CopyFromSlice(len(part), func(i int) ([]any, error) { return part[i].values(), nil }))
		return err
	})
}

// sqlRead reads the table args[1] at args[0] in pages, encodes each row as JSON, and prints the number of rows.
func sqlRead(args []string) error {
	const most = 10_000
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, args[0])
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	query := fmt.Sprintf("SELECT %s FROM %s WHERE id > $1 ORDER BY id LIMIT %d", orderColumns, args[1], most)
	n, last, out := 0, int64(-1), json.NewEncoder(io.Discard)
	for page := most; page == most; n += page {
		page = 0
		rows, err := conn.Query(ctx, query, last)
		if err != nil {
			return err
		}
		var o struct {
			ID                int64
			Number            int32
			Name, Path, Trace string
		}
		if _, err := pgx.ForEachRow(rows, []any{&o.ID, &o.Number, &o.Name, &o.Path, &o.Trace}, func() error {
			page, last = page+1, o.ID
			return out.Encode(&o)
		}); err != nil {
			return err
		}
	}
	_, err = fmt.Fprint(os.Stderr, n)
	return err
}

// settling is how often contestants confirm their position to the server.
const settling = 100 * time.Millisecond

// cdc reads changes with the slot and publication args[1] at args[0], encodes each as JSON, and prints their number when
// it is interrupted.
func cdc(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	conf, err := pgconn.ParseConfig(args[0])
	if err != nil {
		return err
	}
	conf.RuntimeParams["replication"] = "database"
	conn, err := pgconn.ConnectConfig(ctx, conf)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	conn.Frontend().SendQuery(&pgproto3.Query{String: fmt.Sprintf(
		"START_REPLICATION SLOT %s LOGICAL 0/0 (proto_version '1', publication_names '%s')", args[1], args[1])})
	if err := conn.Frontend().Flush(); err != nil {
		return err
	}
	var m pgoutput.Message
	var settled, told pgoutput.LSN
	n, report, next := 0, []byte(nil), time.Now()
	for {
		got, err := conn.ReceiveMessage(ctx)
		if ctx.Err() != nil {
			_, err = fmt.Fprint(os.Stderr, n)
			return err
		}
		if err != nil {
			return err
		}
		data, ok := got.(*pgproto3.CopyData)
		if !ok {
			continue
		}
		f, err := pgoutput.ParseFrame(data.Data)
		if err != nil {
			return err
		}
		if f.Data == nil {
			settled = max(settled, f.End)
		} else if err := m.Decode(f.Data); err != nil {
			return err
		}
		switch {
		case f.Data == nil:
		case m.Kind == pgoutput.Insert:
			n++
			fmt.Fprintf(io.Discard, `{"op":"insert","after":{"id":%s,"number":%s,"name":%q,"path":%q,"trace":%q}}`,
				m.New[0].Text, m.New[1].Text, m.New[2].Text, m.New[3].Text, m.New[4].Text)
		case m.Kind == pgoutput.Commit:
			settled = m.End
		}
		if now := time.Now(); settled > told && now.After(next) || f.Reply {
			report = pgoutput.AppendStatus(report[:0], settled, now, false)
			conn.Frontend().Send(&pgproto3.CopyData{Data: report})
			if err := conn.Frontend().Flush(); err != nil {
				return err
			}
			told, next = settled, now.Add(settling)
		}
	}
}
