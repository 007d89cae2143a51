package httpx

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// MostAnswer is the maximum size, in bytes, of an answer that a client reads into memory, decompressed. A page of
	// 1000 objects with long keys, or ten messages of a queue, is smaller.
	MostAnswer = 8 << 20
	// MostHeader is the maximum size of an answer's header, in bytes, including interim answers.
	MostHeader = 64 << 10

	mostFailed    = 256 << 10   // bytes of an error's body, which is cut there: its status says enough
	mostValues    = 128 << 10   // values in a JSON or XML answer: a value of three bytes takes a hundred in memory
	mostText      = 256 << 10   // bytes without a tag in an XML answer: the parser copies them several times
	answerTimeout = time.Minute // of requests without a deadline
)

// TooLong is the error of an answer that exceeds a limit.
type TooLong struct {
	Most int
	What string // bytes, values, or bytes of text
}

func (e *TooLong) Error() string {
	if e.What == "bytes" {
		return fmt.Sprintf("the response is longer than %d MiB", e.Most>>20)
	}
	return fmt.Sprintf("the response has more than %d %s", e.Most, e.What)
}

// Bounded limits answers to [MostAnswer] bytes and a number of values, and requests to a time. It is for clients that
// read whole answers; see [Streams] for content.
type Bounded struct {
	http.RoundTripper
	Most int // bytes; 0: [MostAnswer]
}

// RoundTrip makes one request.
func (b Bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	return Bound(req.Context(), cmp.Or(b.Most, MostAnswer), func(ctx context.Context) (*http.Response, error) {
		if ctx != req.Context() {
			req = req.WithContext(ctx)
		}
		return b.RoundTripper.RoundTrip(req)
	})
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (b Bounded) CloseIdleConnections() { closeIdle(b.RoundTripper) }

func closeIdle(over http.RoundTripper) {
	if c, ok := over.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type streams struct{}

// Streams marks requests whose answers are content: unless the answer is an error, its reader bounds it, in bytes and
// in time.
func Streams(ctx context.Context) context.Context { return context.WithValue(ctx, streams{}, true) }

type most struct{}

// Most sets the maximum size of answers, in bytes, for requests with this context.
func Most(ctx context.Context, bytes int) context.Context {
	return context.WithValue(ctx, most{}, bytes)
}

// Bound limits the answer of a request that send makes to a number of bytes, as [Bounded] does.
func Bound(ctx context.Context, bytes int, send func(context.Context) (*http.Response, error)) (*http.Response, error) {
	content, end := ctx.Value(streams{}) != nil, func() {}
	if _, limited := ctx.Deadline(); !limited && !content {
		ctx, end = context.WithTimeout(ctx, answerTimeout)
	}
	res, err := send(ctx)
	failed := err != nil || res.StatusCode < 200 || res.StatusCode > 299
	if err != nil || content && !failed {
		end()
		return res, err
	}
	if n, set := ctx.Value(most{}).(int); set {
		bytes = n
	}
	if failed {
		res.Body = cut{io.LimitReader(res.Body, mostFailed), res.Body}
	}
	res.Body = &bounded{ReadCloser: res.Body, most: bytes, values: mostValues, end: end}
	return res, nil
}

// cut is an answer that was cut to its beginning.
type cut struct {
	io.Reader
	io.Closer
}

// bounded is an answer that ends with an error when it exceeds a limit.
type bounded struct {
	io.ReadCloser
	most   int // limit, and bytes read so far
	read   int
	values int
	text   int  // bytes of XML since the last tag began
	form   byte // first character: '<' for XML, '{' or '[' for JSON
	quoted bool // inside a string of JSON
	escape bool // after a backslash in it
	err    error
	end    func() // ends the request's context
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	b.read += n
	b.count(p[:n])
	switch {
	case b.read > b.most:
		b.err = &TooLong{b.most, "bytes"}
	case b.values < 0:
		b.err = &TooLong{mostValues, "values"}
	case b.text > mostText:
		b.err = &TooLong{mostText, "bytes of text"}
	default:
		return n, err
	}
	return 0, b.err
}

func (b *bounded) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// count counts what becomes a value in memory.
func (b *bounded) count(p []byte) {
	if b.form == 0 {
		if p = bytes.TrimLeft(p, " \t\r\n\ufeff"); len(p) == 0 {
			return
		}
		b.form = p[0]
	}
	switch b.form {
	case '<':
		b.values -= bytes.Count(p, []byte{'<'})
		b.text += len(p)
		if i := bytes.LastIndexByte(p, '<'); i >= 0 {
			b.text = len(p) - i
		}
	case '{', '[':
		for _, c := range p {
			switch {
			case b.escape:
				b.escape = false
			case b.quoted:
				b.quoted, b.escape = c != '"', c == '\\'
			case c == '"':
				b.quoted = true
			case c == ',' || c == '{' || c == '[':
				b.values--
			}
		}
	}
}
