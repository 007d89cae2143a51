//go:build !no_sql && (!slim || sql)

package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
)

// Query configures a table that is the result of a database query.
type Query struct {
	sqldb.Config `yaml:",inline"`
	Query        string `yaml:"query" check:"required,nonempty" doc:"Query whose rows form the table; their values are those of the sql input."`
}

// answer is the source of such a table.
type answer struct {
	cfg  *Config
	last []byte // the last result
}

func (a *answer) pause() time.Duration { return a.cfg.spread() }

func (a *answer) read(ctx context.Context) ([]byte, error) {
	a.last = nil
	return a.changed(ctx)
}

func (a *answer) changed(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	data, err := a.query(ctx)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, a.cfg.late()
	case err != nil:
		return nil, fmt.Errorf("%s: %w", a.cfg.where(), err)
	case bytes.Equal(data, a.last):
		return nil, nil
	}
	a.last = data
	return data, nil
}

// query converts the rows to a list. It closes the connection, since the next query is far away.
func (a *answer) query(ctx context.Context) ([]byte, error) {
	db, err := a.cfg.SQL.Open()
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, a.cfg.SQL.Query, nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	data := []byte{'['}
	for rows.Next() {
		if len(data) > 1 {
			data = append(data, ',')
		}
		if data, err = rows.Append(data); err != nil {
			return nil, err
		}
		if len(data) > int(a.cfg.MaxSize) {
			return nil, a.cfg.tooLarge()
		}
	}
	return append(data, ']'), rows.Err()
}
