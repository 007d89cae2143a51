package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/debian"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
)

const postgresRelay = `
inputs:
  changes:
    postgres_cdc: {dsn: %q, slot: %s, tables: [public.a], ack_interval: 50ms}
batchers:
  all: {batch: {size: 500, timeout: 20ms}, output: sink}
outputs:
  sink: {http: {url: %q, batch: lines}}
engine:
  order_by: meta("key")
  max_in_flight: {messages: 2000, bytes: 8MiB}
  restart: {backoff: 50ms, max_backoff: 200ms}
`

// changeSink is a server that records changes.
type changeSink struct {
	*httptest.Server

	mu   sync.Mutex          // guards the fields below
	n    int                 // messages, including duplicates
	keys map[string][]string // changes of each row, without duplicates, in order of arrival
	seen map[string]bool     // LSN and position
}

// changed is a change as flowd sends it.
type changed struct {
	Op, LSN  string
	Position int
	Before   struct{ ID int }
	After    *struct {
		ID int
		V  string
	}
}

func startChangeSink(t *testing.T) *changeSink {
	s := &changeSink{keys: map[string][]string{}, seen: map[string]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var all []changed
		lines := bufio.NewScanner(r.Body)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			var c changed
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Errorf("%s: %v", lines.Text(), err)
			}
			all = append(all, c)
		}
		s.record(all)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *changeSink) record(all []changed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range all {
		s.n++
		id, text := c.Before.ID, c.Op
		if c.After != nil {
			id, text = c.After.ID, c.Op+" "+c.After.V
		}
		if place := c.LSN + "/" + strconv.Itoa(c.Position); c.Op != "read" && !s.seen[place] {
			s.seen[place] = true
			s.keys[strconv.Itoa(id)] = append(s.keys[strconv.Itoa(id)], text)
		}
	}
}

func (s *changeSink) count() (all, distinct int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, len(s.seen)
}

// wal2jsonChanges returns the changes of each row as the output plugin wal2json reports them.
func wal2jsonChanges(t *testing.T, p *pgtest.Postgres, db, slot string) map[string][]string {
	t.Helper()
	keys := map[string][]string{}
	for line := range strings.SplitSeq(p.Exec(t, db, `SELECT data FROM pg_logical_slot_get_changes('`+slot+`', NULL, NULL, `+
		`'format-version', '2', 'include-transaction', 'false')`), "\n") {
		type column struct{ Value any }
		var c struct {
			Action            string
			Columns, Identity []column
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		row := append(c.Columns, c.Identity...)
		op := map[string]string{"I": "insert", "U": "update", "D": "delete"}[c.Action]
		if c.Action != "D" {
			op += " " + fmt.Sprint(row[1].Value)
		}
		id := fmt.Sprint(row[0].Value)
		keys[id] = append(keys[id], op)
	}
	return keys
}

// randomChanges changes random rows of 60 keys. It rolls back some of its transactions.
const randomChanges = `DO $$ DECLARE k int; BEGIN FOR i IN 1..%d LOOP
  FOR j IN 1..1 + random() * 5 LOOP
    k := %d * 20 + random() * 19;
    CASE (random() * 3)::int
      WHEN 0 THEN DELETE FROM a WHERE id = k;
      WHEN 1 THEN UPDATE a SET v = md5(random()::text) WHERE id = k;
      ELSE INSERT INTO a VALUES (k, md5(random()::text)) ON CONFLICT (id) DO UPDATE SET v = excluded.v;
    END CASE;
  END LOOP;
  IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
END LOOP; END $$`

// TestPostgresChanges changes rows while flowd is killed and its connections are cut and terminated. Every change must
// arrive, in order for each row, as wal2json reports it.
func TestPostgresChanges(t *testing.T) {
	t.Parallel()
	p := pgtest.Server(t)
	if err := debian.Install("postgresql-15-wal2json", "/usr/lib/postgresql/15/lib/wal2json.so"); err != nil &&
		os.Getenv(pgtest.Variable) == "" {
		fmt.Fprintf(os.Stderr, "SKIPPED %s: no wal2json: %v (install postgresql-15-wal2json)\n", t.Name(), err)
		t.Skip(err)
	}
	db := p.Database(t)
	name := db[strings.LastIndex(db, "/")+1:]
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	wire := startProxy(t, u.Host)
	u.Host = wire.addr
	p.Exec(t, db, `CREATE TABLE a (id int PRIMARY KEY, v text)`, `INSERT INTO a SELECT i, 'old' FROM generate_series(1, 40) i`)
	sink := startChangeSink(t)
	dir := t.TempDir()
	file := write(t, dir, "relay.yaml", fmt.Sprintf(postgresRelay, u, name, sink.URL))
	f := start(t, dir, "-c", file)
	wait := func(what string, done func() bool) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for end := time.After(deadline); !done(); {
			select {
			case <-tick.C:
			case <-end:
				t.Fatalf("still waiting for %s after %s", what, deadline)
			}
		}
	}
	wait("a slot", func() bool {
		return p.Exec(t, db, `SELECT count(*) FROM pg_replication_slots WHERE slot_name = '`+name+`' AND active`) == "1"
	})
	p.Exec(t, db, `SELECT pg_create_logical_replication_slot('`+name+`_oracle', 'wal2json')`)
	var writers sync.WaitGroup
	for i := range 3 {
		writers.Go(func() { p.Exec(t, db, fmt.Sprintf(randomChanges, 800*(*kills+1), i)) })
	}
	for i := range *kills {
		for j, disturb := range []func(){
			wire.cut,
			func() {
				p.Exec(t, db, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '`+name+`' AND active`)
			},
			func() {
				f.Signal(syscall.SIGKILL)
				_ = f.Cmd.Wait()
				f = start(t, dir, "-c", file)
			},
		} {
			wait("changes", func() bool { _, n := sink.count(); return n >= 500*(3*i+j)+250 })
			disturb()
		}
	}
	writers.Wait()
	want := wal2jsonChanges(t, p, db, name+"_oracle")
	total := 0
	for _, all := range want {
		total += len(all)
	}
	wait("all changes", func() bool { _, n := sink.count(); return n >= total })
	f.Signal(syscall.SIGTERM)
	f.Wait().Want(t, 0)
	sink.mu.Lock()
	defer sink.mu.Unlock()
	for id, all := range want {
		if !slices.Equal(sink.keys[id], all) {
			t.Errorf("row %s has %d changes, want %d in the same order", id, len(sink.keys[id]), len(all))
		}
	}
	t.Logf("%d changes, %d messages", total, sink.n)
}

// TestPostgresLargeTransaction reads a transaction that is larger than the memory that flowd may use.
func TestPostgresLargeTransaction(t *testing.T) {
	t.Parallel()
	p := pgtest.Server(t)
	db := p.Database(t)
	name := db[strings.LastIndex(db, "/")+1:]
	p.Exec(t, db, `CREATE TABLE a (id int PRIMARY KEY, v text)`)
	sink := startChangeSink(t)
	dir := t.TempDir()
	f := start(t, dir, "-c", write(t, dir, "relay.yaml", fmt.Sprintf(postgresRelay, db, name, sink.URL)))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.Exec(t, db, `SELECT count(*) FROM pg_replication_slots WHERE slot_name = '`+name+`' AND active`) != "1" {
		<-tick.C
	}
	p.Exec(t, db, `BEGIN; INSERT INTO a SELECT i, repeat('x', 2000) FROM generate_series(1, 60000) i; `+
		`INSERT INTO a SELECT i, repeat('x', 2000000) FROM generate_series(60001, 60060) i; COMMIT`)
	for n, end := 0, time.After(compiling); n < 60060; _, n = sink.count() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%d changes have arrived after %s", n, compiling)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.Cmd.Process.Pid))
	if m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status); err == nil && m != nil {
		if kB, _ := strconv.Atoi(string(m[1])); kB > 160<<10 {
			t.Errorf("flowd used %d kB for a transaction of 240 MB, want at most 160 MiB", kB)
		} else {
			t.Logf("flowd used %d kB", kB)
		}
	}
	f.Signal(syscall.SIGTERM)
	f.Wait().Want(t, 0)
	if all, _ := sink.count(); all != 60060 {
		t.Errorf("%d messages, want 60060", all)
	}
}

// TestPostgresSilence stops all network traffic without closing connections. flowd must time out and reconnect, and read
// all changes.
func TestPostgresSilence(t *testing.T) {
	t.Parallel()
	p := pgtest.Server(t)
	db := p.Database(t)
	name := db[strings.LastIndex(db, "/")+1:]
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	wire := startProxy(t, u.Host)
	u.Host = wire.addr
	p.Exec(t, db, `CREATE TABLE a (id int PRIMARY KEY, v text)`)
	sink := startChangeSink(t)
	dir := t.TempDir()
	text := strings.Replace(fmt.Sprintf(postgresRelay, u, name, sink.URL), "ack_interval: 50ms", "timeout: 1s", 1)
	f := start(t, dir, "-c", write(t, dir, "relay.yaml", text))
	f.Says("reading changes")
	wire.silence()
	p.Exec(t, db, `INSERT INTO a SELECT i, 'x' FROM generate_series(1, 100) i`)
	f.Says("the server has been silent for")
	wire.cut()
	wire.endSilence()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n, end := 0, time.After(deadline); n < 100; _, n = sink.count() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%d changes have arrived after %s", n, deadline)
		}
	}
	f.Signal(syscall.SIGTERM)
	f.Wait().Want(t, 0)
	if all, _ := sink.count(); all != 100 {
		t.Errorf("%d messages, want 100", all)
	}
}

// The guide's pipeline reports changes of a table's columns.
func TestPostgresReportsColumns(t *testing.T) {
	t.Parallel()
	p := pgtest.Server(t)
	db := p.Database(t)
	p.Exec(t, db, `CREATE TABLE orders (id int PRIMARY KEY)`, `INSERT INTO orders VALUES (1)`)
	blocks := yamlBlock.FindAllStringSubmatch(read(t, repo, "docs", "postgres.md"), -1)
	config := strings.Replace(blocks[1][1], "postgres://db.example.org/shop", db, 1)
	config = strings.Replace(config, "slot: flowd_columns", "slot: "+"columns_"+strings.ReplaceAll(db[strings.LastIndexByte(db, '/')+1:], "-",
		"_"), 1)
	dir := t.TempDir()
	run := start(t, dir, "-c", write(t, dir, "p.yaml", config))
	run.Says("read the snapshot")
	p.Exec(t, db, `INSERT INTO orders VALUES (2)`, `ALTER TABLE orders ADD tags text[]`, `INSERT INTO orders VALUES (3)`,
		`INSERT INTO orders VALUES (4)`,
		`ALTER TABLE orders ALTER id TYPE bigint`, `INSERT INTO orders VALUES (5)`)
	for _, want := range []string{`{"table":"orders","columns":{"id":"integer","tags":"text[]"}}`,
		`{"table":"orders","columns":{"id":"bigint","tags":"text[]"}}`} {
		if got := run.Line(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	run.Signal(syscall.SIGTERM)
	run.Wait().Want(t, 0)
}
