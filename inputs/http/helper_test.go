package http

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

// api is a server that records its requests.
type api struct {
	url string

	mu    sync.Mutex // guards the fields below
	asked []*http.Request
}

func serve(t *testing.T, answer http.HandlerFunc) *api {
	t.Helper()
	a := &api{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.asked = append(a.asked, r)
		a.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	a.url = s.URL
	return a
}

// uris returns the URIs of all requests.
func (a *api) uris() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.asked {
		all = append(all, r.URL.RequestURI())
	}
	return all
}

// sent returns the values of a header in all requests.
func (a *api) sent(name string) (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.asked {
		all = append(all, r.Header.Get(name))
	}
	return all
}

func made(t *testing.T, url, more string) *input {
	t.Helper()
	if more != "" {
		more = ", " + more
	}
	return enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"http": {"url": %q%s}}`, url, more)).(*input)
}

// opened returns an open input. It is closed when the test ends.
func opened(t *testing.T, url, more string) *input {
	t.Helper()
	in := made(t, url, more)
	open(t, in)
	t.Cleanup(func() { _ = in.Close(context.Background()) })
	return in
}

func open(t *testing.T, in *input) {
	t.Helper()
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func closed(t *testing.T, in *input) {
	t.Helper()
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// read calls Read once, with room for n messages.
func read(t *testing.T, in *input, n int) (docs []string, refs []uint64, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b := engine.NewBatch(n)
	_, err = in.Read(ctx, b)
	for m := range b.All() {
		docs, refs = append(docs, string(m.Bytes())), append(refs, m.Ref)
	}
	return docs, refs, err
}

// rest reads to the end, and settles all messages.
func rest(t *testing.T, in *input) (all []string, err error) {
	t.Helper()
	for {
		docs, refs, err := read(t, in, 100)
		all = append(all, docs...)
		settle(t, in, refs...)
		if err == engine.ErrEnd {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// next reads n messages without settling them.
func next(t *testing.T, in *input, n int) (all []string, refs []uint64) {
	t.Helper()
	for len(all) < n {
		docs, more, err := read(t, in, n-len(all))
		if err != nil {
			t.Fatalf("after %v: %v", all, err)
		}
		all, refs = append(all, docs...), append(refs, more...)
	}
	return all, refs
}

func settle(t *testing.T, in *input, refs ...uint64) {
	t.Helper()
	if in.cfg.Checkpoint == "" {
		return
	}
	var rs []engine.Result
	for _, ref := range refs {
		rs = append(rs, engine.Result{Ref: ref, Fate: engine.Delivered})
	}
	if _, err := in.places.Ack(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, got, want []string) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got %.600q\nwant %.600q", got, want)
	}
}

// fails reports whether an error has a class and contains all of these words.
func fails(t *testing.T, err error, class engine.Class, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("there was no error")
	}
	if got := engine.ErrorOf(err, ""); got.Class != class {
		t.Errorf("got class %q, want %q, of %v", got.Class, class, err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %q, want %q in it", err, w)
		}
	}
}

// backlog serves the documents after the number that a client requests.
type backlog struct {
	mu   sync.Mutex // guards the fields below
	docs []string
	more chan struct{} // closed when a document is added
}

func (b *backlog) add(docs []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.docs = append(b.docs, docs...)
	close(b.more)
	b.more = make(chan struct{})
}

func (b *backlog) after(n int) (docs []string, more chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.docs[n+1:]), b.more
}

// answer answers with a page. If a stream is requested, it sends all documents, including later ones.
func (b *backlog) answer(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("after"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	docs, more := b.after(n)
	if !strings.Contains(r.Header.Get("Accept"), "event-stream") {
		_, _ = fmt.Fprintf(w, `{"items": [%s]}`, strings.Join(docs, ","))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, "retry: 10\n\n")
	for {
		for _, doc := range docs {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", doc)
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
		n += len(docs)
		docs, more = b.after(n)
	}
}
