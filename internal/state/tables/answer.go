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

// Query is the configuration of a table that is the answer of a database.
type Query struct {
	sqldb.Config `yaml:",inline"`
	Query        string `yaml:"query" check:"required,nonempty" doc:"Query whose rows form the table; their values are those of the sql input."`
}

// answer is the source of a table that is the answer of a database.
type answer struct {
	cfg  *Config
	last []byte // the answer that was read
}

func (a *answer) pause() time.Duration { return a.cfg.spread() }

func (a *answer) read(ctx context.Context) ([]byte, error) {
	a.last = nil
	return a.changed(ctx)
}

func (a *answer) changed(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	data, err := a.ask(ctx)
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

// ask makes the rows a list. The connection does not wait for the next time, which is long after.
func (a *answer) ask(ctx context.Context) ([]byte, error) {
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
