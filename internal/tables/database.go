package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/sqldb"
)

// Query is the configuration of a table that is the answer of a database.
type Query struct {
	sqldb.Config `yaml:",inline"`
	Query        string `yaml:"query" check:"required,nonempty" doc:"Query whose rows are those of the table; their values are as those of the input sql."`
}

// database is the source of a table that is the answer of a database.
type database struct {
	cfg  *Config
	last []byte // the answer that was read
}

func (d *database) pause() time.Duration { return d.cfg.spread() }

func (d *database) read(ctx context.Context) ([]byte, error) {
	d.last = nil
	return d.changed(ctx)
}

func (d *database) changed(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	data, err := d.ask(ctx)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, d.cfg.late()
	case err != nil:
		return nil, fmt.Errorf("%s: %w", d.cfg.where(), err)
	case bytes.Equal(data, d.last):
		return nil, nil
	}
	d.last = data
	return data, nil
}

// ask makes the rows a list. The connection does not wait for the next time, which is long after.
func (d *database) ask(ctx context.Context) ([]byte, error) {
	db, err := d.cfg.SQL.Open()
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, d.cfg.SQL.Query, nil)
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
		if len(data) > int(d.cfg.MaxSize) {
			return nil, d.cfg.tooLarge()
		}
	}
	return append(data, ']'), rows.Err()
}
