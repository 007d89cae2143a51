package http

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/state/cursor"
)

// poll is one round of requests, for one page or many.
type poll struct {
	request *request // to be made, or under way; nil: no poll is
	page    int      // number of its page, from 1
	reached []byte   // the cursor of the last page that had one
	cycle   cycle
	looped  bool // the last poll was given up because its pages form a loop
}

// request is a request to make.
type request struct {
	url    string
	header http.Header
	body   []byte
}

// sum identifies a request.
func (r *request) sum() (sum [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d\n", r.url, len(r.body))
	_, _ = h.Write(r.body)
	_ = r.header.Write(h) // sorted
	return [sha256.Size]byte(h.Sum(sum[:0]))
}

// known identifies the last response, so that the server need not send it again.
type known struct {
	Request  string `json:"request,omitempty"` // the beginning of its sum
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"last_modified,omitempty"`
}

// cycle finds loops of requests by Brent's method, which remembers only one request.
type cycle struct {
	mark         [sha256.Size]byte
	steps, power int
}

// again records a request, and reports whether it was made before. A short loop is found at once, a longer one within three rounds.
func (c *cycle) again(sum [sha256.Size]byte) bool {
	if c.power > 0 && sum == c.mark {
		return true
	}
	if c.steps == c.power {
		c.mark, c.power, c.steps = sum, max(1, 2*c.power), 0
	}
	c.steps++
	return false
}

// readPage adds messages of the page, after it has been asked for.
func (in *input) readPage(ctx context.Context, b *engine.Batch) error {
	if in.page == nil {
		r, err := in.await(ctx, in.nextRequest)
		if err != nil {
			return err
		}
		if r.err != nil {
			return in.failedPage(r.err)
		}
		in.page = r.page
	}
	more, err := in.page.fill(in, b)
	if err != nil || more {
		return err
	}
	return in.ended()
}

// failedPage decides what to request next: the same page, unless it no longer exists, such as one whose URL has expired.
func (in *input) failedPage(err error) error {
	once := in.cfg.Interval.IsZero()
	if engine.ErrorOf(err, "").Class == engine.Rejected && in.poll.page > 1 {
		in.poll.request = nil
		if in.again && !once {
			in.schedule() // or the pages before it would be read again and again
		}
		in.again = true
	}
	return in.failed(err, once)
}

// schedule sets when the next poll is due.
func (in *input) schedule() {
	now := time.Now()
	if in.due = in.cfg.Interval.Next(in.due); in.due.Before(now) {
		in.due = in.cfg.Interval.Skip(in.due, now)
	}
}

// nextRequest waits until a request is due. [engine.ErrEnd]: there is none any more.
func (in *input) nextRequest(ctx context.Context) (func(context.Context) result, error) {
	if in.poll.request == nil {
		if err := in.begin(ctx); err != nil {
			return nil, err
		}
	} else if err := in.rest(ctx, time.Time{}); err != nil {
		return nil, err
	}
	req, number, since, known := in.poll.request, in.poll.page, in.poll.reached, in.known
	return func(ctx context.Context) (r result) {
		defer engine.Recovered(&r.err)
		r.page, r.err = in.fetch(ctx, req, number, since, known)
		return r
	}, nil
}

// begin waits until a poll is due, and begins it.
func (in *input) begin(ctx context.Context) error {
	if in.over {
		return engine.ErrEnd
	}
	if in.due.IsZero() {
		in.due = time.Now()
		if !in.cfg.Interval.IsZero() {
			in.due = in.cfg.Interval.First(in.due)
		}
	}
	if err := in.rest(ctx, in.due); err != nil {
		return err
	}
	first, err := in.ask()
	if err != nil {
		return err
	}
	in.poll = poll{request: first, page: 1, reached: in.at, looped: in.poll.looped}
	in.poll.cycle.again(first.sum())
	return nil
}

// ask returns a request with the cursor.
func (in *input) ask() (*request, error) {
	src, err := cursor.After(in.at)
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, fmt.Errorf("cursor: %w", err))
	}
	r := &request{}
	if r.url, r.header, err = in.caller.Target(src); err != nil {
		return nil, engine.WithClass(engine.Permanent, fmt.Errorf("url and headers: %w", err))
	}
	if !in.cfg.Body.IsZero() {
		if r.body, err = in.cfg.Body.AppendBody(nil, src); err != nil {
			return nil, engine.WithClass(engine.Permanent, fmt.Errorf("body: %w", err))
		}
		if r.header.Get("Content-Type") == "" {
			r.header.Set("Content-Type", httpx.ContentType(r.body))
		}
	}
	return r, nil
}

// ended decides what follows when a page was read to its end.
func (in *input) ended() error {
	p := in.page
	in.page = nil
	if p.cursor != nil {
		in.poll.reached = p.cursor
	}
	next, err := in.follow(p)
	if err != nil {
		in.poll.request = nil
		return in.failed(err, in.cfg.Interval.IsZero())
	}
	if next == nil || in.cfg.Pages == "cursor" {
		in.at, in.known = in.poll.reached, p.known // if pages have URLs, only after the last page: a restart may need the others again
		in.mark()
	}
	in.poll.request = next
	in.poll.page++
	if next != nil && !in.poll.cycle.again(next.sum()) {
		return nil
	}
	in.poll.request = nil
	in.again = false
	if in.over = in.cfg.Interval.IsZero(); !in.over {
		in.schedule()
	}
	looped := in.poll.looped
	if in.poll.looped = next != nil; !in.poll.looped {
		return nil
	}
	err = engine.Errorf(engine.Permanent, "%s: page %d was read before in this poll, so its pages would never end "+
		"(check the expression for the next page: a page must begin after the cursor, not at it)", p.shown, in.poll.page)
	if in.over {
		return err
	}
	if !looped {
		in.log.Error("the poll was given up", "err", err)
	}
	return nil
}

// follow returns the request for the page after p; nil: p was the last one.
func (in *input) follow(p *page) (*request, error) {
	switch {
	case in.cfg.Pages == "cursor":
		if p.taken == 0 || p.cursor == nil {
			return nil, nil
		}
		in.at = p.cursor
		return in.ask()
	case p.next == "":
		return nil, nil
	}
	r := *in.poll.request
	r.url = p.next
	return &r, nil
}

// sameOrigin returns the URL of the next page, which must have the same origin, because the server gets the credentials. A server
// behind a proxy that ends TLS may write http in its own URLs.
func sameOrigin(page *url.URL, next string) (string, error) {
	to, err := page.Parse(next)
	if err != nil {
		return "", errors.New("has a URL that is not valid")
	}
	if page.Scheme == "https" && to.Scheme == "http" && to.Hostname() == page.Hostname() &&
		(to.Port() == "" || to.Port() == "80" || to.Port() == page.Port()) {
		to.Scheme, to.Host = page.Scheme, page.Host
	}
	if to.Scheme != page.Scheme || to.Hostname() != page.Hostname() || port(to) != port(page) {
		return "", fmt.Errorf("is at %s, which is not followed: only pages of the same scheme, host and port are",
			httpx.Shown(to))
	}
	to.User, to.Fragment = page.User, ""
	return to.String(), nil
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// fetch asks for a page and reads all of it.
func (in *input) fetch(ctx context.Context, req *request, number int, since []byte, last known) (*page, error) {
	ctx, cancel := context.WithTimeout(ctx, in.cfg.Timeout)
	defer cancel()
	header := req.header.Clone()
	if header.Get("Accept") == "" && in.wantsJSON() {
		header.Set("Accept", "application/json, */*;q=0.5")
	}
	sum := req.sum()
	id := hex.EncodeToString(sum[:16])
	var also []int
	if last.Request == id {
		if also = []int{http.StatusNotModified}; last.ETag != "" {
			header.Set("If-None-Match", last.ETag)
		} else {
			header.Set("If-Modified-Since", last.Modified)
		}
	}
	res, err := in.get(ctx, in.method, req.url, header, req.body, also...)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotModified && also != nil {
		p := in.newPage(res, number, last)
		return p, p.read(in, nil, since)
	}
	body, err := in.body(ctx, res)
	if err != nil {
		return nil, err
	}
	p := in.newPage(res, number, in.identity(id, res.Header))
	return p, p.read(in, body, since)
}

// identity returns what identifies a response. Last-Modified does so only if it is more than a second older than the response: the
// content may change again within the same second.
func (in *input) identity(request string, h http.Header) known {
	k := known{Request: request, ETag: h.Get("ETag"), Modified: h.Get("Last-Modified")}
	if k.ETag != "" {
		k.Modified = ""
	} else {
		modified, err := http.ParseTime(k.Modified)
		date, errDate := http.ParseTime(h.Get("Date"))
		if err != nil || errDate != nil || date.Sub(modified) < 2*time.Second {
			k.Modified = ""
		}
	}
	if in.method != http.MethodGet || k.ETag == "" && k.Modified == "" {
		return known{}
	}
	return k
}

// body returns the body of a response, decompressed.
func (in *input) body(ctx context.Context, res *http.Response) ([]byte, error) {
	coding := res.Header.Get("Content-Encoding")
	format, known := compression.FromCoding(coding) // the transport usually decompresses gzip
	if !known {
		return nil, engine.Errorf(engine.Decode, "%s: content encoding %.20q is not supported (request another with the "+
			"header Accept-Encoding)", httpx.Shown(res.Request.URL), coding)
	}
	body, err := in.whole(ctx, res, format, res.Body)
	if err != nil || format != compression.None {
		return body, err
	}
	format, err = in.cfg.Found("", res.Request.URL.Path, body)
	if err != nil || format == compression.None || in.cfg.Auto() && !compression.Is(format, body) {
		return body, err
	}
	return in.whole(ctx, res, format, bytes.NewReader(body))
}

// whole reads all of r, decompressed.
func (in *input) whole(ctx context.Context, res *http.Response, format compression.Format, r io.Reader) ([]byte,
	error) {
	plain, err := compression.NewReader(format, r, ctx.Done())
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	var buf bytes.Buffer
	if n := res.ContentLength; n > 0 && n <= int64(in.cfg.MaxBody) {
		buf.Grow(int(n) + bytes.MinRead)
	}
	_, err = buf.ReadFrom(compression.Limit(plain, int64(in.cfg.MaxBody)))
	switch {
	case err == nil:
		return buf.Bytes(), nil
	case errors.Is(err, compression.ErrTooLarge):
		return nil, engine.Errorf(engine.TooLarge, "%s: the response is longer than max_body, %s (raise it, ask for smaller "+
			"pages, or write stream: ndjson)", httpx.Shown(res.Request.URL), in.cfg.MaxBody)
	}
	return nil, httpx.Lost(ctx, res.Request, err)
}
