package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a store of one object, whose content is made as it is read.
type fake struct {
	Store   // what is not here is not called
	objects []Object
	content func(o Object, ctx context.Context, offset int64) io.Reader
	gets    atomic.Int64
	cuts    atomic.Int64 // of connections, during List
}

func (f *fake) List(context.Context, string, string, string) (Page, error) {
	if f.cuts.Add(-1) >= 0 {
		return Page{}, fmt.Errorf("list: %w", io.EOF)
	}
	return Page{Objects: f.objects}, nil
}

func (f *fake) Get(ctx context.Context, key, etag string, offset int64) (Object, io.ReadCloser, error) {
	f.gets.Add(1)
	for _, o := range f.objects {
		if o.Key == key && (etag == "" || etag == o.ETag) {
			return o, io.NopCloser(f.content(o, ctx, offset)), nil
		}
	}
	return Object{}, nil, ErrMissing
}

func (f *fake) Close() {}

// ofKeys is a store in which each object has its key as the only line.
func ofKeys(keys ...string) *fake {
	s := &fake{content: func(o Object, _ context.Context, offset int64) io.Reader {
		return strings.NewReader((o.Key + "\n")[offset:])
	}}
	for _, key := range keys {
		s.objects = append(s.objects, Object{Key: key, ETag: "1", Size: int64(len(key)) + 1})
	}
	return s
}

// readFor reads for a time, one message by one.
func readFor(t *testing.T, in *Input, d time.Duration, each func(body string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	for ctx.Err() == nil {
		b := engine.NewBatch(1)
		if _, err := in.Read(ctx, b); err != nil {
			t.Fatal(err)
		}
		for m := range b.All() {
			each(string(m.Bytes()))
		}
	}
}

// on is an input on a store, open until the test ends.
func on(t *testing.T, s Store, edit func(*Source)) *Input {
	t.Helper()
	src := Defaults
	if edit != nil {
		edit(&src)
	}
	in := NewInput(&src, Opening{Kind: "fake", Bucket: "b", Open: func(context.Context) (Store, Notices, error) {
		return s, nil, nil
	}}, engine.Env{Log: slog.New(slog.DiscardHandler)})
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return in
}

var filling = strings.Repeat("x", 64<<10)

// endless is "x" without a line end, and then a line.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	const last = "\nlast\n"
	if e.left <= int64(len(last)) {
		n := copy(p, last[int64(len(last))-e.left:])
		if e.left -= int64(n); n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	n := copy(p[:min(int64(len(p)), e.left-int64(len(last)))], filling)
	e.left -= int64(n)
	return n, nil
}

// TestMemoryIsBoundedWhateverAnObjectHas reads an object whose only long line does not fit into memory many times over.
func TestMemoryIsBoundedWhateverAnObjectHas(t *testing.T) {
	const size = 400 << 20
	s := &fake{objects: []Object{{Key: "a", ETag: "1", Size: size}},
		content: func(Object, context.Context, int64) io.Reader { return &endless{size} }}
	in := on(t, s, nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var bodies []string
	var failed []*engine.Error
	for {
		b := engine.NewBatch(10)
		_, err := in.Read(t.Context(), b)
		for m := range b.All() {
			bodies = append(bodies, string(m.Bytes()))
		}
		for m := range b.Ended() {
			failed = append(failed, m.Err())
			if v, _ := m.Meta.Get("original_size"); v != size-6 {
				t.Errorf("original_size is %v, want %d", v, size-6)
			}
		}
		if err == engine.ErrEnd {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if len(failed) != 1 || failed[0].Class != engine.Decode || len(bodies) != 1 || bodies[0] != "last" {
		t.Errorf("failed %v, bodies %q", failed, bodies)
	}
	if grown := int64(after.Sys) - int64(before.Sys); grown > 48<<20 {
		t.Errorf("reading took %d MiB", grown>>20)
	}
}

// stuck gives some bytes, and no more until its call ends.
type stuck struct {
	ctx context.Context
	r   io.Reader
}

func (s *stuck) Read(p []byte) (int, error) {
	if n, err := s.r.Read(p); err == nil {
		return n, nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func TestWhatHasArrivedIsHandedOverWhileTheRestIsSlow(t *testing.T) {
	text := "1\n2\n3\n"
	s := &fake{
		objects: []Object{{Key: "a", ETag: "1", Size: 100}},
		content: func(_ Object, ctx context.Context, _ int64) io.Reader {
			return &stuck{ctx, strings.NewReader(text)}
		},
	}
	in := on(t, s, nil)
	b := engine.NewBatch(10)
	if _, err := in.Read(t.Context(), b); err != nil || b.Len() != 3 {
		t.Fatalf("%d messages, %v", b.Len(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := in.Read(ctx, engine.NewBatch(10)); err != nil {
		t.Errorf("a read that is stopped: %v", err)
	}
}

// hanging ends its reads when it is closed, as a connection does.
type hanging struct {
	r      io.Reader
	ends   bool
	closed chan struct{}
}

func (h *hanging) Read(p []byte) (int, error) {
	if n, err := h.r.Read(p); err == nil {
		return n, nil
	}
	if h.ends {
		return 0, io.EOF
	}
	<-h.closed
	return 0, errors.New("use of closed connection")
}

func (h *hanging) Close() error {
	select {
	case <-h.closed:
	default:
		close(h.closed)
	}
	return nil
}

type hangs struct{ fake }

func (h *hangs) Get(ctx context.Context, key, etag string, offset int64) (Object, io.ReadCloser, error) {
	o, _, err := h.fake.Get(ctx, key, etag, offset)
	text := "one\ntwo\nthree\n"
	r := strings.NewReader(text[offset:])
	first := h.gets.Load() == 1
	if first {
		r = strings.NewReader(text[:6])
	}
	return o, &hanging{r, !first, make(chan struct{})}, err
}

func TestConnectionsWithoutABytePerMinuteAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hangs{fake{objects: []Object{{Key: "a", ETag: "1", Size: 14}},
			content: func(Object, context.Context, int64) io.Reader { return strings.NewReader("") }}}
		in := on(t, s, nil)
		began := time.Now()
		var got []string
		for {
			b := engine.NewBatch(10)
			_, err := in.Read(t.Context(), b)
			for m := range b.All() {
				got = append(got, string(m.Bytes()))
			}
			if err == engine.ErrEnd {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if strings.Join(got, " ") != "one two three" {
			t.Errorf("read %q", got)
		}
		if took := time.Since(began); took < idle || took > 2*idle {
			t.Errorf("it took %s, want a little more than %s", took, idle)
		}
	})
}

// changing is a store in which the first object is replaced after the first listing.
type changing struct {
	*fake
	lists int
}

func (c *changing) List(ctx context.Context, prefix, after, token string) (Page, error) {
	if c.lists++; c.lists == 2 {
		c.objects[0].ETag = "2"
	}
	return c.fake.List(ctx, prefix, after, token)
}

func TestListingsAreRepeatedForWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &changing{fake: ofKeys("a", "b")}
		in := on(t, s, func(src *Source) { src.Interval = time.Minute })
		began := time.Now()
		got, at := "", []time.Duration(nil)
		readFor(t, in, 570*time.Second, func(body string) {
			got += body
			at = append(at, time.Since(began))
		})
		if got != "aba" || at[1] != 0 || at[2] != time.Minute {
			t.Errorf("read %q at %s, want a and b at once, and a again after a minute", got, at)
		}
		if s.lists != 10 {
			t.Errorf("%d listings in nine and a half minutes, want 10", s.lists)
		}
	})
}

// TestABookThatIsFull leaves objects out, says so, and goes on when there is room again.
func TestABookThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ofKeys("a", "b", "c", "d")
		in := on(t, s, func(src *Source) { src.Interval = time.Minute })
		in.shared.book.most = 2
		got := func() (got string) {
			readFor(t, in, 90*time.Second, func(body string) { got += body })
			return got
		}
		if read := got(); read != "ab" {
			t.Errorf("read %q, want what can be remembered", read)
		}
		if in.Trouble() == nil {
			t.Error("nothing is said")
		}
		s.objects = s.objects[1:]
		if read := got() + got(); read != "c" {
			t.Errorf("read %q, want one more in the place of one that is gone", read)
		}
		s.objects = s.objects[1:]
		if read := got() + got(); read != "d" || in.Trouble() != nil {
			t.Errorf("read %q, with trouble %v, want the last", read, in.Trouble())
		}
	})
}

// TestABookThatIsFullAtTheEnd fails a run that lists once: it has not read everything.
func TestABookThatIsFullAtTheEnd(t *testing.T) {
	s := ofKeys("a", "b")
	in := on(t, s, func(src *Source) { src.Checkpoint = t.TempDir() + "/checkpoint" })
	in.shared.book.most = 1
	read, err := 0, error(nil)
	for err == nil {
		b := engine.NewBatch(1)
		_, err = in.Read(t.Context(), b)
		read += b.Len()
	}
	if read != 1 || !strings.Contains(err.Error(), "objects not read: 1, because at most 1 read objects can be remembered") {
		t.Errorf("read %d, then: %v", read, err)
	}
}

// TestAReadThatIsInterrupted while it waits for the next listing, as by a pause, forgets nothing.
func TestAReadThatIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := ofKeys("a")
		in := on(t, s, func(src *Source) { src.Interval = time.Minute })
		read := 0
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
			b := engine.NewBatch(1)
			if _, err := in.Read(ctx, b); err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
			read += b.Len()
			cancel()
		}
		if read != 1 {
			t.Errorf("the object was read %d times", read)
		}
	})
}

// TestTheEndOfTheOnlyListing is told as often as it is asked for, and nothing is forgotten by then.
func TestTheEndOfTheOnlyListing(t *testing.T) {
	s := ofKeys("a")
	in := on(t, s, func(src *Source) { src.Checkpoint = t.TempDir() + "/checkpoint" })
	for ends := 0; ends < 3; {
		b := engine.NewBatch(1)
		acker, err := in.Read(t.Context(), b)
		if err == engine.ErrEnd {
			ends++
		} else if err != nil {
			t.Fatal(err)
		}
		for m := range b.All() {
			if _, err := acker.Ack(t.Context(), []engine.Result{{Ref: m.Ref, Fate: engine.Delivered}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !in.shared.book.knows(in.shared.book.List(nil), "a", "1") {
		t.Error("the object would be read again by the next run")
	}
}

// TestCompression goes by Content-Encoding, then by the key, then by what the object begins with.
func TestCompression(t *testing.T) {
	packed := func(f compression.Format, text string) string {
		p, err := compression.Compress(f, []byte(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		return string(p)
	}
	gz, zst := packed(compression.Gzip, "1\n2\n3\n"), packed(compression.Zstd, "1\n2\n3\n")
	for _, tt := range []struct{ name, key, encoding, body, want string }{
		{"the header", "a", "gzip", gz, "1 2 3"},
		{"the header, in its own words", "a", " X-GZIP, aws-chunked", gz, "1 2 3"},
		{"the header before the key", "a.gz", "zstd", zst, "1 2 3"},
		{"the key", "a.zst", "", zst, "1 2 3"},
		{"the first bytes", "a", "", gz, "1 2 3"},
		{"the first bytes of another format", "a.log", "identity", zst, "1 2 3"},
		{"none", "a", "", "1\n2\n3\n", "1 2 3"},
		{"less than a head", "a", "", "1", "1"},
		{"nothing", "a", "", "", ""},
		{"text that begins like bzip2", "a", "", "BZh9 is a word\n", "BZh9 is a word"},
		{"one that can't be undone", "a.gz", "br", gz,
			`!object a.gz can't be read from line 1 on: content encoding "br" can't be undone (write ` + "`compression: none`" +
				` to read what is stored) (it is kept)`},
		{"several", "a.gz", "gzip, gzip", gz,
			`!object a.gz can't be read from line 1 on: content encoding "gzip, gzip" can't be undone (write ` +
				"`compression: none`" + ` to read what is stored) (it is kept)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &fake{objects: []Object{{Key: tt.key, ETag: "1", Size: int64(len(tt.body)), ContentEncoding: tt.encoding}},
				content: func(_ Object, _ context.Context, offset int64) io.Reader {
					return iotest.OneByteReader(strings.NewReader(tt.body[offset:]))
				}}
			in := on(t, s, nil)
			var got []string
			var err error
			for err == nil {
				b := engine.NewBatch(2)
				_, err = in.Read(t.Context(), b)
				for m := range b.All() {
					got = append(got, string(m.Bytes()))
					if v, _ := m.Meta.Get("content_encoding"); tt.encoding != "" && v != tt.encoding {
						t.Errorf("content_encoding is %v", v)
					}
				}
				for m := range b.Ended() {
					got = append(got, "!"+m.Err().Err.Error())
				}
			}
			if err != engine.ErrEnd || strings.Join(got, " ") != tt.want {
				t.Errorf("read %q, then %v; want %q", got, err, tt.want)
			}
		})
	}
}

func TestCheckpointsThatAreDamagedAreRefused(t *testing.T) {
	b := newBook(&Source{}, Opening{Kind: "fake", Bucket: "b"}, engine.Env{})
	for name, state := range map[string]string{
		"half a pair":         `{"done":"AAAA"}`,
		"an entry of nothing": `{"open":[null]}`,
		"no key":              `{"open":[{"etag":"1"}]}`,
		"an offset below 0":   `{"open":[{"key":"k","offset":-1}]}`,
	} {
		if all, err := b.convert([]byte(state)); err == nil {
			t.Errorf("%s: got %v", name, all)
		}
	}
	for _, text := range []string{"", "{", "{}", `{"key":"k","line":-1}`, "0123", "0123456789abcdef0123456789abcdeg"} {
		if o, err := b.parse([]byte(text)); err == nil {
			t.Errorf("%s: got %v", text, o)
		}
	}
}

func TestWhatIsDoneIsForgottenWhenItIsGone(t *testing.T) {
	b := newBook(&Source{Interval: 1}, Opening{Kind: "fake", Bucket: "b"}, engine.Env{})
	if err := b.Open(); err != nil {
		t.Fatal(err)
	}
	l := b.List(nil)
	read := func(key string) { b.finish([]*reading{b.begin(key, "1", nil)}) }
	read("a")
	read("b")
	l.Complete(time.Now()) // both were finished since the listing began
	l = b.List(nil)
	if !b.knows(l, "a", "1") || b.knows(l, "a", "2") || b.knows(l, "c", "1") {
		t.Error("it does not know what was read")
	}
	l.Complete(time.Now())
	l = b.List(nil)
	if !b.knows(l, "a", "1") || b.knows(l, "b", "1") {
		t.Error("it knows what is gone, or not what is there")
	}
}

func TestACutConnectionIsNotTheEndOfAListing(t *testing.T) {
	s := &fake{objects: []Object{{Key: "a", ETag: "1", Size: 2}},
		content: func(Object, context.Context, int64) io.Reader { return strings.NewReader("1\n") }}
	s.cuts.Store(3)
	in := on(t, s, nil)
	for i := range 3 {
		if _, err := in.Read(t.Context(), engine.NewBatch(1)); err == nil || err == engine.ErrEnd {
			t.Fatalf("after cut %d: got %v", i+1, err)
		}
	}
	b := engine.NewBatch(1)
	if _, err := in.Read(t.Context(), b); err != nil || b.Len() != 1 {
		t.Errorf("read %d messages, err %v", b.Len(), err)
	}
}
