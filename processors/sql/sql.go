// Package sql is the processor `sql`: it runs a statement for each message. Start at [Config]. Package
// internal/systems/sqldb manages connections and converts values.
package sql

import (
	"context"
	"fmt"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/components/fields"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/systems/sqldb"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the sql processor.
type Config struct {
	sqldb.Config `yaml:",inline"`
	Query        string       `yaml:"query" check:"required,nonempty" doc:"Statement to run. Parameters are $1, $2 in PostgreSQL and ? elsewhere."`
	Args         []expr.Value `yaml:"args" doc:"Values of the parameters, in order."`
	Rows         string       `yaml:"rows" check:"oneof=one|many|none" doc:"one gives the row as an object, or null if there is none; several rows are an error. many gives a list of rows. none leaves the message unchanged."`
	Into         fields.Path  `yaml:"into" doc:"Field for the result; without it the result replaces the payload."`
	MaxAnswer    schema.Size  `yaml:"max_answer" check:"min=1" doc:"Maximum size of the result, as JSON; a larger one fails its message."`
}

const (
	one  = "one"
	many = "many"
	none = "none"
)

// CheckConfig reports settings that can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	if c.Rows == none && !c.Into.IsZero() {
		report("into", "with `rows: none` there is no answer", "remove it, or write `rows: one` or `rows: many`")
	}
}

// Words returns words of other systems, with what to write instead.
func (c *Config) Words() map[string]string {
	words := c.Config.Words()
	for word, remedy := range map[string]string{
		"statement": "write `query`", "result_map": "write `into`", "exec_only": "write `rows: none`",
		"result_codec": "write `rows: one` or `rows: many`", "parallel": "write `connections`",
		"unsafe_dynamic_query": "remove it: a statement is never made of data",
		"timeout":              "write `timeout` on the step, beside `sql`",
	} {
		words[word] = remedy
	}
	return words
}

const help = `
Runs a statement on PostgreSQL, MySQL, MariaDB, SQLite or ClickHouse once for each message, and
stores its rows in a field.

Values are exact, as in the input sql. Statements for several messages run at once, each on its
own connection. A message that the database refuses fails alone (class rejected); after an
outage, a deadlock or a missing table, the statement is retried. A statement that changes
something may run more than once for a message.

    - sql:
        driver: postgres
        dsn: "postgres://flowd:${PGPASSWORD:-secret}@db.example/shop"
        query: "SELECT name, country FROM customers WHERE id = $1"
        args: [customer_id]
        into: customer
`

// Traits reports that the step calls a database.
func (Config) Traits() engine.Traits { return engine.Traits{Effects: engine.EffectsElsewhere} }

func init() {
	engine.Register(engine.Processors, "sql", help, Config{Config: sqldb.Defaults, Rows: one, MaxAnswer: 10 << 20}, build)
}

type step struct {
	cfg Config
	db  sqldb.DB
}

var (
	_ engine.Opener        = (*step)(nil)
	_ engine.Closer        = (*step)(nil)
	_ engine.Traited       = (*step)(nil)
	_ call.Asker[*request] = (*step)(nil)
)

func build(c Config, _ engine.Env) (engine.Processor, error) { return &step{cfg: c}, nil }

// Open prepares the connection pool. The first statement connects.
func (s *step) Open(context.Context) (err error) {
	s.db, err = s.cfg.Open()
	return engine.WithClass(engine.Permanent, err)
}

// Close closes the connections.
func (s *step) Close(context.Context) error {
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

// Traits reports how many statements run at once.
func (s *step) Traits() engine.Traits { return engine.Traits{Together: s.cfg.Connections} }

// Process runs the statements. They end with ctx.
func (s *step) Process(ctx context.Context, b *engine.Batch) error {
	call.Each(ctx, b, s.cfg.Connections, s)
	return nil
}

// request holds a statement's parameters and its answer.
type request struct {
	m      *engine.Message // its credits pay for the answer
	args   []sqldb.Value
	answer []byte
	room   int // credits taken for the answer, in bytes
}

// Prepare evaluates the parameters.
func (s *step) Prepare(m *engine.Message) (*request, error) {
	if !s.cfg.Into.Path.IsZero() {
		if err := m.Doc().Valid(); err != nil {
			return nil, err // there is no document to hold the answer
		}
	}
	r := &request{m: m, args: make([]sqldb.Value, len(s.cfg.Args))}
	for i := range s.cfg.Args {
		v, err := sqldb.ValueOf(&s.cfg.Args[i], m)
		if err != nil {
			return nil, fmt.Errorf("args[%d]: %w", i, err)
		}
		r.args[i] = v
	}
	return r, nil
}

// Call runs the statement.
func (s *step) Call(ctx context.Context, r *request) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if s.cfg.Rows == none {
		_, err := conn.Exec(ctx, s.cfg.Query, r.args)
		return err
	}
	rows, err := conn.Query(ctx, s.cfg.Query, r.args)
	if err != nil {
		return err
	}
	defer rows.Close()
	if s.cfg.Rows == many {
		r.answer = append(r.answer, '[')
	}
	for n := 0; rows.Next(); n++ {
		switch {
		case n > 0 && s.cfg.Rows == one:
			return engine.Errorf(engine.Rejected, "the answer has several rows (write `rows: many`, or LIMIT 1)")
		case n > 0:
			r.answer = append(r.answer, ',')
		}
		if r.answer, err = rows.Append(r.answer); err != nil {
			return err
		}
		if err := s.grow(r); err != nil {
			return err
		}
	}
	if rows.Err() != nil {
		return rows.Err()
	}
	if s.cfg.Rows == many {
		r.answer = append(r.answer, ']')
	} else if len(r.answer) == 0 {
		r.answer = []byte("null")
	}
	return nil
}

// free is how many bytes of an answer need no credits: only few statements run at once.
const free = 32 << 10

// grow takes credits for a long answer.
func (s *step) grow(r *request) error {
	if len(r.answer) > int(s.cfg.MaxAnswer) {
		return engine.Errorf(engine.Permanent, "the answer is longer than max_answer, %s (raise it, or ask for less)",
			s.cfg.MaxAnswer)
	}
	if len(r.answer) <= free || len(r.answer) <= r.room {
		return nil
	}
	more := max(len(r.answer), free)
	r.room += more
	return r.m.Grow(more)
}

// Finish stores the answer in the message.
func (s *step) Finish(m *engine.Message, r *request) error {
	switch {
	case s.cfg.Rows == none:
		return nil
	case s.cfg.Into.IsZero():
		m.SetBytes(r.answer)
		return nil
	}
	return m.Doc().SetRaw(s.cfg.Into.Path, r.answer)
}
