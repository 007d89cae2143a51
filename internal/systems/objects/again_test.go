package objects

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// paged is a store that lists two objects at a time.
type paged struct {
	*fake
	before func(ctx context.Context, token string) error // each page; nil: nothing
	lists  atomic.Int64                                  // how many listings have begun
}

func (p *paged) List(ctx context.Context, _, _, token string) (Page, error) {
	if token == "" {
		p.lists.Add(1)
	}
	if p.before != nil {
		if err := p.before(ctx, token); err != nil {
			return Page{}, err
		}
	}
	from, _ := strconv.Atoi(token)
	to := min(from+2, len(p.objects))
	page := Page{Objects: p.objects[from:to]}
	if to < len(p.objects) {
		page.Token = strconv.Itoa(to)
	}
	return page, nil
}

func keys(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// process is what the inputs of one process share.
type process struct {
	store  Store
	shared *engine.Shared
}

// inputs are instances of one input, as one loading of the configuration makes them.
func (p process) inputs(n int, edit func(*Source)) (all []*Input) {
	src := Defaults
	edit(&src)
	src.Check(false, func(string, string, string) {})
	for i := range n {
		all = append(all, NewInput(&src, Opening{Kind: "fake", Bucket: "b",
			Open: func(context.Context) (Store, Notices, error) { return p.store, nil, nil }},
			engine.Env{Log: slog.New(slog.DiscardHandler), Name: "in", Pipeline: "p", Index: i, Instances: n, Shared: p.shared}))
	}
	return all
}

// finish reads inputs at once to their ends, or until nothing has come for a while, and settles what fate gives. It
// returns what was read, sorted.
func finish(t *testing.T, all []*Input, fate func(body string) engine.Fate) (got []string) {
	t.Helper()
	var mu sync.Mutex
	var readers sync.WaitGroup
	for _, in := range all {
		if err := in.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			for failures := 0; failures < 10; {
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
				b := engine.NewBatch(1)
				acker, err := in.Read(ctx, b)
				over := ctx.Err() != nil
				cancel()
				mu.Lock()
				for m := range b.All() {
					got = append(got, string(m.Bytes()))
					if acker == nil {
						continue
					}
					if _, err := acker.Ack(t.Context(), []engine.Result{{Ref: m.Ref, Fate: fate(string(m.Bytes()))}}); err != nil {
						t.Error(err)
					}
				}
				mu.Unlock()
				switch {
				case err == engine.ErrEnd, over:
					return
				case err != nil:
					failures++
				}
			}
		})
	}
	readers.Wait()
	for _, in := range all {
		if err := in.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if err := in.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(got)
	return got
}

func delivered(string) engine.Fate { return engine.Delivered }

// TestTheNextRunReadsNothingAgain whatever the number of instances.
func TestTheNextRunReadsNothingAgain(t *testing.T) {
	for _, instances := range []int{1, 4} {
		for _, interval := range []time.Duration{0, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				s := &paged{fake: ofKeys(keys(20)...)}
				checkpoint := filepath.Join(t.TempDir(), "cp")
				for run, want := range []int{20, 0, 0} {
					in := process{s, &engine.Shared{}}.inputs(instances, func(src *Source) {
						src.Checkpoint, src.Interval = checkpoint, interval
					})
					if got := finish(t, in, delivered); len(got) != want {
						t.Errorf("%d instances, interval %s, run %d: read %d objects, want %d", instances, interval, run+1, len(got), want)
					}
				}
			})
		}
	}
}

// TestAListingThatIsInterrupted by a pause, or that fails, goes on where it was.
func TestAListingThatIsInterrupted(t *testing.T) {
	for name, fails := range map[string]func(ctx context.Context) error{
		"by a pause": func(ctx context.Context) error {
			<-ctx.Done() // while the store answers
			return ctx.Err()
		},
		"by an outage":               func(context.Context) error { return engine.Errorf(engine.Transient, "no answer") },
		"by credentials that expire": func(context.Context) error { return engine.Errorf(engine.Auth, "the token has expired") },
	} {
		for _, interval := range []time.Duration{0, time.Minute} {
			synctest.Test(t, func(t *testing.T) {
				s := &paged{fake: ofKeys(keys(9)...)}
				failed := map[string]bool{}
				s.before = func(ctx context.Context, token string) error {
					if failed[token] {
						return nil
					}
					failed[token] = true
					return fails(ctx)
				}
				in := process{s, &engine.Shared{}}.inputs(1, func(src *Source) { src.Interval = interval })[0]
				if err := in.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				var got []string
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					b := engine.NewBatch(1)
					_, err := in.Read(ctx, b)
					cancel()
					for m := range b.All() {
						got = append(got, string(m.Bytes()))
					}
					if err == engine.ErrEnd {
						break
					}
				}
				if !slices.Equal(got, keys(9)) {
					t.Errorf("interrupted %s, interval %s: read %q, want each object once", name, interval, got)
				}
				if err := in.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestAListingThatCanNotBeContinued starts over, and forgets nothing.
func TestAListingThatCanNotBeContinued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &paged{fake: ofKeys(keys(9)...)}
		s.before = func(_ context.Context, token string) error {
			if token == "4" && s.lists.Load()%2 == 0 {
				return engine.Errorf(engine.Rejected, "the token has expired")
			}
			return nil
		}
		in := process{s, &engine.Shared{}}.inputs(1, func(src *Source) { src.Interval = 20 * time.Second })
		if got := finish(t, in, delivered); !slices.Equal(got, keys(9)) {
			t.Errorf("read %q, want each object once", got)
		}
		if n := s.lists.Load(); n < 4 {
			t.Errorf("only %d listings", n)
		}
	})
}

// TestAReload puts another input in the place of one, which then goes on where that was.
func TestAReload(t *testing.T) {
	for _, checkpoint := range []string{"", "cp"} {
		synctest.Test(t, func(t *testing.T) {
			t.Chdir(t.TempDir())
			s := &paged{fake: ofKeys(keys(5)...)}
			p := process{s, &engine.Shared{}}
			interval := time.Minute
			reload := func() []*Input {
				interval += time.Second
				return p.inputs(2, func(src *Source) { src.Interval, src.Checkpoint = interval, checkpoint })
			}
			returned := func(body string) engine.Fate {
				if body == "4" { // the last one that an instance reads
					return engine.Returned
				}
				return engine.Delivered
			}
			if got := finish(t, reload(), returned); !slices.Equal(got, keys(5)) {
				t.Errorf("read %q", got)
			}
			s.objects = append(s.objects, Object{Key: "new", ETag: "1", Size: 4})
			want := []string{"4", "new"}
			if checkpoint == "" {
				want = want[1:] // its source takes nothing back
			}
			if got := finish(t, reload(), delivered); !slices.Equal(got, want) {
				t.Errorf("after a reload: read %q, want %q", got, want)
			}
			if got := finish(t, reload(), delivered); len(got) != 0 {
				t.Errorf("after another: read %q", got)
			}
		})
	}
}

// TestAnInstanceThatIsClosedAndOpenedAgain goes on in its object, beside another.
func TestAnInstanceThatIsClosedAndOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &paged{fake: ofKeys(keys(6)...)}
		all := process{s, &engine.Shared{}}.inputs(2, func(src *Source) { src.Checkpoint = filepath.Join(t.TempDir(), "cp") })
		var got []string
		for ended := 0; ended < 2; {
			ended = 0
			for _, in := range all {
				if err := in.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				b := engine.NewBatch(1)
				_, err := in.Read(t.Context(), b)
				if err == engine.ErrEnd {
					ended++
				} else if err != nil {
					t.Fatal(err)
				}
				for m := range b.All() { // it is never settled
					got = append(got, string(m.Bytes()))
				}
				if err := in.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, keys(6)) {
			t.Errorf("read %q, want each object once", got)
		}
	})
}

// TestOldCheckpointsOfObjectsAreRead whose done objects are pairs of hashes.
func TestOldCheckpointsOfObjectsAreRead(t *testing.T) {
	b := newBook(&Source{}, Opening{Kind: "fake", Bucket: "b"}, engine.Env{})
	k, v := b.hashes("a", "1")
	all, err := b.convert(fmt.Appendf(nil, `{"open":[{"key":"c","etag":"2","offset":7,"line":2,"seen":"2026-01-02T03:04:05Z"}],"done":%q}`,
		base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, k), v))))
	if err != nil || len(all) != 2 || all[0].key != k || all[0].version != v || all[1].reading.Offset != 7 {
		t.Fatalf("got %+v, %v", all, err)
	}
	for i, o := range all {
		text, err := o.AppendText(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := b.parse(text)
		if err != nil || again.key != o.key || again.version != o.version || (again.reading == nil) != (o.reading == nil) {
			t.Errorf("%d: %s is read as %+v, %v", i, text, again, err)
		}
	}
}
