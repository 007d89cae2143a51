package postgrescdc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/flowd-io/flowd/schema"
)

// edited returns the URL of a database after an edit.
func edited(t *testing.T, address string, edit func(u *url.URL)) schema.Secret {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	edit(u)
	return schema.NewSecret(u.String())
}

// opened returns the error of Open or, if there is none, of the first Read.
func opened(t *testing.T, cfg Config) error {
	t.Helper()
	in, err := newInput(cfg, engine.Env{Log: slog.New(slog.DiscardHandler), Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.(engine.Closer).Close(context.Background()) }()
	if err := in.(engine.Opener).Open(t.Context()); err != nil {
		return err
	}
	for {
		b := engine.NewBatch(256)
		if _, err = in.Read(t.Context(), b); err != nil {
			return err
		}
	}
}

func TestErrorsOfOpen(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, `CREATE TABLE a (id int PRIMARY KEY)`, `CREATE TABLE b (id int PRIMARY KEY)`,
		`CREATE PUBLICATION only_a FOR TABLE a`)
	d.exec(t, `CREATE ROLE plain_`+d.slot+` LOGIN PASSWORD 'x'`)
	t.Cleanup(func() { d.Exec(t, "", `DROP ROLE plain_`+d.slot) })
	d.exec(t, `SELECT pg_create_logical_replication_slot('other_`+d.slot+`', 'test_decoding')`,
		`SELECT pg_create_logical_replication_slot('ours_`+d.slot+`', 'pgoutput')`)
	away := fresh(t, nil)
	tests := []struct {
		name  string
		edit  func(c *Config)
		class engine.Class
		want  string
	}{
		{"a wrong password", func(c *Config) {
			c.DSN = edited(t, d.url, func(u *url.URL) { u.User = url.UserPassword("flowd", "no") })
		}, engine.Auth, "check user and password in `dsn`"},
		{"a database that does not exist", func(c *Config) {
			c.DSN = edited(t, d.url, func(u *url.URL) { u.Path = "/nowhere" })
		}, engine.Permanent, "check the database"},
		{"nobody listens", func(c *Config) {
			c.DSN = edited(t, d.url, func(u *url.URL) { u.Host = "127.0.0.1:1" })
		}, engine.Transient, "check that the server runs"},
		{"not a dsn", func(c *Config) { c.DSN = schema.NewSecret("postgres://h:port/x") }, engine.Permanent, "dsn: "},
		{"no right to replicate", func(c *Config) {
			c.DSN = edited(t, d.url, func(u *url.URL) { u.User = url.UserPassword("plain_"+d.slot, "x") })
			c.Publication = "only_a"
		}, engine.Auth, "ALTER ROLE … REPLICATION"},
		{"no permission to create the publication", func(c *Config) {
			c.DSN = edited(t, d.url, func(u *url.URL) { u.User = url.UserPassword("plain_"+d.slot, "x") })
			c.Tables = []string{"public.a"}
		}, engine.Auth, `with CREATE PUBLICATION "` + d.slot + `" FOR TABLE "public"."a"`},
		{"a table that does not exist", func(c *Config) { c.Tables = []string{"public.A"} }, engine.Permanent,
			"table public.A does not exist"},
		{"a table that is not published", func(c *Config) {
			c.Publication, c.Tables = "only_a", []string{"public.a", "public.b"}
		}, engine.Permanent, `ALTER PUBLICATION "only_a" ADD TABLE "public"."b"`},
		{"no publication with create: false", func(c *Config) { c.Publication, c.Create = "nope", false },
			engine.Permanent, "slot " + d.slot + " does not exist"},
		{"a slot that is older than its publication", func(c *Config) { c.Slot, c.Publication = "ours_"+d.slot, "nope" },
			engine.Permanent, "can't use one that is newer"},
		{"a slot of another plugin", func(c *Config) { c.Slot = "other_" + d.slot }, engine.Permanent, `of plugin "test_decoding"`},
		{"a slot of another database", func(c *Config) {
			c.DSN, c.Slot = schema.NewSecret(away.url), "ours_"+d.slot
		}, engine.Permanent, "belongs to database " + d.slot},
		{"a server without TLS", func(c *Config) { c.TLS = &tlsconf.Client{} }, engine.Permanent, "set ssl = on"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := d.config()
			tt.edit(&cfg)
			err := opened(t, cfg)
			if e := engine.ErrorOf(err, "?"); e.Class != tt.class || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %s: %s", e.Class, err, tt.class, tt.want)
			}
			if strings.Contains(err.Error(), "flowd:flowd") || strings.Contains(err.Error(), ":no@") {
				t.Errorf("it shows a password: %v", err)
			}
		})
	}
}

func TestAServerThatIsNotLogical(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgtest.Own(t, "wal_level=replica"))
	if err := opened(t, d.config()); engine.ErrorOf(err, "?").Class != engine.Permanent ||
		!strings.Contains(err.Error(), "wal_level = replica") {
		t.Errorf("got %v", err)
	}
}

// The server claims to be older than it is: a function of the database hides PostgreSQL's own.
func TestAnOlderServer(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, `CREATE SCHEMA old`, `CREATE FUNCTION old.current_setting(name text) RETURNS text LANGUAGE sql AS $$ `+
		`SELECT CASE name WHEN 'server_version_num' THEN '120017' WHEN 'server_version' THEN '12.17 (Debian 12.17-1)' `+
		`ELSE pg_catalog.current_setting(name) END $$`)
	cfg := d.config()
	cfg.DSN = edited(t, d.url, func(u *url.URL) {
		q := u.Query()
		q.Set("search_path", "old,pg_catalog")
		u.RawQuery = q.Encode()
	})
	const want = "the server has version 12.17 (Debian 12.17-1) (upgrade it: 13 or later is needed)"
	if err := opened(t, cfg); engine.ErrorOf(err, "?").Class != engine.Permanent || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNoRoomForASlot(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgtest.Own(t, "max_replication_slots=1"))
	if err := opened(t, d.config()); engine.ErrorOf(err, "?").Class != engine.Permanent ||
		!strings.Contains(err.Error(), "a snapshot needs room for two") {
		t.Errorf("got %v", err)
	}
	cfg := d.config()
	cfg.Snapshot, cfg.Slot = "never", "second"
	d.exec(t, `SELECT pg_create_logical_replication_slot('`+d.slot+`', 'pgoutput')`)
	if err := opened(t, cfg); engine.ErrorOf(err, "?").Class != engine.Permanent ||
		!strings.Contains(err.Error(), "raise max_replication_slots") {
		t.Errorf("got %v", err)
	}
}

func TestConfiguration(t *testing.T) {
	tests := []struct {
		name string
		edit func(c *Config)
		want string
	}{
		{"not a dsn", func(c *Config) { c.DSN = schema.NewSecret("localhost") }, "dsn"},
		{"a slot with capitals", func(c *Config) { c.Slot = "Orders" }, "slot"},
		{"no slot", func(c *Config) { c.Slot = "" }, "slot"},
		{"a long slot", func(c *Config) { c.Slot = strings.Repeat("x", 55) }, "slot"},
		{"a long publication", func(c *Config) { c.Publication = strings.Repeat("x", 64) }, "publication"},
		{"a table without a schema", func(c *Config) { c.Tables = []string{"orders"} }, "tables"},
		{"a table without a name", func(c *Config) { c.Tables = []string{"public."} }, "tables"},
		{"valid", func(*Config) {}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := defaults
			c.DSN, c.Slot = schema.NewSecret("host=localhost"), "orders"
			tt.edit(&c)
			got := ""
			c.CheckConfig(func(path, _, _ string) { got += path })
			if got != tt.want {
				t.Errorf("reports %q, want %q", got, tt.want)
			}
		})
	}
	if _, err := newInput(defaults, engine.Env{Instances: 2}); err == nil {
		t.Error("two instances are allowed")
	}
}

// finite ends after some messages.
type finite struct {
	*input
	left int
}

func (f *finite) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if f.left == 0 {
		return f.input, engine.ErrEnd
	}
	a, err := f.input.Read(ctx, b)
	f.left -= b.Len()
	return a, err
}

func TestInputConforms(t *testing.T) {
	d := fresh(t, nil, `CREATE TABLE a (id int PRIMARY KEY)`, `CREATE PUBLICATION p FOR TABLE a`)
	d.exec(t, `SELECT pg_create_logical_replication_slot('`+d.slot+`_' || n, 'pgoutput') FROM generate_series(0, 5) n`,
		`INSERT INTO a VALUES (1), (2), (3)`)
	cfg := d.config()
	cfg.Publication, cfg.Slot = "p", d.slot+"_0"
	r := start(t, cfg, &enginetest.Sink{})
	want := r.has(3)
	r.end()
	n := 0
	enginetest.Input(t, func(t *testing.T) engine.Input {
		cfg := cfg
		n++
		cfg.Slot = d.slot + "_" + itoa(n)
		in, err := newInput(cfg, engine.Env{Log: slog.New(slog.DiscardHandler), Instances: 1})
		if err != nil {
			t.Fatal(err)
		}
		return &finite{input: in.(*input), left: 3}
	}, want...)
}

func TestConnectionsThatBreak(t *testing.T) {
	t.Parallel()
	var d *database
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			d = fresh(t, nil, `CREATE TABLE a (n int PRIMARY KEY)`)
			return fmt.Sprintf(`{"postgres_cdc": {"dsn": %q, "slot": %q, "tables": "public.a", "timeout": "1s"}}`,
				wire.Over(d.url), d.slot)
		},
		Send: func(t *testing.T, payloads ...string) {
			for _, p := range payloads {
				d.exec(t, "INSERT INTO a VALUES (("+"'"+p+"'"+"::json->>'n')::int)")
			}
		},
		Body: func(message string) string {
			var row struct {
				N     *int
				After struct{ N int }
			}
			if err := json.Unmarshal([]byte(message), &row); err != nil {
				return message
			}
			if row.N != nil {
				row.After.N = *row.N
			}
			return fmt.Sprintf(`{"n":%d}`, row.After.N)
		},
		Answers: 5,
	}.Run(t)
}

// TestAServerThatRefusesTLSAndIsSlow has no TLS, and says nothing in time on the connection without it.
func TestAServerThatRefusesTLSAndIsSlow(t *testing.T) {
	t.Parallel()
	refused := errors.New("tls error: server refused TLS connection")
	for _, tt := range []struct {
		err  error
		want engine.Class
	}{
		{refused, engine.Permanent},
		{errors.Join(refused, fmt.Errorf("failed SASL auth: timeout: %w", context.DeadlineExceeded)), engine.Timeout},
		{errors.Join(refused, io.ErrUnexpectedEOF), engine.Transient},
	} {
		if got := engine.ErrorOf(explain(tt.err, "connect"), engine.Transient).Class; got != tt.want {
			t.Errorf("%q has class %s, want %s", tt.err, got, tt.want)
		}
	}
}
