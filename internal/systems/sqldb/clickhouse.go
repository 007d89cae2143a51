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

// chPool is a ClickHouse server, which is called over HTTP. Rows are lines of JSON in both directions: the server converts its types
// itself, and a truncated answer is recognised.
//
// It does not use github.com/ClickHouse/clickhouse-go/v2 (2.50.0), for two reasons:
//
//   - Old servers. Over HTTP, the library sends the setting client_protocol_version with each request, and asks for displayName()
//     first. ClickHouse 18.16, which is in Debian, answers "Unknown setting".
//   - Memory. The library decodes whole blocks, with as many rows as the server chooses. It allocates memory for the announced number
//     of rows and columns before they arrive. Here, each row is bounded.
//
// The library checks each row against the Go types of the columns, so this package would still have to know what text the server
// accepts for a type (chtypes.go). The library's streams of JSONEachRow, which are the rows used here, need the same first request.
type chPool struct {
	db     *Config
	url    url.URL // without parameters
	user   *url.Userinfo
	base   url.Values // parameters of every request
	client *http.Client
	slots  chan struct{} // one for each Conn that is in use

	mu    sync.Mutex      // guards the fields below
	known map[string]bool // settings that the server knows; nil: it must be asked
	types map[string]chKnown
}

// chKnown has the types of a table, and when the server was asked for them.
type chKnown struct {
	types Types
	asked time.Time
}

const (
	chIdle  = 2 * time.Second // servers close idle connections after 3 s or 10 s
	chError = 16 << 10        // bytes of an error that are read
)

// Settings of reads and writes. They are sent only if the server knows them, since they differ between versions.
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

const chForm = "write http://USER:PASSWORD@HOST:8123/DATABASE, or https://…:8443" // #nosec G101 -- an example

func openClickHouse(c *Config) (DB, error) {
	u, err := url.Parse(c.DSN.Reveal())
	if err != nil {
		return nil, fmt.Errorf("is not a valid URL (%s)", chForm) // the error contains the password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("ClickHouse is called over HTTP, not with the protocol %q (%s)", u.Scheme, chForm)
	case u.Hostname() == "":
		return nil, fmt.Errorf("it has no host (%s)", chForm)
	case strings.Contains(strings.Trim(u.Path, "/"), "/"):
		return nil, fmt.Errorf("its path is not a database name (%s)", chForm)
	case c.TLS != nil && u.Scheme == "http":
		return nil, errors.New("tls requires https (write https://, and the port of HTTPS, which is 8443 by default)")
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

// Conn returns the right to make one request at a time. The first call asks the server which settings it knows.
func (p *chPool) Conn(ctx context.Context) (Conn, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if _, err := p.knownSettings(ctx); err != nil {
		<-p.slots
		return nil, err
	}
	return &chConn{p}, nil
}

func (p *chPool) Close() error {
	p.client.CloseIdleConnections()
	return nil
}

// knownSettings returns the names in chReads and chWrites that the server knows.
func (p *chPool) knownSettings(ctx context.Context) (map[string]bool, error) {
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
	res, err := p.request(dialing, []byte(query), nil)
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

// supported returns those settings that the server knows and the dsn does not set.
func (p *chPool) supported(ctx context.Context, settings map[string]string) (url.Values, error) {
	known, err := p.knownSettings(ctx)
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

// request sends a statement, which may be followed by data, and returns an answer with status 200. The caller closes its body.
func (p *chPool) request(ctx context.Context, statement []byte, settings url.Values) (*http.Response, error) {
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
	return nil, p.answerError(res, text)
}

// forget discards what is known about the server, since another server may have taken its place.
func (p *chPool) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = nil
	clear(p.types)
}

// lost returns the error of a failed connection, without the URL: a dsn may have secret settings.
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
	return engine.WithClass(engine.Transient, err) // the server may have executed the statement
}

// chConn is the right to make one request at a time. It has no state of its own.
type chConn struct{ *chPool }

func (c *chConn) Release() { <-c.slots }

// Exec executes a statement. The number of changed rows is unknown, since a mutation continues in the background.
func (c *chConn) Exec(ctx context.Context, query string, args []Value) (int64, error) {
	settings, err := c.supported(ctx, chWrites)
	if err != nil {
		return 0, err
	}
	settings.Set("wait_end_of_query", "1") // so that an error can't follow after the beginning of an answer
	res, err := c.statement(ctx, query, args, settings)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if err := httpx.Drain(res); err != nil { // Drain ends after some bytes, as the answer is not used
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
	res, err := c.request(ctx, []byte(query), settings)
	return res, explain(err, false)
}

// Query returns rows as they arrive. The size of each row is bounded.
func (c *chConn) Query(ctx context.Context, query string, args []Value) (Rows, error) {
	return c.query(httpx.Streams(ctx), query, args)
}

func (c *chConn) query(ctx context.Context, query string, args []Value) (Rows, error) {
	settings, err := c.supported(ctx, chReads)
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

// block is how many bytes of an answer are read at once.
const block = 64 << 10

// Types returns the types of a table's columns. It asks the server again from time to time, since the server does not report changes.
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

// Copy inserts rows in one block, so that all of them are stored or none. The values must come from [Types.Fit].
func (c *chConn) Copy(ctx context.Context, table string, columns []string, rows [][]Value) error {
	settings, err := c.supported(ctx, chWrites)
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
	res, err := c.request(ctx, data, settings)
	if err != nil {
		return explain(err, false)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, chError))
	if err != nil {
		return explain(c.lost(ctx, err), false)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 { // an empty answer means that the rows are stored
		return nil
	}
	if err := c.exception(text); err != nil {
		return explain(err, false)
	}
	return engine.Errorf(engine.Transient, "the server has answered %.60q instead of storing the rows", text)
}
