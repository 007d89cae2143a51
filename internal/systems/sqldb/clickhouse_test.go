package sqldb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/internal/testing/clickhousetest"
	"github.com/flowd-io/flowd/internal/testing/mqtttest"
	"github.com/flowd-io/flowd/schema"
)

// clickHouseAt returns the configuration of a ClickHouse server.
func clickHouseAt(dsn string) *Config {
	c := Defaults
	c.Driver, c.DSN = clickhouse, schema.NewSecret(dsn)
	return &c
}

// insertJSON writes a JSON value to the column v.
func insertJSON(t *testing.T, conn Conn, table, in string) error {
	t.Helper()
	types, err := conn.Types(t.Context(), table, []string{"v"}, false)
	if err != nil {
		t.Fatal(err)
	}
	v, err := types.Fit(0, OfJSON([]byte(in)))
	if err != nil {
		return err
	}
	return conn.(Copier).Copy(t.Context(), table, []string{"v"}, [][]Value{{v}})
}

// chValue is a value that is written to a column, and the value that is read back. An empty want means the same value.
type chValue struct{ column, in, want string }

// chExact are values whose types exist in all versions.
var chExact = []chValue{
	{"Int8", `-128`, ""}, {"Int64", `-9223372036854775808`, ""}, {"UInt64", `18446744073709551615`, ""},
	{"Int32", `1e3`, `1000`}, {"Int16", `-5.0`, `-5`}, {"UInt8", `true`, `1`}, {"Int32", `"42"`, `42`},
	{"Decimal(38,20)", `12345678901234567.12345678901234567890`, ""}, {"Decimal(10,2)", `12.50`, ""},
	{"Decimal(10,2)", `1e3`, `1000.00`}, {"Decimal(10,2)", `"-0.5"`, `-0.50`},
	{"Float64", `0.1`, ""}, {"Float32", `1.5`, ""}, {"Float64", `1e300`, ""}, {"Float64", `"NaN"`, `"nan"`},
	{"Float64", `"-Infinity"`, `"-inf"`},
	{"String", `"a\"\\\n\té🙂\u0001"`, ""}, {"String", `12.50`, `"12.50"`}, {"String", `""`, ""}, {"String", `"a/b"`, ""},
	{"String", `{"a": 1.0}`, `"{\"a\": 1.0}"`}, {"FixedString(3)", `"USD"`, ""}, {"FixedString(3)", `"a"`, `"a\u0000\u0000"`},
	{"Date", `"2026-01-31"`, ""}, {"Date", `"2026-01-31T23:30:00-02:00"`, `"2026-02-01"`},
	{"UUID", `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, ""}, {"Enum8('a' = 1, 'b,)' = 2)", `"b,)"`, ""},
	{"Nullable(Int32)", `null`, ""}, {"Nullable(String)", `"x"`, ""},
	{"Array(Int64)", `[1,9223372036854775807]`, ""}, {"Array(Nullable(String))", `["a,b",null,"]\""]`, ""}, {"Array(Int8)", `[]`, ""},
	{"Array(Array(Decimal(9,2)))", `[[1.50],[]]`, ""}, {"Tuple(Int32, String)", `[1,"x"]`, ""},
}

// chNewer are values whose types do not exist in a server of 2018, or which it writes in another form.
var chNewer = []chValue{
	{"DateTime('Europe/Berlin')", `"2026-01-31T12:00:00+02:00"`, `"2026-01-31T10:00:00Z"`}, {"DateTime", `1767225600.9`,
		`"2026-01-01T00:00:00Z"`},
	{"DateTime64(3, 'Asia/Tokyo')", `"2026-01-31T12:00:00.123456+02:00"`, `"2026-01-31T10:00:00.123Z"`},
	{"DateTime64(9)", `"2026-10-25T00:30:00.123456789Z"`, ""}, {"DateTime64(6)", `"1969-12-31T23:59:59.5Z"`, `"1969-12-31T23:59:59.500000Z"`},
	{"DateTime64(3)", `-0.5`, `"1969-12-31T23:59:59.500Z"`}, {"Date32", `"1925-01-01"`, ""},
	{"Bool", `true`, ""}, {"LowCardinality(Nullable(String))", `null`, ""}, {"LowCardinality(String)", `"x"`, ""},
	{"Int128", `-170141183460469231731687303715884105728`, ""}, {"UInt128", `340282366920938463463374607431768211455`, ""},
	{"Int256", `57896044618658097711785492504343953926634992332820282019728792003956564819967`, ""},
	{"UInt256", `115792089237316195423570985008687907853269984665640564039457584007913129639935`, ""},
	{"Decimal(76,38)", `12345678901234567890123456789012345678.12345678901234567890123456789012345678`, ""},
	{"Map(String, Array(Int64))", `{"a b":[1],"c":[]}`, ""}, {"Map(UInt8, Decimal(9,2))", `{"1":1.50}`, ""},
	{"Tuple(a Int32, `b c` Nullable(String))", `{"a":1,"b c":null}`, ""}, {"Tuple(a Int32, b String)", `[1,"x"]`, `{"a":1,"b":"x"}`},
	{"IPv4", `"10.0.0.1"`, ""}, {"IPv6", `"::1"`, ""}, {"Array(Tuple(DateTime, Bool))", `[["2026-01-31T10:00:00Z",false]]`, ""},
	{"SimpleAggregateFunction(sum, UInt64)", `7`, ""}, {"JSON", `{"a":{"b":[1,2]},"c":"x"}`, ""},
}

// chRefused are values that the server would change silently, or refuse.
var chRefused = []chValue{
	{"Float32", `1e-50`, "is not a valid Float32"}, {"Float64", `1e-400`, "is not a valid Float64"},
	{"Float32", `1e39`, "is not a valid Float32"},
	{"Int8", `128`, `out of the range of Int8`}, {"Int8", `-129`, "out of the range"}, {"UInt64", `-1`, "out of the range"},
	{"UInt64", `18446744073709551616`, "out of the range"}, {"Int32", `1.5`, "is not a valid Int32"}, {"Int32", `"x"`, "is not a valid Int32"},
	{"Int32", `null`, "null is not a valid Int32"}, {"Array(Int8)", `[1,null]`, "null is not a valid Int8"},
	{"Array(UInt8)", `[256]`, "out of the range"},
	{"Array(UInt8)", `{"a":1}`, "is not a valid Array(UInt8)"}, {"Array(UInt8)", `"[1]"`, "is not a valid Array(UInt8)"},
	{"Decimal(9,2)", `1.239`, "more digits"}, {"Decimal(9,2)", `12345678.5`, "out of the range"},
	{"Decimal(9,2)", `1e99999`, "is not a valid Decimal"},
	{"Float64", `"x"`, "is not a valid Float64"}, {"Date", `"1969-12-31"`, "out of the range of Date"},
	{"Date", `"2149-06-07"`, "out of the range"},
	{"DateTime", `"2106-02-07T06:28:16Z"`, "out of the range of DateTime"}, {"DateTime", `"1969-12-31T23:59:59Z"`, "out of the range"},
	{"FixedString(3)", `"abcd"`, "longer than the 3 bytes"}, {"Tuple(Int8, Int8)", `[1]`, "is not a valid Tuple"},
	{"Date", `20260131`, "is not a valid Date"}, {"Enum8('a' = 1)", `"q"`, "q"}, {"UUID", `"q"`, "uuid"}, {"DateTime", `"soon"`, "code 41"},
}

func checkExact(t *testing.T, conn Conn, values []chValue) {
	t.Helper()
	for i, v := range values {
		table := fmt.Sprint("e", i)
		exec(t, conn, "CREATE TABLE "+table+" (v "+v.column+") ENGINE = Memory")
		if err := insertJSON(t, conn, table, v.in); err != nil {
			t.Errorf("%s in %s: %v", v.in, v.column, err)
			continue
		}
		if v.want == "" {
			v.want = v.in
		}
		if got := documents(t, conn, "SELECT v FROM "+table)[0]; got != `{"v":`+v.want+`}` {
			t.Errorf("%s in %s became %s, want %s", v.in, v.column, got, v.want)
		}
	}
}

func checkRefused(t *testing.T, conn Conn) {
	t.Helper()
	for i, v := range chRefused {
		table := fmt.Sprint("r", i)
		exec(t, conn, "CREATE TABLE "+table+" (v "+v.column+") ENGINE = Memory")
		err := insertJSON(t, conn, table, v.in)
		if !BlamesValues(err) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(v.want)) {
			t.Errorf("%s in %s: got %v, want %q of class rejected", v.in, v.column, err, v.want)
		}
		if got := documents(t, conn, "SELECT * FROM "+table); len(got) > 0 {
			t.Errorf("%s in %s became %s", v.in, v.column, got)
		}
	}
}

func TestClickHouseValuesAreExact(t *testing.T) {
	t.Parallel()
	conn := connect(t, clickHouseAt(clickhousetest.Database(t)))
	checkExact(t, conn, chExact)
	checkRefused(t, conn)
}

func TestClickHouseBytesAndTimes(t *testing.T) {
	t.Parallel()
	conn := connect(t, clickHouseAt(clickhousetest.Database(t)))
	exec(t, conn, "CREATE TABLE t (b String, t DateTime('Asia/Tokyo')) ENGINE = Memory")
	all := []byte{0, 0xff, '"', '\\', '\n', 0xc3}
	types, err := conn.Types(t.Context(), "t", []string{"b", "t"}, false)
	if err != nil {
		t.Fatal(err)
	}
	row := []Value{{Bytes, all}, {Time, []byte("2026-01-31T12:00:00.5+02:00")}}
	for i := range row {
		if row[i], err = types.Fit(i, row[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.(Copier).Copy(t.Context(), "t", []string{"b", "t"}, [][]Value{row}); err != nil {
		t.Fatal(err)
	}
	const query = "SELECT hex(b) AS h, toUnixTimestamp(t) AS u FROM t"
	want := `{"h":"00FF225C0AC3","u":1769853600}`
	if got := documents(t, conn, query)[0]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	exec(t, conn, "TRUNCATE TABLE t")
	exec(t, conn, "INSERT INTO t VALUES (?, ?)", Value{Bytes, all}, Value{Time, []byte("2026-01-31T12:00:00+02:00")})
	if got := documents(t, conn, query+" WHERE b = ? AND t <= ?", Value{Bytes, all}, Value{Time,
		[]byte("2026-01-31T10:00:00Z")})[0]; got != want {
		t.Errorf("by a query: got %s, want %s", got, want)
	}
	rows, err := conn.Query(t.Context(), "SELECT b FROM t", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	rows.Next()
	if _, err := rows.Append(nil); err == nil || !strings.Contains(err.Error(), "write hex(b)") {
		t.Errorf("a row that is not UTF-8: %v", err)
	}
}

func TestClickHouseParameters(t *testing.T) {
	t.Parallel()
	conn := connect(t, clickHouseAt(clickhousetest.Database(t)))
	values := []Value{{Text, []byte(`'; DROP TABLE t -- \' ? \\`)}, {Number, []byte("18446744073709551615")}, {}, {Bool, []byte("true")},
		{JSON, []byte(`["a'b",null]`)}, {JSON, []byte(`{"a": "'"}`)}, {Number, []byte("12345678901234567890.5")}}
	got := documents(t, conn, "SELECT /* ? */ ? AS a, ? AS b, -- ?\n? AS c, ? AS d, ? AS e, ? AS f, ? AS g, '?' AS `?`, 'it''s \\'?' AS h",
		values...)[0]
	want := `{"a":"'; DROP TABLE t -- \\' ? \\\\","b":18446744073709551615,"c":null,"d":1,"e":["a'b",null],"f":"{\"a\": \"'\"}",` +
		`"g":"12345678901234567890.5","?":"?","h":"it's '?"}`
	if got = strings.Replace(got, `it\'s`, `it's`, 1); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for query, args := range map[string][]Value{"SELECT ?": values[:2], "SELECT ?, ?": values[:1], "SELECT 1 ? 2 : ?": values[:1]} {
		if _, err := conn.Query(t.Context(), query, args); err == nil || !strings.Contains(err.Error(), "parameters") {
			t.Errorf("%s with %d values: %v", query, len(args), err)
		}
	}
}

// checkFaults runs statements that fail.
func checkFaults(t *testing.T, conn Conn) {
	t.Helper()
	exec(t, conn, "CREATE TABLE t (id Int32, s String) ENGINE = Memory")
	for _, f := range []struct {
		name, statement string
		class           engine.Class
		holds           bool
		want            string
	}{
		{"no such table", "SELECT * FROM u", engine.Transient, true, "create it"},
		{"no such table", "INSERT INTO u VALUES (1)", engine.Transient, true, "(code 60)"},
		{"no such database", "INSERT INTO nowhere.u VALUES (1)", engine.Transient, true, "nowhere"},
		{"no such column", "SELECT x FROM t", engine.Transient, true, "(code 47)"},
		{"not SQL", "SELECT FROM FROM", engine.Permanent, false, "(code "},
		{"an unknown function", "SELECT unheard(1)", engine.Permanent, false, "unheard"},
		{"a value that does not fit", "INSERT INTO t VALUES ('many', 'x')", engine.Rejected, false, "(code "},
		{"too slow", "SELECT sleep(2) SETTINGS max_execution_time = 1", engine.Timeout, false, "(code 159)"},
		{"an error behind rows", "SELECT number, throwIf(number = 100000) AS b FROM system.numbers LIMIT 200000 SETTINGS max_block_size = 1000",
			engine.Rejected, false, "(code 395)"},
		{"FORMAT", "SELECT 1 AS a FORMAT CSV", engine.Permanent, false, "remove FORMAT"},
	} {
		err := try(t, conn, f.statement, nil)
		if strings.Contains(f.name, "behind rows") {
			err = lastError(t.Context(), conn, f.statement)
		}
		var e *engine.Error
		if !errors.As(err, &e) || e.Class != f.class || e.Holds != f.holds || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: got %#v %v, want class %s, holds %t, %q", f.name, e, err, f.class, f.holds, f.want)
		}
		if err != nil && (strings.Contains(err.Error(), "DB::") || strings.Contains(err.Error(), "version") || len(err.Error()) > 700) {
			t.Errorf("%s: the error is %v", f.name, err)
		}
	}
	if _, err := conn.Types(t.Context(), "t", []string{"id", "x"}, false); !Missing(err) || !strings.Contains(err.Error(), `no column "x"`) {
		t.Errorf("types of a column that is not there: %v", err)
	}
}

// lastError returns the error after the rows of a query.
func lastError(ctx context.Context, conn Conn, query string) error {
	rows, err := conn.Query(ctx, query, nil)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if _, err := rows.Append(nil); err != nil {
			return err
		}
	}
	return rows.Err()
}

func TestClickHouseErrorsAreClassed(t *testing.T) {
	t.Parallel()
	checkFaults(t, connect(t, clickHouseAt(clickhousetest.Database(t))))
}

// A changed type is noticed after some time. Until then, values that do not fit the old type are refused.
func TestClickHouseTypesAreAskedForAgain(t *testing.T) {
	t.Parallel()
	conn := connect(t, clickHouseAt(clickhousetest.Database(t)))
	exec(t, conn, "CREATE TABLE t (d Date, v UInt8) ENGINE = MergeTree ORDER BY d")
	if err := insertJSON(t, conn, "t", `300`); !BlamesValues(err) {
		t.Errorf("300 in UInt8: %v", err)
	}
	exec(t, conn, "ALTER TABLE t MODIFY COLUMN v UInt16")
	p := conn.(*chConn).chPool
	p.mu.Lock()
	for key, known := range p.types {
		known.asked = known.asked.Add(-believed)
		p.types[key] = known
	}
	p.mu.Unlock()
	if err := insertJSON(t, conn, "t", `300`); err != nil {
		t.Errorf("300 in UInt16: %v", err)
	}
}

// Only an empty answer means that rows are stored.
func TestClickHouseAnswersToWrites(t *testing.T) {
	for body, class := range map[string]engine.Class{"<html>": engine.Transient, "Code: 241. DB::Exception: Memory limit": engine.Transient,
		"Code: 27. DB::Exception: Cannot parse": engine.Rejected, "\n": "none"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked, _ := io.ReadAll(r.Body); strings.Contains(string(asked), "INSERT") {
				_, _ = io.WriteString(w, body)
			}
		}))
		conn := connect(t, clickHouseAt(server.URL))
		err := conn.(Copier).Copy(t.Context(), "t", []string{"v"}, [][]Value{{{Number, []byte("1")}}})
		if engine.ErrorOf(err, "none").Class != class && (err != nil || class != "none") {
			t.Errorf("%q: got error %v, want one of class %s", body, err, class)
		}
		server.Close()
	}
}

// A truncated answer is neither a row nor the end of the rows, whether the server or the network has cut it off.
func TestClickHouseAnswersThatBreakOff(t *testing.T) {
	t.Parallel()
	const failed = "Code: 395. DB::Exception: Value passed to 'throwIf': while executing. (FUNCTION_THROW_IF_VALUE_IS_NON_ZERO) " +
		"(version 25.11.1.1 (official build))"
	for _, tt := range []struct {
		name, body string
		class      engine.Class
		want       string
	}{
		{"a marked error", "{\"a\":1}\n\r\n__exception__\r\nrdyzjrxwpxgh\r\n" + failed + "\n\r\n121 rdyzjrxwpxgh\r\n__exception__\r\n",
			engine.Rejected, "Value passed to 'throwIf': while executing. (FUNCTION_THROW_IF_VALUE_IS_NON_ZERO) (code 395)"},
		{"an error in a row", "{\"a\":1}\n{\"a\":" + failed + "\n", engine.Rejected, "(code 395)"},
		{"half a row", "{\"a\":1}\n{\"a\":", engine.Transient, "unexpected EOF"},
		{"a page of a proxy", "{\"a\":1}\n<html>\n", engine.Permanent, "not JSON"},
		{"lists in lists", "{\"a\":1}\n{\"a\":" + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}\n", engine.Transient,
			"nested too deep"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked, _ := io.ReadAll(r.Body); strings.Contains(string(asked), "system.settings") {
				return
			}
			_, _ = io.WriteString(w, tt.body)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		conn := connect(t, clickHouseAt(server.URL))
		rows, err := conn.Query(t.Context(), "SELECT a FROM t", nil)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; err == nil && rows.Next(); n++ {
			_, err = rows.Append(nil)
		}
		if err == nil {
			err, n = rows.Err(), n+1
		}
		rows.Close()
		var e *engine.Error
		if n != 2 || !errors.As(err, &e) || e.Class != tt.class || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(),
			"rdyz") {
			t.Errorf("%s: %d rows, then %#v %v, want 1, then %s: %s", tt.name, n-1, e, err, tt.class, tt.want)
		}
		server.Close()
	}
}

func TestClickHouseByTLS(t *testing.T) {
	t.Parallel()
	files := mqtttest.Certificates(t)
	server := clickhousetest.Own(t, clickhousetest.Settings{Cert: files["server.pem"], Key: files["server.key"]})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(files["ca.pem"]), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, dsn, ca, want string }{
		{"trusted", "https://default:secret@" + server.Secure, ca, ""},
		{"not trusted", "https://default:secret@" + server.Secure, "", "certificate"},
		{"another port", "https://default:secret@" + server.Address, ca, "write http:// in the dsn"},
		{"nobody there", "https://default:secret@127.0.0.1:1", ca, "refused"},
	} {
		c := clickHouseAt(tt.dsn)
		c.TLS = &tlsconf.Client{CA: tt.ca}
		db, err := c.Open()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := db.Conn(t.Context())
		if err == nil {
			documents(t, conn, "SELECT 1 AS a")
			conn.Release()
		}
		var e *engine.Error
		if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &e) || !e.Holds || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// FuzzBind checks that no value can end its own string literal, and that no value is left out.
func FuzzBind(f *testing.F) {
	for _, seed := range []string{"SELECT ?", "'?' ?", "`?` -- ?\n?", "/* ? */ ?", `'\'?' ?`, `"`, "--", "/*", "'"} {
		f.Add(seed, `it's \`)
	}
	f.Fuzz(func(t *testing.T, query, value string) {
		n := 0
		for i := 0; i < len(query); {
			if next := chSkip(query, i); next > i {
				i = next
				continue
			}
			if query[i] == '?' {
				n++
			}
			i++
		}
		args := make([]Value, n)
		for i := range args {
			args[i] = Value{Text, []byte(value)}
		}
		got, err := chBind(query, args)
		if err != nil {
			t.Fatal(err)
		}
		literal := chLiteral(Value{Text, []byte(value)})
		if end := chSkip(literal, 0); end != len(literal) {
			t.Errorf("the string %q ends at %d", literal, end)
		}
		if want := len(query) + n*(len(literal)-1); len(got) != want {
			t.Errorf("%q became %q, of %d bytes, want %d", query, got, len(got), want)
		}
	})
}

// A server can't keep flowd busy for hours, or overflow its stack, with the name of a type.
func TestTypeNamesAreBounded(t *testing.T) {
	for _, part := range []string{"Array(", "LowCardinality(", "Tuple(a ", "Map(Int8, ", "Tuple(", ",", "Nullable(("} {
		for _, n := range []int{60 << 10, 8 << 20} {
			if got := parseCHType("Tuple(" + strings.Repeat(part, n/len(part))); len(got.name) > shownOfType+len("…") {
				t.Errorf("%s: the name of the type has %d bytes", part, len(got.name))
			}
		}
	}
	deep := strings.Repeat("Array(", deepestType) + "Int8" + strings.Repeat(")", deepestType)
	list := strings.Repeat("[", deepestType) + "1" + strings.Repeat("]", deepestType)
	if got, err := (chTypes{parseCHType(deep)}).Fit(0, OfJSON([]byte(list))); err != nil || string(got.Text) != list {
		t.Errorf("got %s, %v", got.Text, err)
	}
}

// FuzzColumn checks that for any type and value, the result is JSON or an error.
func FuzzColumn(f *testing.F) {
	for _, v := range append(append(chExact[:len(chExact):len(chExact)], chNewer...), chRefused...) {
		f.Add(v.column, []byte(v.in))
	}
	for _, column := range []string{"", "Nullable", "Nullable()", "Array(", "Array(Array)", "Tuple(", "Tuple(`", "Map(Int8)", "Decimal(",
		"Enum8('", ")", "Tuple( a)", "Tuple(,a)",
		strings.Repeat("LowCardinality(", 1000), strings.Repeat("Array(", 1000), strings.Repeat("Map(Int8,", 1000)} {
		f.Add(column, []byte(`[1,"a",{"b":null}]`))
	}
	f.Fuzz(func(t *testing.T, column string, in []byte) {
		if !valid(in) {
			return
		}
		got, err := chTypes{parseCHType(column)}.Fit(0, OfJSON(in))
		if err == nil && !valid(got.Text) {
			t.Errorf("%q in %q became %q", in, column, got.Text)
		}
	})
}

// A current ClickHouse behaves the same, and has more types.
func TestACurrentClickHouse(t *testing.T) {
	t.Parallel()
	conn := connect(t, clickHouseAt(clickhousetest.Newer(t)))
	t.Run("exact", func(t *testing.T) { checkExact(t, conn, append(chExact[:len(chExact):len(chExact)], chNewer...)) })
	t.Run("refused", func(t *testing.T) { checkRefused(t, conn) })
	t.Run("faults", func(t *testing.T) { checkFaults(t, conn) })
}
