package sqldb

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/network/tlsconf"
)

// chPool is a ClickHouse, which is asked over HTTP: rows travel as lines of JSON in both directions, which the server
// itself makes of its types, and which show where an answer breaks off.
//
// It does not use github.com/ClickHouse/clickhouse-go/v2 (2.50.0), with which two promises would break:
//
//   - Old servers. Over HTTP every request has the setting client_protocol_version, and the first one asks for
//     displayName(). ClickHouse 18.16, which is Debian's, answers "Unknown setting" before anything can be written.
//   - Memory. An answer is decoded by whole blocks, of as many rows as the server likes, and a claim of a billion rows or
//     of any number of columns is believed before they arrive. Here each row is bounded.
//
// A row that does not fit would fail when it is appended, by Go's type for the column, so what the server takes as text for
// a type would still have to be known here (chtypes.go). The library's streams of JSONEachRow, which would be the same rows
// as here, need the same first request.
type chPool struct {
	db     *Config
	url    url.URL // without what is asked
	user   *url.Userinfo
	base   url.Values // what every request says
	client *http.Client
	slots  chan struct{} // one for each connection that is lent

	mu    sync.Mutex // guards the fields below
	known map[string]bool
	types map[string]chKnown
}

// chKnown are the types of a table, and when they were asked for.
type chKnown struct {
	types Types
	asked time.Time
}

const (
	chIdle  = 2 * time.Second // less than servers keep an idle connection: 3 s, or 10
	chError = 16 << 10        // bytes that are read of an error
)

// What a server is asked for, as far as it knows it: the names of settings come and go with versions.
var (
	chReads = map[string]string{
		"output_format_json_quote_64bit_integers": "0", "output_format_json_quote_denormals": "1",
		"output_format_json_quote_decimals": "0", "output_format_decimal_trailing_zeros": "1",
		"output_format_json_escape_forward_slashes":  "0",
		"output_format_json_named_tuples_as_objects": "1", "date_time_output_format": "iso",
		"http_write_exception_in_output_format": "0", "cancel_http_readonly_queries_on_client_close": "1",
	}
	chWrites = map[string]string{
		"date_time_input_format": "best_effort", "input_format_null_as_default": "0",
		"input_format_json_named_tuples_as_objects": "0", "input_format_skip_unknown_fields": "0",
		// A write is one block, which is stored as a whole or not at all.
		"async_insert": "0", "input_format_parallel_parsing": "0", "max_insert_block_size": "1048576",
		"input_format_allow_errors_num": "0", "input_format_allow_errors_ratio": "0",
	}
)

const chForm = "write http://USER:PASSWORD@HOST:8123/DATABASE, or https://…:8443" // #nosec G101 -- what to write there

func openClickHouse(c *Config) (DB, error) {
	u, err := url.Parse(c.DSN.Reveal())
	if err != nil {
		return nil, fmt.Errorf("is not a valid URL (%s)", chForm) // the error has the password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is not spoken with ClickHouse here, but HTTP (%s)", u.Scheme, chForm)
	case u.Hostname() == "":
		return nil, fmt.Errorf("it names no host (%s)", chForm)
	case strings.Contains(strings.Trim(u.Path, "/"), "/"):
		return nil, fmt.Errorf("its path is more than the name of a database (%s)", chForm)
	case c.TLS != nil && u.Scheme == "http":
		return nil, errors.New("tls is for https alone (write https://, and the port of HTTPS, which is 8443 by default)")
	}
	base := u.Query()
	if base.Get("async_insert") == "1" && base.Get("wait_for_async_insert") == "0" {
		return nil, errors.New("wait_for_async_insert=0 loses rows (remove it)")
	}
	if name := strings.Trim(u.Path, "/"); name != "" {
		base.Set("database", name)
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), map[string]string{"http": "8123", "https": "8443"}[u.Scheme])
	}
	settings := c.TLS
	if settings == nil {
		settings = &tlsconf.Client{}
	}
	conf, err := settings.Config()
	if err != nil {
		return nil, err
	}
	p := &chPool{db: c, url: url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}, user: u.User, base: base,
		slots: make(chan struct{}, c.Connections), types: map[string]chKnown{}}
	network := httpx.Network(conf)
	network.IdleConnTimeout, network.MaxIdleConnsPerHost = chIdle, c.Connections
	network.DialContext = (&net.Dialer{Timeout: c.ConnectTimeout}).DialContext
	p.client = httpx.Direct(network, httpx.MostAnswer)
	return p, nil
}

// Conn lends the right to one request at a time. The first one asks the server what it knows.
func (p *chPool) Conn(ctx context.Context) (Conn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if _, err := p.settings(ctx); err != nil {
		<-p.slots
		return nil, err
	}
	return &chConn{p}, nil
}

func (p *chPool) Close() error {
	p.client.CloseIdleConnections()
	return nil
}

// settings are the names of those that the server knows, of chReads and chWrites.
func (p *chPool) settings(ctx context.Context) (map[string]bool, error) {
	p.mu.Lock()
	known := p.known
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	names := slices.Sorted(maps.Keys(chReads))
	names = append(names, slices.Sorted(maps.Keys(chWrites))...)
	dialing, cancel := context.WithTimeout(ctx, p.db.ConnectTimeout)
	defer cancel()
	query := "SELECT name FROM system.settings WHERE name IN ('" + strings.Join(names, "', '") + "') FORMAT TabSeparated"
	res, err := p.ask(dialing, []byte(query), nil)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(res.Body, chError))
		res.Body.Close()
	}
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return nil, p.lost(ctx, err)
		case dialing.Err() != nil:
			return nil, cause.Held(fmt.Errorf("%s: no answer within %v", p.url.Host, p.db.ConnectTimeout))
		}
		return nil, explain(err, true)
	}
	known = map[string]bool{}
	for name := range strings.Lines(string(text)) {
		known[strings.TrimSpace(name)] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = known
	return known, nil
}

// with are the settings that the server knows and the dsn does not set.
func (p *chPool) with(ctx context.Context, settings map[string]string) (url.Values, error) {
	known, err := p.settings(ctx)
	if err != nil {
		return nil, err
	}
	asked := url.Values{}
	for name, value := range settings {
		if known[name] && !p.base.Has(name) {
			asked.Set(name, value)
		}
	}
	return asked, nil
}

// ask sends a statement, which may have data behind it, and gives an answer that is no error; its body is to be closed.
func (p *chPool) ask(ctx context.Context, statement []byte, settings url.Values) (*http.Response, error) {
	u := p.url
	asked := url.Values{}
	maps.Copy(asked, p.base)
	maps.Copy(asked, settings)
	u.RawQuery = asked.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(statement))
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	if p.user != nil {
		password, _ := p.user.Password()
		req.Header.Set("X-ClickHouse-User", p.user.Username())
		req.Header.Set("X-ClickHouse-Key", password)
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.forget()
		return nil, p.lost(ctx, err)
	}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, chError))
	if err != nil {
		return nil, p.lost(ctx, err)
	}
	_ = httpx.Drain(res)
	return nil, p.refused(res, text)
}

// forget has the server be asked again what it knows: it may be another one.
func (p *chPool) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = nil
	clear(p.types)
}

// lost is the error of a connection. The URL is not in it: a dsn may have settings that are secret.
func (p *chPool) lost(ctx context.Context, err error) error {
	unsent := httpx.IsUnsent(err)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return engine.WithClass(engine.Timeout, fmt.Errorf("%s: no answer in time", p.url.Host))
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF):
		err = errors.New("the server has closed the connection")
	case errors.As(err, new(tls.RecordHeaderError)):
		err = fmt.Errorf("%w (write http:// in the dsn, or the port of HTTPS)", err)
	}
	err = fmt.Errorf("%s: %w", p.url.Host, err)
	if unsent {
		return cause.Held(err)
	}
	return engine.WithClass(engine.Transient, err) // it may have been carried out
}

// chConn is the right to one request at a time: there is nothing else to a connection.
type chConn struct{ *chPool }

func (c *chConn) Release() { <-c.slots }

// Exec runs a statement to its end. How many rows it has changed is not known: a mutation goes on behind it.
func (c *chConn) Exec(ctx context.Context, query string, args []Value) (int64, error) {
	settings, err := c.with(ctx, chWrites)
	if err != nil {
		return 0, err
	}
	settings.Set("wait_end_of_query", "1") // an error is not hidden behind the beginning of an answer
	res, err := c.statement(ctx, query, args, settings)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if err := httpx.Drain(res); err != nil { // what is behind that much is of no use
		return 0, explain(c.lost(ctx, err), false)
	}
	return 0, nil
}

func (c *chConn) statement(ctx context.Context, query string, args []Value, settings url.Values) (*http.Response,
	error) {
	query, err := chBind(query, args)
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	res, err := c.ask(ctx, []byte(query), settings)
	return res, explain(err, false)
}

// Query gives rows as they come, each of which is bounded.
func (c *chConn) Query(ctx context.Context, query string, args []Value) (Rows, error) {
	return c.query(httpx.Streams(ctx), query, args)
}

func (c *chConn) query(ctx context.Context, query string, args []Value) (Rows, error) {
	settings, err := c.with(ctx, chReads)
	if err != nil {
		return nil, err
	}
	settings.Set("default_format", "JSONEachRow")
	res, err := c.statement(ctx, query, args, settings)
	if err != nil {
		return nil, err
	}
	return &chRows{conn: c, ctx: ctx, body: res.Body, lines: bufio.NewReaderSize(res.Body, block)}, nil
}

// block is how much of an answer is read at once.
const block = 64 << 10

// Types asks what the columns of a table are, now and then: nothing says that they have changed.
func (c *chConn) Types(ctx context.Context, table string, columns []string, anew bool) (Types, error) {
	key := table + "\x00" + strings.Join(columns, "\x00")
	c.mu.Lock()
	t := c.types[key]
	c.mu.Unlock()
	if t.types != nil && !anew && time.Since(t.asked) < believed {
		return t.types, nil
	}
	rows, err := c.query(ctx, "DESCRIBE TABLE "+c.db.Table(table), nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		text, err := rows.Append(nil)
		if err != nil {
			return nil, err
		}
		var name string
		for field, raw := range doc.Members(text) {
			switch field {
			case "name":
				name = doc.Unquote(raw)
			case "type":
				all[name] = doc.Unquote(raw)
			}
		}
	}
	if rows.Err() != nil {
		return nil, rows.Err()
	}
	types := make(chTypes, len(columns))
	for i, name := range columns {
		text, ok := all[name]
		if !ok {
			return nil, explain(missingColumn(name), false)
		}
		types[i] = parseCHType(text)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.types[key] = chKnown{types, time.Now()}
	return types, nil
}

// Copy inserts rows, which [Types] have fitted, as one block: all of them or none.
func (c *chConn) Copy(ctx context.Context, table string, columns []string, rows [][]Value) error {
	settings, err := c.with(ctx, chWrites)
	if err != nil {
		return err
	}
	settings.Set("wait_end_of_query", "1")
	names, query := make([][]byte, len(columns)), "INSERT INTO "+c.db.Table(table)+" ("
	for i, name := range columns {
		names[i] = append(doc.AppendString(nil, name), ':')
		if i > 0 {
			query += ", "
		}
		query += c.db.Quote(name)
	}
	query += ") FORMAT JSONEachRow\n"
	size := len(query)
	for _, row := range rows {
		for i, v := range row {
			size += len(names[i]) + len(v.Text) + 1
		}
		size += 3
	}
	data := append(make([]byte, 0, size), query...)
	for _, row := range rows {
		data = append(data, '{')
		for i, v := range row {
			if i > 0 {
				data = append(data, ',')
			}
			data = append(append(data, names[i]...), v.Text...)
		}
		data = append(data, "}\n"...)
	}
	res, err := c.ask(ctx, data, settings)
	if err != nil {
		return explain(err, false)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, chError))
	if err != nil {
		return explain(c.lost(ctx, err), false)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 { // which is what says that the rows are stored
		return nil
	}
	if err := c.exception(text); err != nil {
		return explain(err, false)
	}
	return engine.Errorf(engine.Transient, "the server has answered %.60q instead of storing the rows", text)
}
