package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestRequestsThatAreNotReadSoonAreRefused(t *testing.T) {
	const over, full = `{"error":"the rate limit is used up","status":429}`,
		`{"error":"the pipeline takes no messages at present","status":503}`
	tests := []struct {
		name   string
		limits []time.Duration // limits that are set one after another; 0: no limit
		waits  bool            // the last limit is set while the request waits
		status int
		answer string
		after  int // minimum of Retry-After
	}{
		{"no limit, and no reader: full", nil, false, 503, full, 1},
		{"a limit that is used up for an hour", []time.Duration{time.Hour}, false, 429, over, 3590},
		{"one that begins while the request waits", []time.Duration{time.Hour}, true, 429, over, 3590},
		{"one that is renewed too late", []time.Duration{5 * time.Second}, false, 429, over, 4},
		{"one that is renewed soon, and no reader: full", []time.Duration{50 * time.Millisecond}, false, 503, full, 1},
		{"one that is over", []time.Duration{time.Hour, 0}, false, 503, full, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, `"127.0.0.1:0"`)
			defer r.Close(context.Background())
			limit := func() {
				for _, d := range tt.limits {
					var until time.Time
					if d > 0 {
						until = time.Now().Add(d)
					}
					r.Limited(until)
				}
			}
			var wg sync.WaitGroup
			if tt.waits {
				wg.Go(func() {
					for r.queue.Load().Bytes == 0 {
						<-time.After(time.Millisecond)
					}
					limit()
				})
			} else {
				limit()
			}
			res, answer := do(t, "POST", r.url, "x")
			wg.Wait()
			after, _ := strconv.Atoi(res.Header.Get("Retry-After"))
			if res.StatusCode != tt.status || answer != tt.answer || after < tt.after {
				t.Errorf("got %d %s after %d s, want %d %s after at least %d s", res.StatusCode, answer, after,
					tt.status, tt.answer, tt.after)
			}
		})
	}
}

func TestALimitThatIsRenewedSoonIsWaitedFor(t *testing.T) {
	r := serve(t, `"127.0.0.1:0"`)
	r.Limited(time.Now().Add(100 * time.Millisecond))
	if res, answer := do(t, "POST", r.url, "x"); res.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", res.StatusCode, answer)
	}
}

// Two requests pass. The third gets Retry-After, until an operator raises the limit.
func TestOverTheRateLimitOfAPipeline(t *testing.T) {
	in := enginetest.New(t, engine.Inputs, `{"http_server": "127.0.0.1:0"}`).(*input)
	var said lockedBuffer
	in.log = slog.New(slog.NewTextHandler(&said, nil))
	plan := enginetest.Build(t, &engine.Pipeline{
		Name: "web",
		Inputs: enginetest.Named("in", engine.InputSpec{
			Use:       engine.Use(func(engine.Env) (engine.Input, error) { return in, nil }),
			RateLimit: &engine.RateLimit{Messages: 2, Per: time.Hour},
		}),
		Outputs: enginetest.Named("out", (&enginetest.Sink{}).Output()),
		Engine:  engine.EngineSpec{Workers: 2},
	})
	stop, drain := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { plan.Run(stop, context.Background()) })
	defer func() { drain(); wg.Wait() }()
	url := said.address(t)
	for i, want := range []int{200, 200, 429, 429} {
		res, answer := do(t, "POST", url, "x")
		if res.StatusCode != want {
			t.Errorf("request %d: got %d %s, want %d", i+1, res.StatusCode, answer, want)
		}
		if after, _ := strconv.Atoi(res.Header.Get("Retry-After")); want == 429 && after < 3500 {
			t.Errorf("Retry-After %d, want about an hour", after)
		}
	}
	if err := plan.SetLimit("input in", 1000, time.Second, 0, true); err != nil {
		t.Fatal(err)
	}
	if res, answer := do(t, "POST", url, "x"); res.StatusCode != 200 {
		t.Errorf("after the limit was raised: got %d %s", res.StatusCode, answer)
	}
}
