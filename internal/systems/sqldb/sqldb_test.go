package sqldb

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/testing/mariadbtest"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/flowd-io/flowd/schema"
)

// database returns the configuration of a new database.
func database(t *testing.T, driver string) *Config {
	t.Helper()
	c := Defaults
	c.Driver = driver
	switch driver {
	case "postgres":
		c.DSN = schema.NewSecret(pgtest.Database(t))
	case "mariadb":
		c.DSN = schema.NewSecret(mariadbtest.Database(t))
	default:
		c.DSN = schema.NewSecret(filepath.Join(t.TempDir(), "test.db"))
	}
	return &c
}

// connect opens a database, and returns a connection for the test.
func connect(t *testing.T, c *Config) Conn {
	t.Helper()
	db, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Release()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func exec(t *testing.T, conn Conn, query string, args ...Value) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), query, args); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// documents returns the rows of a query.
func documents(t *testing.T, conn Conn, query string, args ...Value) (all []string) {
	t.Helper()
	rows, err := conn.Query(t.Context(), query, args)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		row, err := rows.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(row) {
			t.Errorf("%s is not JSON", row)
		}
		all = append(all, string(row))
	}
	if rows.Err() != nil {
		t.Fatalf("%s: %v", query, rows.Err())
	}
	return all
}

// Values that are written are read back unchanged.
func TestValuesAreExactBothWays(t *testing.T) {
	type value struct{ column, in, want string } // an empty want means the same as in
	tests := map[string][]value{
		"postgres": {
			{"numeric", `12345678901234567890.12345678901234567890`, ""}, {"numeric(10,2)", `12.50`, ""},
			{"numeric", `"NaN"`, ""}, {"int8", `9223372036854775807`, ""}, {"int4", `1e3`, `1000`}, {"int2", `-5.0`, `-5`},
			{"float8", `0.1`, ""}, {"float8", `"Infinity"`, ""}, {"float4", `1.5`, ""}, {"float4", `4294967296`, ""}, {"float8", `1e300`, `1e+300`},
			{"boolean", `true`, ""}, {"text", `"a\"\\\n\té\u0001"`, ""}, {"text", `12.50`, `"12.50"`}, {"text", `""`, ""},
			{"text", `{"a": 1}`, `"{\"a\": 1}"`}, {"bytea", `"hé"`, `"aMOp"`}, {"bytea", `""`, ""},
			{"json", `{"b": 1.0,  "a": [1]}`, ""}, {"jsonb", `{"b": 1.0, "a": [12345678901234567890.5]}`,
				`{"a": [12345678901234567890.5], "b": 1.0}`},
			{"json", `"text"`, ""}, {"jsonb", `"{}"`, ""}, {"json", `5`, ""}, {"jsonb", `null`, ""},
			{"timestamptz", `"2026-01-31T12:00:00.123456+02:00"`, `"2026-01-31T10:00:00.123456Z"`},
			{"timestamp", `"2026-01-31T12:00:00.5"`, ""}, {"timestamptz", `"infinity"`, ""}, {"date", `"2026-01-31"`, ""},
			{"timestamp", `"2024-03-31T02:30:00+02:00"`, `"2024-03-31T00:30:00"`}, {"timestamp", `"2024-03-31 02:30:00.25-0330"`,
				`"2024-03-31T06:00:00.25"`},
			{"timestamp", `"2024-03-31 02:30+02"`, `"2024-03-31T00:30:00"`}, {"timestamp[]", `["2024-03-31T00:30:00Z",null]`,
				`["2024-03-31T00:30:00",null]`},
			{"timestamp", `"2024-03-31 02:30:00.123456"`, `"2024-03-31T02:30:00.123456"`}, {"date", `"2024-03-31T00:30:00+02:00"`, `"2024-03-30"`},
			{"time", `"2024-03-31T00:30:00+02:00"`, `"22:30:00"`}, {"text", `"2024-03-31T02:30:00+02:00"`, ""},
			{"time", `"12:30:00"`, ""}, {"interval", `"1 day 02:00"`, `"P1DT2H"`},
			{"uuid", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, ""}, {"inet", `"10.0.0.0/8"`, ""}, {"mood", `"sad"`, ""},
			{"int4[]", `[1,null,3]`, ""}, {"text[]", `["a,b","","NULL","\"\\",null]`, ""}, {"int4[]", `[[1,2],[3,4]]`, ""},
			{"int4[]", `[]`, ""}, {"numeric[]", `[1.50,12345678901234567890]`, ""}, {"bytea[]", `["a"]`, `["YQ=="]`},
			{"jsonb[]", `[{"a": [1]},"x"]`, ""}, {"bool[]", `[true,false]`, ""}, {"timestamptz[]", `["2026-01-31T12:00:00Z"]`, ""},
			{"mood[]", `["sad",null]`, ""}, {"amount", `7.50`, ""}, {"labels", `["x"]`, ""}, {"char(3)", `"a"`, `"a  "`},
		},
		"mariadb": {
			{"decimal(40,20)", `12345678901234567890.12345678901234567890`, ""}, {"decimal(10,2)", `12.50`, ""},
			{"bigint", `9223372036854775807`, ""}, {"bigint unsigned", `18446744073709551615`, ""}, {"int", `1e3`, `1000`},
			{"double", `0.1`, ""}, {"float", `1.5`, ""}, {"float", `4294967296`, ""}, {"boolean", `true`, `1`}, {"bit(9)", `"\u0001A"`, `321`},
			{"text", `"a\"\\\n\té🙂'"`, ""}, {"varchar(20)", `12.50`, `"12.50"`}, {"blob", `"hé"`, `"aMOp"`}, {"text", `""`, ""},
			{"varbinary(9)", `""`, ""}, {"json", `{"b": 1.0,  "a": [1]}`, `"{\"b\": 1.0,  \"a\": [1]}"`},
			{"datetime(6)", `"2026-01-31T12:00:00.123456+02:00"`, `"2026-01-31T10:00:00.123456"`},
			{"timestamp(3)", `"2026-01-31T12:00:00.5Z"`, `"2026-01-31T12:00:00.500Z"`}, {"date", `"2026-01-31"`, ""},
			{"time", `"-12:30:00"`, ""}, {"enum('a','b')", `"b"`, ""}, {"year", `2026`, ""}, {"uuid", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, ""},
			{"inet6", `"::1"`, ""}, {"int", `null`, ""},
		},
		"sqlite": {
			{"integer", `9223372036854775807`, ""}, {"text", `12345678901234567890.12345678901234567890`,
				`"12345678901234567890.12345678901234567890"`},
			{"text", `12.50`, `"12.50"`}, {"real", `0.1`, ""}, {"numeric", `12.50`, `12.5`}, {"boolean", `true`, ""},
			{"text", `"a\"\\\n\té\u0001"`, ""}, {"json", `{"b": 1.0,  "a": [1]}`, ""}, {"json", `"text"`, ""},
			{"datetime", `"2026-01-31T12:00:00.5+02:00"`, ""}, {"date", `"2026-01-31"`, ""}, {"datetime", `"2026-01-31 12:00:00"`, ""},
			{"timestamp", `"2026-01-31"`, ""}, {"date", `"2026-01-31T12:00:00+02:00"`, ""}, {"Timestamp", `"2026-01-31T12:00"`, ""}, {"", `null`,
				""}, {"text", `""`, ""},
		},
	}
	for driver, values := range tests {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := database(t, driver)
			conn := connect(t, c)
			if c.Postgres() {
				exec(t, conn, "CREATE TYPE mood AS ENUM ('sad', 'ok')")
				exec(t, conn, "CREATE DOMAIN amount AS numeric(10,2)")
				exec(t, conn, "CREATE DOMAIN labels AS text[]")
			}
			mark := map[bool]string{true: "$1", false: "?"}[c.Postgres()]
			for i, v := range values {
				table := fmt.Sprint("t", i)
				exec(t, conn, "CREATE TABLE "+table+" (v "+v.column+")")
				types, err := conn.Types(t.Context(), table, []string{"v"}, false)
				if err != nil {
					t.Fatal(err)
				}
				value := OfJSON([]byte(v.in))
				if types != nil {
					if value, err = types.Fit(0, value); err != nil {
						t.Fatal(err)
					}
				}
				exec(t, conn, "INSERT INTO "+table+" VALUES ("+mark+")", value)
				if v.want == "" {
					v.want = v.in
				}
				if got := documents(t, conn, "SELECT v FROM "+table)[0]; got != `{"v":`+v.want+`}` {
					t.Errorf("%s in %s became %s, want %s", v.in, v.column, got, v.want)
				}
			}
		})
	}
}

func TestBytesAndTimesOfExpressions(t *testing.T) {
	for _, driver := range []string{"postgres", "mariadb", "sqlite"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := database(t, driver)
			conn := connect(t, c)
			marks, kinds := "(?, ?)", "(b blob, t datetime)"
			if c.Postgres() {
				marks, kinds = "($1, $2)", "(b bytea, t timestamptz)"
			}
			exec(t, conn, "CREATE TABLE t "+kinds)
			exec(t, conn, "INSERT INTO t VALUES "+marks, Value{Bytes, []byte{0, 0xff}},
				Value{Time, []byte("2026-01-31T12:00:00+02:00")})
			got := documents(t, conn, "SELECT b, t FROM t")[0]
			want := map[string]string{"postgres": "10:00:00Z", "mariadb": "10:00:00", "sqlite": "12:00:00+02:00"}[driver]
			if got != `{"b":"AP8=","t":"2026-01-31T`+want+`"}` {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestATimeZoneNameIsRefused(t *testing.T) {
	t.Parallel()
	conn := connect(t, database(t, "postgres"))
	exec(t, conn, "CREATE TABLE t (v timestamp)")
	_, err := conn.Exec(t.Context(), "INSERT INTO t VALUES ($1)", []Value{{Text, []byte("2024-03-31 02:30:00 Europe/Rome")}})
	if e := engine.ErrorOf(err, engine.Transient); err == nil || e.Class != engine.Rejected {
		t.Errorf("got %v, want a rejected message", err)
	}
	exec(t, conn, "INSERT INTO t VALUES ($1)", Value{Text, []byte("0044-03-15 12:00:00 BC")})
}

// A document can't contain bytes that are not UTF-8, and a column can't contain a lone surrogate.
func TestTextThatIsNotUTF8(t *testing.T) {
	for driver, expression := range map[string]string{"sqlite": "CAST(x'61ff' AS TEXT)"} {
		conn := connect(t, database(t, driver))
		rows, err := conn.Query(t.Context(), "SELECT "+expression+" AS v", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		rows.Next()
		if text, err := rows.Append(nil); err == nil || !strings.Contains(err.Error(), "column v has text that is not UTF-8") {
			t.Errorf("%s: %s, %v", driver, text, err)
		}
	}
	for src, want := range map[string]string{`raw()`: "\xff", `a`: ""} {
		e, err := expr.Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		for m := range enginetest.Batch(map[string]string{"raw()": "\xff", "a": `{"a":"\ud800"}`}[src]).All() {
			v, err := ValueOf(&expr.Value{Expr: e}, m)
			if want != "" && (v.Kind != Bytes || string(v.Text) != want || err != nil) {
				t.Errorf("%s is %v, %v", src, v, err)
			}
			if want == "" && (err == nil || engine.ErrorOf(err, "").Class != engine.Permanent) {
				t.Errorf("%s is %v, %v", src, v, err)
			}
		}
	}
}

func TestMariaDBRoundsNothing(t *testing.T) {
	t.Parallel()
	conn := connect(t, database(t, "mariadb"))
	exec(t, conn, "CREATE TABLE t (i int, u bigint unsigned, f float, d decimal(9,2))")
	types, err := conn.Types(t.Context(), "t", []string{"i", "u", "f", "d"}, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, number := range []string{"1.5", "1e-50", "1e-50"} {
		if _, err := types.Fit(i, Value{Number, []byte(number)}); err == nil || engine.ErrorOf(err, engine.Transient).Class != engine.Rejected {
			t.Errorf("column %d: %v, want %s to be refused", i, err, number)
		}
	}
	for i, number := range []string{"1.50e1", "18446744073709551615", "1e-40", "1.5"} {
		if _, err := types.Fit(i, Value{Number, []byte(number)}); err != nil {
			t.Errorf("column %d: %v", i, err)
		}
	}
}

func TestANumberThatWouldBeZeroIsRefused(t *testing.T) {
	for driver, kind := range map[string]string{"mariadb": "double", "sqlite": "real"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, database(t, driver))
			exec(t, conn, "CREATE TABLE t (v "+kind+")")
			for _, number := range []string{"1e-400", "1e400"} {
				_, err := conn.Exec(t.Context(), "INSERT INTO t VALUES (?)", []Value{{Number, []byte(number)}})
				if e := engine.ErrorOf(err, engine.Transient); err == nil || e.Class != engine.Rejected {
					t.Errorf("%s: %v, want a rejected message", number, err)
				}
			}
		})
	}
}

// Rows of an insert with several rows, and of COPY, are converted to the types of their columns.
func TestManyRowsHaveTheirTypes(t *testing.T) {
	t.Parallel()
	conn := connect(t, database(t, "postgres"))
	exec(t, conn, "CREATE TABLE t (id int, b bytea, j jsonb, s text, l text[])")
	columns := []string{"id", "b", "j", "s", "l"}
	row := func(id, text string) []Value {
		all := []Value{{Number, []byte(id)}}
		for range 3 {
			all = append(all, Value{Text, []byte(text)})
		}
		return append(all, OfJSON([]byte(`["a\tb",null]`)))
	}
	rows := [][]Value{row("1", `x\.\N`), row("2e0", "a\tb\nc\r"), row("3", ""), {{}, {}, {}, {}, {}}}
	const into = "INSERT INTO t VALUES "
	like := into + "($1, $2, $3, $4, $5)"
	var args []Value
	for _, r := range rows[:2] {
		args = append(args, r...)
	}
	if err := conn.(Inserter).Insert(t.Context(), like, like+", ($6, $7, $8, $9, $10)", args); err != nil {
		t.Fatal(err)
	}
	inserted := documents(t, conn, "SELECT * FROM t ORDER BY id")
	if want := `{"id":1,"b":"eFwuXE4=","j":"x\\.\\N","s":"x\\.\\N","l":["a\tb",null]}`; inserted[0] != want {
		t.Errorf("got %s, want %s", inserted[0], want)
	}
	exec(t, conn, "DELETE FROM t")
	if err := conn.(Copier).Copy(t.Context(), "t", columns, rows); err != nil {
		t.Fatal(err)
	}
	copied := documents(t, conn, "SELECT * FROM t ORDER BY id")
	if len(copied) != 4 || copied[0] != inserted[0] || copied[1] != inserted[1] ||
		copied[2] != `{"id":3,"b":"","j":"","s":"","l":["a\tb",null]}` ||
		copied[3] != `{"id":null,"b":null,"j":null,"s":null,"l":null}` {
		t.Errorf("got %s, inserted %s", copied, inserted)
	}
}

func TestErrorsAreClassed(t *testing.T) {
	type fault struct {
		name, statement string
		class           engine.Class
		holds           bool
		want            string
	}
	setup := []string{"CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, s varchar(3), CHECK (n < 100))",
		"INSERT INTO t VALUES (1, 1, 'a')"}
	common := []fault{
		{"a duplicate key", "INSERT INTO t VALUES (1, 2, 'b')", engine.Rejected, false, ""},
		{"a missing value", "INSERT INTO t (id) VALUES (2)", engine.Rejected, false, ""},
		{"a check", "INSERT INTO t VALUES (2, 100, 'b')", engine.Rejected, false, ""},
		{"no such table", "INSERT INTO u VALUES (1)", engine.Transient, true, "create it"},
		{"no such column", "SELECT x FROM t", engine.Transient, true, "create it"},
		{"not SQL", "INSRT t", engine.Permanent, false, ""},
	}
	more := map[string][]fault{
		"postgres": {
			{"a type that does not fit", "INSERT INTO t VALUES (2, $1, 'b')", engine.Rejected, false, "SQLSTATE 22P02"},
			{"a text that is too long", "INSERT INTO t VALUES (2, 2, 'abcd')", engine.Rejected, false, "22001"},
			{"a number out of range", "INSERT INTO t VALUES (2, 99999999999, 'b')", engine.Rejected, false, "22003"},
			{"two columns of one name", "SELECT 1 AS a, 2 AS a", engine.Permanent, false, "with AS"},
			{"read only", "BEGIN READ ONLY; INSERT INTO t VALUES (5, 5, 'a')", engine.Transient, true, "25006"},
		},
		"mariadb": {
			{"a type that does not fit", "INSERT INTO t VALUES (2, ?, 'b')", engine.Rejected, false, "error 1366"},
			{"a text that is too long", "INSERT INTO t VALUES (2, 2, 'abcd')", engine.Rejected, false, "1406"},
			{"a number out of range", "INSERT INTO t VALUES (2, 99999999999, 'b')", engine.Rejected, false, "1264"},
		},
		"sqlite": {{"a type that does not fit", "INSERT INTO r VALUES (?)", engine.Rejected, false, ""}},
	}
	for driver, own := range more {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, database(t, driver))
			for _, s := range append(setup, "CREATE TABLE r (n integer PRIMARY KEY)") {
				exec(t, conn, s)
			}
			for _, f := range append(own, common...) {
				var args []Value
				if strings.Contains(f.statement, "$1") || strings.Contains(f.statement, "?") {
					args = []Value{{Text, []byte("many")}}
				}
				err := try(t, conn, f.statement, args)
				var e *engine.Error
				if !errors.As(err, &e) || e.Class != f.class || e.Holds != f.holds || !strings.Contains(err.Error(), f.want) {
					t.Errorf("%s: got %#v %v, want class %s, holds %t, %q", f.name, e, err, f.class, f.holds, f.want)
				}
				_ = try(t, conn, "ROLLBACK", nil)
			}
		})
	}
}

func try(t *testing.T, conn Conn, statement string, args []Value) error {
	t.Helper()
	if !strings.HasPrefix(statement, "SELECT") {
		_, err := conn.Exec(t.Context(), statement, args)
		return err
	}
	rows, err := conn.Query(t.Context(), statement, args)
	if err != nil {
		return err
	}
	defer rows.Close()
	rows.Next()
	return rows.Err()
}

func TestAPostgreSQLServerThatAnswersSomethingElse(t *testing.T) {
	c := Defaults
	c.Driver, c.DSN = postgres, schema.NewSecret(pgtest.Fake(t, 1, 3))
	conn := connect(t, &c)
	rows, err := conn.Query(t.Context(), "SELECT a", nil)
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	if _, err := rows.Append(nil); err == nil || !strings.Contains(err.Error(), "a row of 3 columns, but has described 1") {
		t.Errorf("got error %v", err)
	}
	rows.Close()
	value := Value{Text, []byte("x")}
	if err := conn.(Inserter).Insert(t.Context(), "INSERT", "INSERT 2", []Value{value}); err != errParameters {
		t.Errorf("got error %v", err)
	}
	if err := conn.(Copier).Copy(t.Context(), "t", []string{"a"}, [][]Value{{value}}); err != errParameters {
		t.Errorf("got error %v", err)
	}
}

// A database file from somebody else is not trusted.
func TestAnUntrustedFile(t *testing.T) {
	c := database(t, "sqlite")
	c.MaxRow = 64 << 10
	conn := connect(t, c)
	if got := documents(t, conn, "PRAGMA trusted_schema"); got[0] != `{"trusted_schema":0}` {
		t.Errorf("the schema of the file is trusted: %s", got[0])
	}
	if got := documents(t, conn, "PRAGMA busy_timeout"); got[0] != `{"timeout":10000}` {
		t.Errorf("got %s", got[0])
	}
	exec(t, conn, "CREATE VIEW bomb AS SELECT zeroblob(100000) AS b")
	rows, err := conn.Query(t.Context(), "SELECT b FROM bomb", nil)
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	defer rows.Close()
	if _, err := rows.Append(nil); engine.ErrorOf(err, "?").Class != engine.TooLarge || !strings.Contains(err.Error(),
		"max_row, 64KiB (raise max_row") {
		t.Errorf("got error %v", err)
	}
}

func TestNoConnection(t *testing.T) {
	pg := database(t, "postgres")
	my := database(t, "mariadb")
	tests := []struct {
		name, driver, dsn string
		class             engine.Class
		holds             bool
		want              string
	}{
		{"nobody listens", "postgres", "postgres://u:p@127.0.0.1:1/d", engine.Transient, true, "refused"},
		{"nobody listens", "mariadb", "u:p@tcp(127.0.0.1:1)/d", engine.Transient, true, "refused"},
		{"a wrong password", "postgres", strings.Replace(pg.DSN.Reveal(), "flowd:flowd@", "flowd:guess@", 1), engine.Auth, true, "28P01"},
		{"a wrong user", "mariadb", strings.Replace(my.DSN.Reveal(), "root@", "nobody:guess@", 1), engine.Auth, true, "1045"},
		{"no such database", "postgres", pg.DSN.Reveal() + "_none", engine.Transient, true, "3D000"},
		{"no such database", "mariadb", strings.Replace(my.DSN.Reveal(), "/flowd", "/none_flowd", 1), engine.Transient, true, "1049"},
		{"no such folder", "sqlite", filepath.Join(t.TempDir(), "none", "x.db"), engine.Transient, true,
			"(14) (the folder of the file in dsn must exist"},
		{"no TLS there", "postgres", pg.DSN.Reveal() + "?sslmode=require", engine.Transient, true, "TLS"},
		{"no TLS, which tls asks for", "postgres", pg.DSN.Reveal() + "?sslmode=disable", engine.Transient, true, "TLS"},
		{"no TLS, which tls asks for", "mariadb", my.DSN.Reveal(), engine.Transient, true, "TLS"},
	}
	for _, tt := range tests {
		t.Run(tt.driver+": "+tt.name, func(t *testing.T) {
			c := Defaults
			c.Driver, c.DSN = tt.driver, schema.NewSecret(tt.dsn)
			if strings.Contains(tt.name, "tls") {
				c.TLS = &tlsconf.Client{}
			}
			db, err := c.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			conn, err := db.Conn(t.Context())
			if err == nil {
				_, err = conn.Exec(t.Context(), "SELECT 1", nil)
				conn.Release()
			}
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class || e.Holds != tt.holds || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %#v %v", e, err)
			}
			if err != nil && strings.Contains(err.Error(), "guess") {
				t.Errorf("the error has the password: %v", err)
			}
		})
	}
}

// FuzzArray checks that any text of an array becomes JSON.
func FuzzArray(f *testing.F) {
	for _, seed := range []string{`{}`, `{1,NULL}`, `{"a\"b",c}`, `{{1,2},{3,4}}`, `[0:1]={1,2}`, `{`, `{"`, `{a\`, `x`, `{,}`} {
		f.Add([]byte(seed), uint32(25))
	}
	f.Fuzz(func(t *testing.T, text []byte, oid uint32) {
		if text == nil {
			return
		}
		for _, isArray := range []bool{true, false} {
			if got := (pgType{oid, isArray}).append(nil, text); !valid(got) {
				t.Errorf("%q of %d became %s", text, oid, got)
			}
		}
	})
}

// FuzzArrayText checks that a list that is written as an array is read back unchanged.
func FuzzArrayText(f *testing.F) {
	f.Add("a", `"\{}`)
	f.Add("", "NULL")
	f.Fuzz(func(t *testing.T, a, b string) {
		list, err := json.Marshal([]any{a, []string{b}, nil})
		if err != nil {
			t.Fatal(err)
		}
		text, err := appendArrayOf(nil, list, 25, 1)
		if err != nil {
			t.Fatal(err)
		}
		got := (pgType{25, true}).append(nil, text)
		var want, have any
		if json.Unmarshal(list, &want) != nil || json.Unmarshal(got, &have) != nil || len(have.([]any)) != 3 ||
			have.([]any)[0] != want.([]any)[0] {
			t.Errorf("%s became %s, and that %s", list, text, got)
		}
	})
}
