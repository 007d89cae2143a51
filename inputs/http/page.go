package http

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/framing"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

type secrets = *schema.Secrets

// page is a response that was read as a whole, and whose records are being read.
type page struct {
	url    *url.URL
	shown  string
	header http.Header
	known  known
	meta   engine.Meta

	items   [][]byte       // records, where there are items
	records framing.Reader // otherwise; nil: there are none
	ahead   *framing.Record
	taken   int // records read so far

	cursor []byte // as JSON; nil: the response has none
	next   string // URL of the next page, or ""
}

// answer is the response that items, next and cursor are computed from.
type answer struct {
	doc    doc.Doc
	header http.Header
	since  any
	last   func() ([]byte, error) // the last record; nil: there is none
}

// Document returns the response's body.
func (a *answer) Document() *doc.Doc { return &a.doc }

// Cursor returns the cursor of the request, or of the page before.
func (a *answer) Cursor() any { return a.since }

func (a *answer) value(name string) any {
	if all := a.header.Values(name); len(all) > 0 {
		return strings.Join(all, ", ")
	}
	return nil
}

func (a *answer) lastRecord() (any, error) {
	raw, err := a.last()
	if err != nil || raw == nil {
		return nil, err
	}
	if v, err := doc.Decode(raw); err == nil {
		return v, nil
	}
	return string(raw), nil
}

func (in *input) newPage(res *http.Response, number int, k known) *page {
	p := &page{url: res.Request.URL, shown: httpx.Shown(res.Request.URL), header: res.Header, known: k}
	p.meta = engine.MetaOf([]string{"http_url", "http_status", "http_page"}, []any{p.shown, res.StatusCode, number}, 3)
	for _, name := range in.cfg.Metadata {
		if all := res.Header.Values(name); len(all) > 0 {
			p.meta = p.meta.WithOwn(strings.ToLower(name), strings.Join(all, ", "))
		}
	}
	p.meta = p.meta.WithIndex("line")
	return p
}

// wantsJSON reports whether a response should be JSON.
func (in *input) wantsJSON() bool { return in.cut.Framing.JSON != nil || !in.cfg.Items.IsZero() }

// read finds the records of a response, and what follows it. An empty response has none.
func (p *page) read(in *input, body []byte, since []byte) error {
	if in.cfg.Pages == "link" {
		if err := p.leads(nextLink(p.header.Values("Link"))); err != nil {
			return err
		}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if why := in.unexpected(p.header.Get("Content-Type"), body); why != "" {
		return p.wrong(in, why, body)
	}
	a := &answer{header: p.header}
	a.doc.Reset(body, nil)
	var err error
	if since != nil {
		if a.since, err = doc.DecodeRaw(since); err != nil {
			return engine.WithClass(engine.Permanent, fmt.Errorf("cursor: %w", err))
		}
	}
	if in.cfg.Items.IsZero() {
		p.records = in.cut.Reader(bytes.NewReader(body))
		a.last = func() ([]byte, error) { return lastOf(in.cut.Reader(bytes.NewReader(body))) }
	} else {
		if err := p.find(in, a); err != nil {
			return p.explain(in, "items", err, body)
		}
		a.last = func() ([]byte, error) {
			if len(p.items) == 0 {
				return nil, nil
			}
			return p.items[len(p.items)-1], nil
		}
	}
	if !in.cfg.Cursor.IsZero() {
		if p.cursor, err = in.cursorOf(a); err != nil {
			return p.explain(in, "cursor", err, body)
		}
	}
	if !in.cfg.Next.IsZero() {
		v, err := in.cfg.Next.Eval(a)
		text, ok := v.(string)
		if err == nil && v != nil && !ok {
			err = fmt.Errorf("is %s, not the text of a URL", call.Head(jsonOf(v), 100, in.secrets))
		}
		if err != nil {
			return p.explain(in, "next", err, body)
		}
		return p.leads(text)
	}
	return nil
}

// leads records the next page, if there is one.
func (p *page) leads(next string) (err error) {
	if next == "" {
		return nil
	}
	if p.next, err = sameOrigin(p.url, next); err != nil {
		return engine.Errorf(engine.Rejected, "%s: the next page %w", p.shown, err)
	}
	return nil
}

// cursorOf returns the cursor of a response, or of a record of a stream, as JSON; nil: there is none.
func (in *input) cursorOf(a *answer) ([]byte, error) {
	v, err := in.cfg.Cursor.Eval(a)
	if err != nil || v == nil {
		return nil, err
	}
	return doc.Append(nil, v)
}

func jsonOf(v any) []byte {
	raw, _ := doc.Append(nil, v)
	return raw
}

// find finds the elements of items.
func (p *page) find(in *input, a *answer) error {
	if path, ok := in.cfg.Items.Path(); ok {
		raw, found, err := a.doc.Raw(path)
		if err != nil {
			return err
		}
		if !found || doc.Kind(raw) != doc.Array {
			return errors.New("is not a list in the response")
		}
		for item := range doc.Elements(raw) {
			p.items = append(p.items, item)
		}
		return nil
	}
	v, err := in.cfg.Items.Eval(a)
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		return errors.New("is not a list")
	}
	for _, item := range list {
		raw, err := doc.Append(nil, item)
		if err != nil {
			return err
		}
		p.items = append(p.items, raw)
	}
	return nil
}

// lastOf returns the last record of r.
func lastOf(r framing.Reader) (last []byte, err error) {
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		last = rec.Body
	}
}

// unexpected returns why a response can't be what was asked for. A web page, such as a login form, is not data.
func (in *input) unexpected(contentType string, body []byte) string {
	kind, _, _ := mime.ParseMediaType(contentType)
	f := &in.cut.Framing
	text := in.cfg.Items.IsZero() && (f.Whole != nil || f.Delimiter != nil || f.Start != nil)
	switch {
	case (kind == "text/html" || kind == "application/xhtml+xml") && !text:
		return "is a web page"
	case in.wantsJSON() && bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")):
		return "is not JSON"
	}
	return ""
}

const excerpt = 200 // bytes of an answer that an error shows

// wrong returns an error that says what the response is instead of data.
func (p *page) wrong(in *input, why string, body []byte) error {
	kind := p.header.Get("Content-Type")
	if kind == "" {
		kind = "without a content type"
	}
	return engine.Errorf(engine.Decode, "%s: the response, %s, %s: %s (check url and auth)", p.shown,
		call.Head([]byte(kind), 100, in.secrets), why, call.Head(body[:min(len(body), 4*excerpt)], excerpt, in.secrets))
}

// explain returns an error that says which field can't be computed from a response.
func (p *page) explain(in *input, field string, err error, body []byte) error {
	if _, ok := errors.AsType[*doc.SyntaxError](err); ok {
		return p.wrong(in, "is not one JSON document, which "+field+" reads", body)
	}
	return engine.Errorf(engine.Decode, "%s: the response is %s; %s: %w", p.shown,
		call.Head(body[:min(len(body), 4*excerpt)], excerpt, in.secrets), field, err)
}

// fill adds records to b, and returns whether there are more.
func (p *page) fill(in *input, b *engine.Batch) (more bool, err error) {
	before := b.Len()
	if p.records != nil && in.cfg.Checkpoint == "" {
		err = framing.Fill(p.records, b, p.meta)
		p.taken += b.Len() - before
		return !errors.Is(err, io.EOF), notEnd(err)
	}
	for { // find the end together with the last record: then the place after it can be saved
		if p.ahead == nil {
			rec, err := p.record(in)
			if err != nil {
				return !errors.Is(err, io.EOF), notEnd(err)
			}
			p.ahead = &rec
		}
		if b.Room() == 0 {
			return true, nil
		}
		m := p.ahead.AddTo(b, p.meta)
		p.ahead = nil
		if in.cfg.Checkpoint != "" {
			m.Ref = in.places.Read(1)
		}
	}
}

func notEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// record returns the next record, or io.EOF.
func (p *page) record(in *input) (framing.Record, error) {
	switch {
	case p.records != nil:
		rec, err := p.records.Next()
		if err == nil {
			p.taken++
		}
		return rec, err
	case p.taken == len(p.items):
		return framing.Record{}, io.EOF
	}
	p.taken++
	rec := framing.Record{Body: p.items[p.taken-1], Line: p.taken}
	if limit := int(in.cfg.MaxRecord); len(rec.Body) > limit {
		rec.Err = engine.Errorf(engine.Decode, "record of %d bytes is longer than max_record (%s)", len(rec.Body),
			in.cfg.MaxRecord)
		rec.Body, rec.Size = rec.Body[:limit:limit], int64(len(rec.Body))
	}
	return rec, nil
}
