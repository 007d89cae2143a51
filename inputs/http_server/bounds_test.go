package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

const isLines = "Content-Type: application/x-ndjson"

func TestARequestBringsSoManyMessagesAtMost(t *testing.T) {
	r := serve(t, `{"listen": "127.0.0.1:0", "max_messages": 3}`)
	if res, answer := do(t, "POST", r.url, "a\nb\nc\n", isLines); res.StatusCode != 200 {
		t.Errorf("three: got %d %s", res.StatusCode, answer)
	}
	res, answer := do(t, "POST", r.url, "a\nb\nc\nd\n", isLines)
	if want := `{"error":"the body has more than 3 messages (max_messages)","status":413}`; res.StatusCode != 413 ||
		answer != want {
		t.Errorf("four: got %d %s", res.StatusCode, answer)
	}
	if got := r.payloads(); len(got) != 3 {
		t.Errorf("%q were read, want none of the four", got)
	}
	if n := r.queue.Load().Bytes; n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

func TestAFramingMakesNoMoreThanABodyMayHave(t *testing.T) {
	r := serve(t, `{"listen": "127.0.0.1:0", "framing": "csv", "max_body": 10000}`)
	name := strings.Repeat("n", 1000)
	for rows, want := range map[int]int{8: 200, 10: 413} {
		if res, answer := do(t, "POST", r.url, name+"\n"+strings.Repeat("1\n", rows)); res.StatusCode != want {
			t.Errorf("%d rows: got %d %s, want %d", rows, res.StatusCode, answer, want)
		}
	}
	if n := r.queue.Load().Bytes; n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestWhatWaitsIsCounted checks the counts of a request while its records are read one by one.
func TestWhatWaitsIsCounted(t *testing.T) {
	r := start(t, `{"listen": "127.0.0.1:0", "reply": "raw()", "timeout": "50ms"}`)
	defer r.Close(context.Background())
	const n = 150
	body := strings.Repeat("x\n", n)
	var posts sync.WaitGroup
	posts.Go(func() {
		if res, answer := do(t, "POST", r.url, body, isLines); res.StatusCode != 504 {
			t.Errorf("got %d %s", res.StatusCode, answer)
		}
	})
	var refs []uint64
	read := func(room int) {
		b := engine.NewBatch(room)
		if _, err := r.Read(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for m := range b.All() {
			refs = append(refs, m.Ref)
		}
	}
	kept := int64(n * resultSize)
	read(n - 1)
	if got, want := r.queue.Load().Bytes, int64(len(body))+n*recordSize+kept; got != want {
		t.Errorf("while one record waits %d bytes are counted, want %d", got, want)
	}
	read(1)
	if got := r.queue.Load().Bytes; got != kept {
		t.Errorf("when all is read %d bytes are counted, want the %d of its results", got, kept)
	}
	posts.Wait() // the client has gone
	for i, ref := range refs {
		if got := r.queue.Load().Bytes; got != kept {
			t.Fatalf("while %d results are still to come %d bytes are counted, want %d", n-i, got, kept)
		}
		if _, err := r.Ack(t.Context(), []engine.Result{{Ref: ref, Fate: engine.Delivered}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.queue.Load().Bytes; got != 0 {
		t.Errorf("at the end %d bytes are counted", got)
	}
}

func TestManyResultsAreSummedUp(t *testing.T) {
	r := serve(t, `"127.0.0.1:0"`)
	body := strings.Repeat("a\nfiltered\n", 200) + "returned\n" + strings.Repeat("dropped\ndead-lettered\n", 60)
	res, answer := do(t, "POST", r.url, body, isLines)
	ref := regexp.MustCompile(`"ref":"\w+"`)
	var got struct {
		Status, Count int
		Summary       []struct {
			Fate, Class string
			Count       int
			At          []int
		}
	}
	if err := json.Unmarshal([]byte(answer), &got); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if res.StatusCode != 503 || got.Status != 503 || got.Count != 521 || res.Header.Get("Retry-After") == "" ||
		!ref.MatchString(answer) {
		t.Errorf("got %d %s", res.StatusCode, answer)
	}
	var sums []string
	for _, s := range got.Summary {
		sums = append(sums, fmt.Sprint(s.Fate, " ", s.Class, " ", s.Count, " ", len(s.At)))
	}
	want := []string{"returned  1 1", "dead_lettered rejected 60 60", "delivered  200 0", "filtered  200 0",
		"dropped  60 0"}
	if !slices.Equal(sums, want) || got.Summary[0].At[0] != 400 || got.Summary[1].At[59] != 520 {
		t.Errorf("got  %q\nwant %q\n%s", sums, want, answer)
	}
}

func TestASummaryIsShortHoweverDifferentTheErrors(t *testing.T) {
	var s sums
	for i := range 5000 {
		s.add(verdict{Status: 422, fate: engine.Returned, Class: "rejected", Error: fmt.Sprint(i)}, i)
		s.add(verdict{Status: 200, fate: engine.Delivered}, i)
	}
	count, named := 0, 0
	for _, x := range s.all {
		count += x.Count
		named += len(x.At)
	}
	if len(s.all) > mostSums+1 || count != 10_000 || named != mostListed {
		t.Errorf("%d sums of %d messages, %d of them by index", len(s.all), count, named)
	}
}

// TestRepliesAreNotSummedUp checks that a client gets as many replies as it has sent records.
func TestRepliesAreNotSummedUp(t *testing.T) {
	r := serve(t, `{"listen": "127.0.0.1:0", "reply": "raw()"}`)
	res, answer := do(t, "POST", r.url, strings.Repeat("x\n", 500), isLines)
	if n := strings.Count(answer, `"reply":"x"`); res.StatusCode != 200 || n != 500 {
		t.Errorf("got %d and %d replies", res.StatusCode, n)
	}
}

// deadlines is a connection that records its deadlines.
type deadlines struct {
	http.ResponseWriter
	read, write []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error  { d.read = append(d.read, t); return nil }
func (d *deadlines) SetWriteDeadline(t time.Time) error { d.write = append(d.write, t); return nil }

// sent is a body that returns a chunk after each pause.
type sent struct{ pauses []time.Duration }

func (s *sent) Read(p []byte) (int, error) {
	if len(s.pauses) == 0 {
		return 0, io.EOF
	}
	time.Sleep(s.pauses[0]) // virtual
	s.pauses = s.pauses[1:]
	return min(len(p), 1000), nil
}

func TestABodyHasTimeForWhatItBrings(t *testing.T) {
	tests := []struct {
		name   string
		pauses []time.Duration
		read   []time.Duration // read deadlines, since the start
		write  bool            // the response gets a write deadline
	}{
		{"a small body takes no deadline", []time.Duration{0}, nil, false},
		{"each second's worth adds a second", []time.Duration{0, 0, 0, 0},
			[]time.Duration{httpx.BodyTimeout + time.Second, httpx.BodyTimeout + 2*time.Second}, false},
		{"a long one leaves time for the answer", []time.Duration{9 * time.Second, 12 * time.Second},
			[]time.Duration{httpx.BodyTimeout + time.Second}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := enginetest.New(t, engine.Inputs, `{"http_server": {"listen": ":0", "min_rate": 2000}}`).(*input)
				w, began := &deadlines{}, time.Now()
				hr := httptest.NewRequest("POST", "/", &sent{tt.pauses})
				hr.ContentLength = -1
				held := in.queue.Hold()
				if _, err := in.read(w, hr, &held); err != nil {
					t.Fatal(err)
				}
				var got []time.Duration
				for _, d := range w.read {
					got = append(got, d.Sub(began))
				}
				if !slices.Equal(got, tt.read) || len(w.write) > 0 != tt.write {
					t.Errorf("got %v and %v, want %v", got, w.write, tt.read)
				}
			})
		})
	}
}

func TestABodyThatDoesNotComeIsRefused(t *testing.T) {
	in := enginetest.New(t, engine.Inputs, `{"http_server": ":0"}`).(*input)
	for err, want := range map[error]int{os.ErrDeadlineExceeded: 408, errors.New("gone"): 400} {
		hr := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(err)))
		held := in.queue.Hold()
		if _, why := in.receive(httptest.NewRecorder(), hr, &held); why == nil || why.Status != want {
			t.Errorf("%v: got %+v, want %d", err, why, want)
		}
		held.Give(1)
	}
	if n := in.queue.Load().Bytes; n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestWhatClientsAreTold uses errors. Clients see the text of their own errors only.
func TestWhatClientsAreTold(t *testing.T) {
	var said lockedBuffer
	in := enginetest.New(t, engine.Inputs, `{"http_server": ":0"}`).(*input)
	in.refs.Log = slog.New(slog.NewTextHandler(&said, nil))
	defer in.refs.SumUp()
	whole := enginetest.New(t, engine.Inputs, `{"http_server": {"listen": ":0", "expose_errors": true}}`).(*input)
	_, bad := engine.NewBatch(1).Add([]byte(`{"a":`)).Value()
	inner := engine.Errorf(engine.Permanent, "exit status 1: password=x")
	tests := []struct {
		name string
		err  *engine.Error
		told string // "": a reference
	}{
		{"of a command", inner, ""},
		{"the same again", inner, ""},
		{"what a reply's length is", engine.Errorf(engine.Rejected, "the replies are too long"), ""},
		{"bad JSON", &engine.Error{Class: engine.Decode, Err: fmt.Errorf("status >= 500: %w", bad)},
			"not a JSON document: unexpected end of document at byte 5"},
		{"what is wrong with the message", engine.Errorf(engine.Rejected, "does not fit /srv/order.json: %w",
			engine.Fault("/total: is missing")), "/total: is missing"},
	}
	refs := map[string]bool{}
	for _, tt := range tests {
		v := in.verdict(engine.Result{Fate: engine.Returned, Err: tt.err})
		if v.Error != tt.told || (v.Ref == "") != (tt.told != "") || v.Class != string(tt.err.Class) {
			t.Errorf("%s: got %+v, want %q", tt.name, v, tt.told)
		}
		if v.Ref != "" {
			refs[v.Ref] = true
			if !regexp.MustCompile("ref=" + v.Ref + ".*" +
				regexp.QuoteMeta(tt.err.Error())).MatchString(said.String()) {
				t.Errorf("%s: %s is not in the log: %s", tt.name, v.Ref, said.String())
			}
		}
		if v := whole.verdict(engine.Result{Fate: engine.Returned, Err: tt.err}); v.Error != tt.err.Error() ||
			v.Ref != "" {
			t.Errorf("%s, exposed: got %+v", tt.name, v)
		}
	}
	if len(refs) != 2 {
		t.Errorf("%d references, want 2: equal errors have one", len(refs))
	}
}
