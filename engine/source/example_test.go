package source_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/schema"
)

// Config configures the input. Its tags are all that lint, the JSON Schema and the reference need.
type Config struct {
	URL   string `yaml:"url" check:"required" doc:"The server."`
	Queue string `yaml:"queue,main" check:"required,nonempty" doc:"The queue to read."`
}

func init() {
	engine.Register(engine.Inputs, "tickets", "Reads a queue of a ticket server.", Config{}, newTickets)
}

// tickets is the input. It outlives its connections: results of messages may arrive after a connection was lost.
type tickets struct {
	*source.Session[*conn]
	cfg Config

	mu   sync.Mutex // guards the fields below
	next uint64
	held map[uint64]string // ids of tickets that were read and have no result yet, by Message.Ref
}

var (
	_ engine.Traited = (*tickets)(nil)
	_ engine.Acker   = (*tickets)(nil)
)

// newTickets makes the input, without I/O.
func newTickets(c Config, _ engine.Env) (engine.Input, error) {
	in := &tickets{cfg: c, held: map[uint64]string{}}
	in.Session = source.NewSession(in.connect)
	return in, nil
}

// Traits says that the server takes back each ticket separately.
func (*tickets) Traits() engine.Traits { return engine.Traits{TakesBack: engine.TakesOne} }

// ticket is a message of the server.
type ticket struct{ ID, Text string }

// conn is one connection to the server.
type conn struct {
	in     *tickets
	client *http.Client
	take   source.Call[[]ticket]
	rest   []ticket // fetched, and not yet read
}

// connect checks that the server has the queue, so that Read need not.
func (in *tickets) connect(ctx context.Context) (*conn, error) {
	c := &conn{in: in, client: &http.Client{Transport: &http.Transport{}}}
	_, err := c.ask(ctx, "look", nil)
	return c, err
}

// Read waits for the first ticket, and adds as many as there is room for.
func (in *tickets) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	c, room := in.Conn(), b.Room()
	if len(c.rest) == 0 {
		all, err := c.take.Wait(ctx, func(ctx context.Context) ([]ticket, error) {
			return c.ask(ctx, "take", url.Values{"most": {strconv.Itoa(room)}})
		})
		if err != nil { // if ctx has ended, the next Read takes the answer
			return in, err
		}
		c.rest = all
	}
	n := min(room, len(c.rest)) // the Read that began the call may have had more room
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, t := range c.rest[:n] {
		in.next++
		in.held[in.next] = t.ID
		m := b.Add([]byte(t.Text))
		m.Ref, m.Meta = in.next, engine.Meta{}.With("ticket", t.ID)
	}
	c.rest = c.rest[n:]
	return in, nil
}

// Ack reports to the server how messages have ended. Results that it does not confirm are reported again.
func (in *tickets) Ack(ctx context.Context, results []engine.Result) (again []engine.Result, err error) {
	c := in.Conn()
	for _, r := range results {
		in.mu.Lock()
		id := in.held[r.Ref]
		in.mu.Unlock()
		what := "done"
		if r.Fate == engine.Returned {
			what = "back"
		}
		if _, e := c.ask(ctx, what, url.Values{"id": {id}}); e != nil {
			again, err = append(again, r), e
			continue
		}
		in.mu.Lock()
		delete(in.held, r.Ref)
		in.mu.Unlock()
	}
	return again, err
}

// Close ends the connection. Tickets that were fetched and not read go back.
func (c *conn) Close(ctx context.Context, _ bool) error {
	late, _ := c.take.Cancel()
	for _, t := range append(c.rest, late...) {
		if _, err := c.ask(ctx, "back", url.Values{"id": {t.ID}}); err != nil {
			break // the server gives them to others once their lease is over
		}
	}
	c.rest = nil
	c.client.CloseIdleConnections()
	return nil
}

// causes classifies the answers of the server.
var causes = cause.Table{Code: statusOf, Refused: cause.Rejected, Rows: []cause.Row{
	{Codes: []string{"401", "403"}, Kind: cause.Credentials, Remedy: "check the user and password in `url`"},
	{Codes: []string{"404"}, Kind: cause.Missing, Remedy: "create the queue, or correct its name"},
	{Codes: []string{"429"}, Kind: cause.Throttled},
	{Codes: []string{"5*"}, Kind: cause.Busy},
}}

// status is the error of an answer other than 200.
type status int

func (s status) Error() string { return strconv.Itoa(int(s)) + " " + http.StatusText(int(s)) }

func statusOf(err error) (code, text string) {
	if s, ok := errors.AsType[status](err); ok {
		return strconv.Itoa(int(s)), s.Error()
	}
	return "", ""
}

// ask makes one request.
func (c *conn) ask(ctx context.Context, what string, query url.Values) (all []ticket, err error) {
	at := c.in.cfg.URL + "/" + url.PathEscape(c.in.cfg.Queue) + "/" + what
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"?"+query.Encode(), nil)
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	res, err := c.client.Do(req)
	if err == nil {
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			err = status(res.StatusCode)
		} else if err = json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&all); errors.Is(err, io.EOF) {
			err = nil // there are no tickets at present
		}
	}
	return all, causes.Explain(err, what+" of queue "+c.in.cfg.Queue)
}

// This is a complete input, for a server that hands out tickets until they are reported as done or given back.
// Its test is [github.com/flowd-io/flowd/engine/enginetest.RemoteInput].
func Example() {
	server := httptest.NewServer(&desk{waiting: []ticket{{"1", `{"text":"printer"}`}, {"2", `{"text":"coffee"}`}}})
	defer server.Close()

	stop, cancel := context.WithCancel(context.Background())
	out := engine.Use(func(engine.Env) (engine.Output, error) { return &printer{2, cancel}, nil })
	plan, problems := runtime.Build(&engine.Pipeline{
		Name: "example",
		Inputs: schema.MapOf(schema.Entry[engine.InputSpec]{Key: "in", Value: engine.InputSpec{
			Use: engine.Use(func(env engine.Env) (engine.Input, error) {
				return newTickets(Config{URL: server.URL, Queue: "help"}, env)
			})}}),
		Outputs: schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out", Value: engine.OutputSpec{Use: out}}),
		Engine:  engine.EngineSpec{Workers: 1},
	}, runtime.Options{Log: slog.New(slog.DiscardHandler)})
	if plan == nil {
		panic(problems)
	}
	report := plan.Run(stop, context.Background())
	fmt.Println(report.Stats.Roots.Ended[engine.Delivered], "delivered")
	// Output:
	// {"text":"printer"}
	// {"text":"coffee"}
	// 2 delivered
}

// printer is an output that prints messages, and stops the pipeline after a number of them.
type printer struct {
	left int
	stop context.CancelFunc
}

func (p *printer) Write(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		fmt.Println(string(m.Bytes()))
		if p.left--; p.left == 0 {
			p.stop()
		}
	}
	return nil
}

// desk is the server.
type desk struct {
	mu      sync.Mutex // guards the fields below
	waiting []ticket
	taken   []lease
}

// lease is a ticket that a client has. If the client does not report it in time, another client gets it.
type lease struct {
	ticket
	until time.Time
}

const leased = time.Second

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path.Base(r.URL.Path) {
	case "take":
		most, _ := strconv.Atoi(r.FormValue("most"))
		for late := time.After(leased / 4); ; {
			if all := d.take(most); len(all) > 0 {
				_ = json.NewEncoder(w).Encode(all)
				return
			}
			select {
			case <-late:
				return
			case <-r.Context().Done():
				return
			case <-time.After(leased / 100):
			}
		}
	case "done":
		d.end(r.FormValue("id"), false)
	case "back":
		d.end(r.FormValue("id"), true)
	}
}

func (d *desk) take(most int) (all []ticket) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for i := range d.taken {
		if l := &d.taken[i]; len(all) < most && now.After(l.until) {
			all, l.until = append(all, l.ticket), now.Add(leased)
		}
	}
	for ; len(d.waiting) > 0 && len(all) < most; d.waiting = d.waiting[1:] {
		all, d.taken = append(all, d.waiting[0]), append(d.taken, lease{d.waiting[0], now.Add(leased)})
	}
	return all
}

func (d *desk) end(id string, back bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.taken, func(l lease) bool { return l.ID == id })
	switch {
	case i < 0: // it was already reported
	case back:
		d.taken[i].until = time.Time{}
	default:
		d.taken = slices.Delete(d.taken, i, i+1)
	}
}
