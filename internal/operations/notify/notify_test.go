package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

// hook is a webhook, and the pipeline that the notifier watches.
type hook struct {
	*Notifier
	mu     sync.Mutex // guards the fields below
	got    []string   // events, with the seconds since the start
	state  engine.State
	down   bool                                   // the pipeline's output fails
	answer func(ctx context.Context, n int) error // of attempt n, from 1; nil: success
	tries  int
}

// start runs a notifier in virtual time. stop ends it and waits.
func start(t *testing.T, on ...string) (h *hook, stop func()) { return startWith(t, nil, on...) }

// startWith is start with more receivers.
func startWith(t *testing.T, more []*receiver, on ...string) (h *hook, stop func()) {
	began := time.Now()
	h = &hook{state: engine.Running}
	n, err := New(Config{On: on, After: 10 * time.Second}, func() []engine.Snapshot {
		h.mu.Lock()
		defer h.mu.Unlock()
		s := engine.Snapshot{Pipeline: "orders", State: h.state}
		if h.down {
			s.Outputs = []engine.OutputState{{Name: "lake", Breaker: "closed", Err: "password hunter2 is wrong"}}
		}
		return []engine.Snapshot{s}
	}, secretsOf("hunter2"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h.Notifier = n
	send := func(ctx context.Context, e Event) error {
		h.mu.Lock()
		h.tries++
		answer, i := h.answer, h.tries
		h.mu.Unlock()
		if answer != nil {
			if err := answer(ctx, i); err != nil {
				return err
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		text := e.Event + " " + time.Since(began).Truncate(time.Second).String()
		if e.Reason != "" {
			text += " " + e.Reason
		}
		for _, c := range e.Checks {
			text += " " + c.Component + " " + c.Error
		}
		h.got = append(h.got, text)
		return nil
	}
	n.receivers = append(more, &receiver{"http", make(chan Event, most), 2 * time.Second, send, func() {}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx, context.WithoutCancel(ctx)) })
	return h, func() { cancel(); running.Wait() }
}

func secretsOf(text string) *schema.Secrets {
	s := &schema.Secrets{}
	s.Add(text)
	return s
}

func (h *hook) set(down bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = down
}

func (h *hook) want(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.got, want) {
		t.Errorf("sent %q, want %q", h.got, want)
	}
}

func TestReadinessIsToldWhenItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, stop := start(t, Kinds...)
		time.Sleep(20*time.Second + look/2) // between two looks
		h.set(true)
		time.Sleep(5 * time.Second)
		h.set(false) // too short
		time.Sleep(5 * time.Second)
		h.set(true)
		time.Sleep(30 * time.Second)
		h.set(false)
		time.Sleep(5 * time.Second)
		h.Ended("orders", errors.New("password hunter2 is wrong"))
		stop()
		h.want(t, "ready 0s", "not_ready 41s output lake password *** is wrong", "ready 1m1s", "failed 1m5s password *** is wrong")
	})
}

func TestAnEventIsSentAgainUntilItArrives(t *testing.T) {
	transient := engine.Errorf(engine.Transient, "503")
	for _, tt := range []struct {
		name   string
		answer func(ctx context.Context, n int) error
		want   []string
		tries  int
	}{
		{"after failures", func(_ context.Context, n int) error {
			if n <= 3 {
				return transient
			}
			return nil
		}, []string{"failed 7s a", "stopped 7s"}, 5},
		{"when the server asks for a wait", func(_ context.Context, n int) error {
			if n == 1 {
				return &engine.Error{Class: engine.Transient, Delay: time.Minute, Err: errors.New("429")}
			}
			return nil
		}, []string{"failed 1m0s a", "stopped 1m0s"}, 3},
		{"not when it is rejected", func(_ context.Context, n int) error {
			if n == 1 {
				return engine.Errorf(engine.Rejected, "400")
			}
			return nil
		}, []string{"stopped 0s"}, 2},
		{"not for ever", func(_ context.Context, n int) error {
			if n <= 20 {
				return transient
			}
			return nil
		}, []string{"stopped 14m3s"}, 21},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, stop := start(t, Failed, Stopped)
				h.mu.Lock()
				h.answer = tt.answer
				h.mu.Unlock()
				h.Ended("orders", errors.New("a"))
				h.Ended("orders", nil)
				time.Sleep(time.Hour)
				stop()
				h.want(t, tt.want...)
				if h.tries != tt.tries {
					t.Errorf("%d attempts, want %d", h.tries, tt.tries)
				}
			})
		})
	}
}

func TestAtTheEndEventsAreSentForFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, stop := start(t, Stopped)
		h.answer = func(_ context.Context, n int) error {
			if n < 8 {
				return engine.Errorf(engine.Transient, "503")
			}
			return nil
		}
		h.Ended("orders", nil)
		time.Sleep(20 * time.Second) // the sixth attempt is due after 31s
		began := time.Now()
		stop()
		h.want(t, "stopped 23s") // attempts after 20s, 21s and 23s
		if took := time.Since(began); took > goodbye {
			t.Errorf("the end took %v", took)
		}
	})
}

// An attempt may have an effect before it ends, such as a mail that a program sends.
func TestTheEndOfTheProcessRepeatsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, stop := start(t, Stopped)
		h.answer = func(ctx context.Context, _ int) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				return nil
			}
		}
		h.Ended("orders", nil)
		synctest.Wait()
		stop()
		h.want(t, "stopped 1s")
		if h.tries != 1 {
			t.Errorf("%d attempts, want 1", h.tries)
		}
	})
}

func TestAReceiverThatHangsDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _ Event) error {
			<-ctx.Done()
			return ctx.Err()
		}
		h, stop := startWith(t, []*receiver{{"exec", make(chan Event, most), time.Minute, hang, func() {}}}, Stopped)
		for range 3 {
			h.Ended("orders", nil)
		}
		time.Sleep(time.Second)
		h.want(t, "stopped 0s", "stopped 0s", "stopped 0s")
		stop()
	})
}

func TestAServerThatHangsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, stop := start(t, Stopped)
		h.answer = func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		for range 3 * most {
			h.Ended("orders", nil)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("events were taken in %v, want at once", took)
		}
		stop()
		if took := time.Since(began); took > goodbye {
			t.Errorf("the end took %v, want at most %v", took, goodbye)
		}
	})
}

// TestARequest posts to a real server.
func TestARequest(t *testing.T) {
	type request struct {
		path, auth, kind string
		body             map[string]any
	}
	got := make(chan request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		req := request{path: r.URL.Path, auth: r.Header.Get("X-Key"), kind: r.Header.Get("Content-Type")}
		_ = json.Unmarshal(body, &req.body)
		got <- req
	}))
	defer server.Close()
	template := func(text string) (x expr.Template) {
		decode(t, text, &x)
		return x
	}
	c := HTTP{Timeout: 10 * time.Second, Calls: httpx.Calls{URL: template(server.URL + "/$(pipeline)"),
		Headers: schema.MapOf(schema.Entry[expr.Template]{Key: "X-Key", Value: template("k")})}}
	decode(t, `{text: pipeline + " " + event + ": " + reason}`, &c.Body)
	send := only(t, Config{On: Kinds, HTTP: &c})
	if err := send(t.Context(), Event{Event: Failed, Pipeline: "orders", Reason: "disk full"}); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.path != "/orders" || r.auth != "k" || !strings.HasPrefix(r.kind, "application/json") ||
		r.body["text"] != "orders failed: disk full" {
		t.Errorf("got %+v", r)
	}
}

// only returns how the only receiver of a configuration is sent an event.
func only(t *testing.T, c Config) func(context.Context, Event) error {
	t.Helper()
	n, err := New(c, nil, secretsOf("hunter2"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.receivers[0].close)
	return n.receivers[0].send
}

func TestAProgramSeesTheEvent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seen")
	e := Event{Event: Failed, Pipeline: "orders", Host: "h", Time: time.Unix(0, 0).UTC(),
		Reason: "line 1\nNUL \x00 " + strings.Repeat("x", 1<<20)}
	for _, tt := range []struct {
		script, want string
		class        engine.Class
	}{
		{script: `printf %s "$FLOWD_EVENT $FLOWD_PIPELINE $FLOWD_HOST $FLOWD_TIME" >$0`, want: "failed orders h 1970-01-01T00:00:00Z"},
		{script: `printf %.12s "$FLOWD_REASON" >$0`, want: "line 1\nNUL  "},
		{script: `head -c 37 >$0`, want: `{"event":"failed","pipeline":"orders"`},
		{script: `echo hunter2 >&2; exit 3`, want: "exit status 3: ***", class: engine.Permanent},
		{script: `exit 75`, want: "exit status 75", class: engine.Transient},
		{script: `exec sleep 60`, want: "the program was killed", class: engine.Timeout},
	} {
		send := only(t, Config{On: Kinds, Exec: &Exec{Command: []string{"sh", "-c", tt.script, file}}})
		limit := 10 * time.Second
		if tt.class == engine.Timeout {
			limit = 10 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := send(ctx, e)
		cancel()
		why, _ := errors.AsType[*engine.Error](err)
		if tt.class != "" {
			if why == nil || why.Class != tt.class || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: got %v, want %s of class %s", tt.script, err, tt.want, tt.class)
			}
			continue
		}
		if got, _ := os.ReadFile(file); err != nil || string(got) != tt.want {
			t.Errorf("%s: got %q and %v, want %q", tt.script, got, err, tt.want)
		}
	}
}

func decode(t *testing.T, text string, to any) {
	t.Helper()
	d := schema.NewDecoder(nil)
	d.Decode(&schema.Node{Kind: schema.TextNode, Text: text}, to)
	if problems := d.Problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
}
