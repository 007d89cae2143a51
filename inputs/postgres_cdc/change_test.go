package postgrescdc

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
	"github.com/google/go-cmp/cmp"
)

// everything creates a table with a column of each type, and rows with difficult values.
const everything = `CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN cents AS int8 CHECK (value >= 0);
CREATE TYPE pair AS (a int, b text);
CREATE TABLE everything (id int8 PRIMARY KEY, s int2, i int4, n numeric, f4 float4, f8 float8, b bool, t text, c char(3),
 v varchar, u uuid, j json, jb jsonb, by bytea, ts timestamp, tz timestamptz, d date, ti time, iv interval, m mood, ce cents,
 p pair, ia int[], ta text[], tza timestamptz[], jba jsonb[], ca cents[], ip inet, r int4range, mo money, o oid,
 g int8 GENERATED ALWAYS AS (id + 1) STORED)`

const values = `INSERT INTO everything VALUES (9223372036854775806, -32768, 2147483647, 12345678901234567890.12345678901234567890,
 1.5, 0.1, true, E'tab\t"quote" \\ \u2603', 'ab', '', '00112233-4455-6677-8899-aabbccddeeff', E'{"a":\n 1.50}', '{"b": [1, null]}',
 '\x00ff', '2026-01-31 12:00:00.123456', '2026-01-31 12:00:00.5+02', '2026-01-31', '12:00:00', '1 day 2 hours', 'sad', 7,
 '(1,x)', '{{1,2},{3,NULL}}', '{a,"b c",NULL,"NULL"}', '{2026-01-31 12:00:00+00}', '{"{\"a\": 1}"}', '{1,2}', '10.0.0.1/8',
 '[1,5)', '12.50', 26);
INSERT INTO everything (id, n, f4, f8, tz, ts, t) VALUES (1, 'NaN', 'Infinity', '-Infinity', 'infinity', '0044-03-15 12:00:00 BC', NULL)`

const wanted = `{"id":9223372036854775806,"s":-32768,"i":2147483647,"n":12345678901234567890.12345678901234567890,"f4":1.5,` +
	`"f8":0.1,"b":true,"t":"tab\t\"quote\" \\ ☃","c":"ab ","v":"","u":"00112233-4455-6677-8899-aabbccddeeff",` +
	`"j":{"a":1.50},"jb":{"b": [1, null]},"by":"AP8=","ts":"2026-01-31T12:00:00.123456","tz":"2026-01-31T10:00:00.5Z",` +
	`"d":"2026-01-31","ti":"12:00:00","iv":"P1DT2H","m":"sad","ce":7,"p":"(1,x)","ia":[[1,2],[3,null]],` +
	`"ta":["a","b c",null,"NULL"],"tza":["2026-01-31T12:00:00Z"],"jba":[{"a": 1}],"ca":[1,2],"ip":"10.0.0.1/8","r":"[1,5)",` +
	`"mo":"$12.50","o":26}`

const odd = `"n":"NaN","f4":"Infinity","f8":"-Infinity",`

// after returns the text of a message from the value of a field on.
func after(body, field string) string {
	_, rest, _ := strings.Cut(body, `"`+field+`":`)
	return rest
}

// A row is the same document in the snapshot and as a change, and keeps all of its values.
func TestEveryType(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, everything, values)
	for _, s := range []string{"TimeZone = 'Asia/Tokyo'", "DateStyle = 'German'", "IntervalStyle = 'sql_standard'",
		"bytea_output = 'escape'", "extra_float_digits = 0", "statement_timeout = '1ms'"} {
		d.exec(t, "ALTER DATABASE "+d.slot+" SET "+s) // none of which flowd is to go by
	}
	r := start(t, d.config(), &enginetest.Sink{})
	r.has(2)
	r.ready()
	const own = "options=-c%20statement_timeout%3D0%20-c%20TimeZone%3DUTC" // from the connection's beginning
	d.Exec(t, d.url+map[bool]string{true: "&", false: "?"}[strings.Contains(d.url, "?")]+own, "DELETE FROM everything", values)
	bodies := r.has(6)
	for _, i := range []int{0, 4} {
		if got := after(bodies[i], "after"); !strings.HasPrefix(got, wanted+`,"lsn":"`) {
			t.Errorf("message %d:\n%s\nwant\n%s", i, got, wanted)
		}
	}
	for _, i := range []int{1, 5} {
		got := after(bodies[i], "after")
		for _, want := range []string{odd, `"t":null`, `"tz":"infinity"`, `"ts":"0044-03-15 12:00:00 BC"`} {
			if !strings.Contains(got, want) {
				t.Errorf("message %d lacks %s:\n%s", i, want, got)
			}
		}
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, `CREATE TABLE a (id int PRIMARY KEY, v text, big text);
ALTER TABLE a ALTER big SET STORAGE EXTERNAL`, `CREATE TABLE f (id int PRIMARY KEY, v text, big text);
ALTER TABLE f REPLICA IDENTITY FULL; ALTER TABLE f ALTER big SET STORAGE EXTERNAL`, `CREATE TABLE n (v int)`,
		`CREATE TABLE i (x int NOT NULL, y int); CREATE UNIQUE INDEX ix ON i (x); ALTER TABLE i REPLICA IDENTITY USING INDEX ix`,
		`CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10); CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)`,
		`CREATE TABLE unread (id int)`, `INSERT INTO p VALUES (1, 'old'), (11, 'old')`)
	cfg := d.config()
	cfg.Tables = []string{"public.a", "public.f", "public.n", "public.i", "public.p"}
	r := start(t, cfg, &enginetest.Sink{})
	r.has(2)
	r.ready()
	big := "repeat('x', 10000)"
	d.exec(t, `BEGIN; INSERT INTO a VALUES (1, 'x', `+big+
		`); UPDATE a SET v = 'y'; UPDATE a SET id = 2; UPDATE a SET id = 3, big = 's'; DELETE FROM a; COMMIT`,
		`INSERT INTO f VALUES (1, 'x', `+big+`)`, `UPDATE f SET v = 'y', big = 's'`, `UPDATE f SET id = 2`, `DELETE FROM f`,
		`INSERT INTO unread VALUES (1)`, `INSERT INTO n VALUES (1)`, `INSERT INTO i VALUES (1, 2)`, `UPDATE i SET y = 3`,
		`INSERT INTO p VALUES (12, 'z')`, `UPDATE p SET v = 'w' WHERE id = 1`, `TRUNCATE n, i`)
	text := `"` + strings.Repeat("x", 10000) + `"`
	want := []string{
		`read p ->{"id":1,"v":"old"}`, `read p ->{"id":11,"v":"old"}`,
		`insert a ->{"big":` + text + `,"id":1,"v":"x"}`, `update a ->{"id":1,"v":"y"} !big`,
		`key_change a {"id":1}>{"id":2,"v":"y"} !big`, `delete a {"id":2}>- →{"id":3}`,
		`insert a ->{"big":"s","id":3,"v":"y"} {"id":2}→`, `delete a {"id":3}>-`,
		`insert f ->{"big":` + text + `,"id":1,"v":"x"}`,
		`update f {"big":` + text + `,"id":1,"v":"x"}>{"big":"s","id":1,"v":"y"}`,
		`delete f {"big":"s","id":1,"v":"y"}>- →{"id":2}`, `insert f ->{"big":"s","id":2,"v":"y"} {"id":1}→`,
		`delete f {"big":"s","id":2,"v":"y"}>-`,
		`insert n ->{"v":1}`, `insert i ->{"x":1,"y":2}`, `update i ->{"x":1,"y":3}`,
		`insert p ->{"id":12,"v":"z"}`, `update p ->{"id":1,"v":"w"}`, `truncate i ->-`, `truncate n ->-`,
	}
	got := shorts(t, r.has(len(want)))
	slices.Sort(got[len(got)-2:])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"updates can lack large values", `tables="public.a, public.p" count=2`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, r.log.String())
		}
	}
	var keys []any
	for _, w := range r.sink.Writes() {
		for i, m := range w.Metas {
			keys = append(keys, m["key"])
			if d := docs(t, w.Bodies[i:i+1])[0]; m["op"] != d.Op || m["table"] != d.Table || m["lsn"] != d.LSN || m["schema"] != "public" {
				t.Errorf("metadata %v of %s", m, w.Bodies[i])
			}
		}
	}
	wantKeys := []any{`{"id":1}`, `{"id":11}`, `{"id":1}`, `{"id":1}`, `{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":3}`, `{"id":1}`, `{"id":1}`,
		`{"id":1}`, `{"id":2}`, `{"id":2}`, `{}`, `{"x":1}`, `{"x":1}`, `{"id":12}`, `{"id":1}`, nil, nil}
	if diff := cmp.Diff(wantKeys, keys); diff != "" {
		t.Error(diff)
	}
}

// A value that an update does not send is copied from the row before it, if the server sent that row.
func TestFullIdentityHasUnchangedValues(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, `CREATE TABLE f (id int PRIMARY KEY, v text, big text); ALTER TABLE f REPLICA IDENTITY FULL;
ALTER TABLE f ALTER big SET STORAGE EXTERNAL`)
	cfg := d.config()
	cfg.Snapshot = "never"
	r := start(t, cfg, &enginetest.Sink{})
	r.ready()
	d.exec(t, `INSERT INTO f VALUES (1, 'x', repeat('x', 5000))`, `UPDATE f SET v = 'y'`)
	if got := docs(t, r.has(2))[1]; len(got.Unchanged) > 0 || len(got.After["big"]) != 5002 || len(got.Before["big"]) != 5002 {
		t.Errorf("got %s", got.short())
	}
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, `CREATE TABLE a (id int PRIMARY KEY)`)
	cfg := d.config()
	cfg.Transactions = true
	r := start(t, cfg, &enginetest.Sink{})
	r.ready()
	d.exec(t, `BEGIN; INSERT INTO a VALUES (1); INSERT INTO a VALUES (2); COMMIT`, `INSERT INTO a VALUES (3)`)
	all := docs(t, r.has(7))
	var ops []string
	var metas []map[string]any
	for _, w := range r.sink.Writes() {
		metas = append(metas, w.Metas...)
	}
	for i, d := range all {
		ops = append(ops, d.Op)
		if d.XID != metas[i]["xid"] || d.XID == 0 || d.LSN == "" || d.CommitTime == "" {
			t.Errorf("%d: %+v, metadata %v", i, d, metas[i])
		}
	}
	if want := []string{"begin", "insert", "insert", "commit", "begin", "insert", "commit"}; !slices.Equal(ops, want) {
		t.Errorf("got %v, want %v", ops, want)
	}
	if all[3].Changes != 2 || all[0].XID != all[3].XID || all[0].LSN != all[2].LSN || all[4].XID == all[0].XID {
		t.Errorf("transactions are not told apart: %+v", all)
	}
	for i, want := range map[int][2]any{1: {1, false}, 2: {2, true}, 5: {1, true}} {
		if got := [2]any{metas[i]["position"], metas[i]["last"]}; got != want || all[i].Position != want[0] {
			t.Errorf("message %d: position and last %v, want %v", i, got, want)
		}
	}
}

// Added, dropped and altered columns take effect with the first change after them.
func TestTheTableChanges(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, `CREATE TABLE a (id int PRIMARY KEY, v text)`, `INSERT INTO a VALUES (1, 'x')`)
	r := start(t, d.config(), &enginetest.Sink{})
	r.ready()
	d.exec(t, `INSERT INTO a VALUES (2, 'y')`, `ALTER TABLE a ADD w jsonb DEFAULT '{}'`, `INSERT INTO a VALUES (3, 'z')`,
		`ALTER TABLE a DROP v`, `INSERT INTO a VALUES (4)`, `CREATE TYPE mood AS ENUM ('ok')`, `ALTER TABLE a ADD m mood[]`,
		`INSERT INTO a VALUES (5, NULL, '{ok}')`, `ALTER TABLE a RENAME TO b`, `INSERT INTO b VALUES (6)`)
	want := []string{`read a ->{"id":1,"v":"x"}`, `insert a ->{"id":2,"v":"y"}`, `insert a ->{"id":3,"v":"z","w":{}}`,
		`insert a ->{"id":4,"w":{}}`, `insert a ->{"id":5,"m":["ok"],"w":null}`, `insert b ->{"id":6,"m":null,"w":{}}`}
	if diff := cmp.Diff(want, shorts(t, r.has(len(want)))); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(r.log.String(), "a table has changed"); n != 4 {
		t.Errorf("the log tells of %d changes, want 4:\n%s", n, r.log.String())
	}
}

// A role without permission to create publications reads one of another role. Its column lists and row filters apply to the
// snapshot as well as to changes.
func TestAPublicationWithFilters(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, `CREATE TABLE a (id int PRIMARY KEY, v text, hidden text)`,
		`INSERT INTO a SELECT i, 'v', 'secret' FROM generate_series(1, 4) i`,
		`CREATE PUBLICATION chosen FOR TABLE a (id, v) WHERE (id % 2 = 0)`)
	role := "role_" + d.slot
	d.exec(t, `CREATE ROLE `+role+` LOGIN REPLICATION PASSWORD 'x'`, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO `+role)
	t.Cleanup(func() { d.exec(t, `DROP OWNED BY `+role, `DROP ROLE `+role) })
	cfg := d.config()
	cfg.Publication = "chosen"
	cfg.DSN = edited(t, d.url, func(u *url.URL) {
		u.User, u.RawQuery = url.UserPassword(role, "x"), "target_session_attrs=primary"
	})
	r := start(t, cfg, &enginetest.Sink{})
	r.ready()
	d.exec(t, `INSERT INTO a SELECT i, 'v', 'secret' FROM generate_series(5, 8) i`)
	want := []string{`read a ->{"id":2,"v":"v"}`, `read a ->{"id":4,"v":"v"}`, `insert a ->{"id":6,"v":"v"}`, `insert a ->{"id":8,"v":"v"}`}
	if diff := cmp.Diff(want, shorts(t, r.has(4))); diff != "" {
		t.Error(diff)
	}
}

func TestAServerDescribesTablesWithoutEnd(t *testing.T) {
	in, err := newInput(defaults, engine.Env{})
	if err != nil {
		t.Fatal(err)
	}
	m := &pgoutput.Message{Kind: pgoutput.Relation, Namespace: "public", Name: "t", Identity: 'd', Columns: make([]pgoutput.Column, 999)}
	cdc := in.(*input)
	for i := range 1100 { // of which it describes the first ones again
		if m.ID = uint32(max(0, i-100)); err != nil {
			t.Fatalf("table %d: %v", m.ID, err)
		}
		err = cdc.describe(t.Context(), m)
	}
	if m.ID++; err == nil {
		err = cdc.describe(t.Context(), m)
	}
	if err == nil || !strings.Contains(err.Error(), "more than 1000000 columns") || m.ID != 1000 {
		t.Fatalf("table %d: got error %v", m.ID, err)
	}
	if err := cdc.describe(t.Context(), m); err != nil {
		t.Error(err)
	}
}
