package http

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// linked answers with pages of two documents, the newest first.
func linked(pages int, header bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page := 1
		if p := r.FormValue("page"); p != "" {
			page, _ = strconv.Atoi(p)
		}
		to := ""
		if page < pages {
			to = fmt.Sprintf("?page=%d", page+1)
		}
		if header && to != "" {
			w.Header().Set("Link", fmt.Sprintf(`<?page=1>; rel="first", <%s>; title="a, b"; rel="next last"`, to))
		}
		n := 2 * (pages - page)
		fmt.Fprintf(w, `{"items": [{"id":%d}, {"id":%d}], "next": "%s"}`, n+2, n+1, to)
	}
}

func TestTheLastRecord(t *testing.T) {
	for config, answer := range map[string]string{
		`"framing": "lines"`: "a\nb 7\n",
		`"framing": "csv"`:   "id,x\n1,2\n7,3\n",
		`"framing": "json"`:  `{"id": 1} {"id": 7}`,
		`"items": "a", "headers": {"X": "$(cursor() ?? 0)"}`: `{"a": [{"id": 1}, {"id": 7}]}`,
	} {
		a := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("c") == "0" {
				_, _ = io.WriteString(w, answer)
			}
		})
		config += `, "pages": "cursor", "cursor": "type(last_record()) == \"string\" ? last_record() : string(last_record().id)"`
		if _, err := rest(t, opened(t, a.url+"/?c=$(url_encode(cursor() ?? '0'))", config)); err != nil {
			t.Fatal(err)
		}
		if got := a.uris(); len(got) != 2 || !strings.Contains(got[1], "7") {
			t.Errorf("%s: asked for %q", config, got)
		}
	}
}

func TestPagesByURL(t *testing.T) {
	for _, config := range []string{`"items": "items", "pages": "link"`, `"items": "items", "next": "next"`} {
		a := serve(t, linked(3, strings.Contains(config, "link")))
		got, err := rest(t, opened(t, a.url+"/a", config))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, []string{`{"id":6}`, `{"id":5}`, `{"id":4}`, `{"id":3}`, `{"id":2}`, `{"id":1}`})
		equal(t, a.uris(), []string{"/a", "/a?page=2", "/a?page=3"})
	}
}

// With pages by URL, the first page may be the newest. Its cursor counts only once the other pages are settled as well.
func TestTheCursorOfPagesByURLIsThatOfTheWholePoll(t *testing.T) {
	a := serve(t, linked(3, true))
	config := `"items": "items", "pages": "link", "cursor": "max(cursor() ?? 0, items[0].id)", "checkpoint": "` +
		filepath.Join(t.TempDir(), "c") + `"`
	for _, n := range []int{2, 5, 6} {
		in := opened(t, a.url+"/a?since=$(cursor() ?? 0)", config)
		_, refs := next(t, in, n)
		settle(t, in, refs...)
		if n == 6 {
			if _, _, err := read(t, in, 1); err != engine.ErrEnd {
				t.Fatal(err)
			}
		}
		closed(t, in)
	}
	in := opened(t, a.url+"/a?since=$(cursor() ?? 0)", config)
	next(t, in, 1)
	var first []string
	for _, uri := range a.uris() {
		if strings.Contains(uri, "since") {
			first = append(first, uri)
		}
	}
	equal(t, first, []string{"/a?since=0", "/a?since=0", "/a?since=0", "/a?since=6"})
}

func TestPagesWithoutEnd(t *testing.T) {
	tests := []struct {
		name, path, config string
		answer             http.HandlerFunc
		pages              int
	}{
		{"the same URL", "/", `"pages": "link"`, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</>; rel=next")
			fmt.Fprint(w, "[1]")
		}, 1},
		{"a circle", "", `"pages": "link"`, func(w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.FormValue("n"))
			w.Header().Set("Link", fmt.Sprintf("</?n=%d>; rel=next", n%5+1))
			fmt.Fprint(w, "[1]")
		}, 12},
		{"the same cursor", "/?c=$(cursor() ?? 0)", `"pages": "cursor", "cursor": "this[0]"`, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "[1]")
		}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := serve(t, tt.answer)
			got, err := rest(t, opened(t, a.url+tt.path, tt.config))
			fails(t, err, engine.Permanent, "its pages would never end")
			if len(got) > tt.pages {
				t.Errorf("%d pages were read, want %d at most", len(got), tt.pages)
			}
		})
	}
}

func TestAPageThatIsGoneBeginsThePollAgain(t *testing.T) {
	var gone, down atomic.Bool
	gone.Store(true)
	down.Store(true)
	whole := linked(3, true)
	a := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.FormValue("page") == "2" && down.Swap(false):
			http.Error(w, "down", http.StatusBadGateway)
		case r.FormValue("page") == "2" && gone.Swap(false):
			http.Error(w, "gone", http.StatusGone)
		default:
			w.Header().Set("ETag", `"same"`)
			whole(w, r)
		}
	})
	in := opened(t, a.url+"/", `"items": "items", "pages": "link", "interval": "1h"`)
	for _, class := range []engine.Class{engine.Transient, engine.Rejected} {
		for {
			if _, _, err := read(t, in, 100); err != nil {
				fails(t, err, class)
				break
			}
		}
		closed(t, in)
		open(t, in)
	}
	got, _ := next(t, in, 6)
	if got[5] != `{"id":1}` {
		t.Errorf("got %v", got)
	}
	equal(t, a.uris(), []string{"/", "/?page=2", "/?page=2", "/", "/?page=2", "/?page=3"})
	for _, sent := range a.sent("If-None-Match") {
		if sent != "" {
			t.Error("an answer is not asked for that is needed")
		}
	}
}

func TestAPageThatStaysGoneIsOnlyAskedForAgainWhenAPollIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := linked(3, true)
		in := scripted(t, `"items": "items", "pages": "link", "interval": "1h"`, func(w http.ResponseWriter, r *http.Request) {
			whole(w, r)
		})
		get := in.get
		in.get = func(ctx context.Context, method, url string, h http.Header, body []byte, also ...int) (*http.Response, error) {
			if strings.Contains(url, "page=2") {
				return nil, engine.Errorf(engine.Rejected, "gone")
			}
			return get(ctx, method, url, h, body, also...)
		}
		start := time.Now()
		var after []time.Duration
		for range 4 {
			next(t, in, 2)
			after = append(after, time.Since(start))
			_, _, err := read(t, in, 1)
			fails(t, err, engine.Rejected)
			closed(t, in)
			open(t, in)
			if len(after) > 1 {
				time.Sleep(time.Until(in.due)) // the helper read waits for two minutes at most
			}
		}
		if fmt.Sprint(after) != "[0s 0s 1h0m0s 2h0m0s]" {
			t.Errorf("the first page was read after %v", after)
		}
		closed(t, in)
	})
}
