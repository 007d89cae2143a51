package generate

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/steptest"
)

func TestInput(t *testing.T) {
	enginetest.Input(t, func(t *testing.T) engine.Input {
		return enginetest.New(t, engine.Inputs, `{"generate": {"count": 3, "body": "{n: counter()}"}}`)
	}, `{"n":1}`, `{"n":2}`, `{"n":3}`)
}

// read reads n messages.
func read(t *testing.T, in engine.Input, n int) (bodies []string) {
	t.Helper()
	for len(bodies) < n {
		b := engine.NewBatch(n - len(bodies))
		if _, err := in.Read(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for m := range b.All() {
			bodies = append(bodies, string(m.Bytes()))
		}
	}
	return bodies
}

func TestBodies(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"text is sent as it is", `'"hi"'`, `"hi" "hi"`},
		{"a constant object is JSON", "{a: 1}", `{"a":1} {"a":1}`},
		{"the counter counts", "counter() * 10", "10 20"},
		{"no field has a value", "missing ?? 7", "7 7"},
		{"counters have names, too", "[counter(), counter('test a'), counter('test a')]", "[1,1,2] [2,3,4]"},
		{"made-up data is called data", "len(fake('iban'))", "22 22"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := enginetest.New(t, engine.Inputs, `{"generate": {"body": `+quote(tt.body)+`}}`)
			if got := strings.Join(read(t, in, 2), " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestInstancesCountTogether(t *testing.T) {
	var in engine.InputSpec
	steptest.Decode(t, `{"generate": {"count": 5, "body": "counter()"}, "concurrency": 2}`, &in)
	sink := &enginetest.Sink{}
	rep := enginetest.Run(t, &engine.Pipeline{
		Inputs: enginetest.Named("in", in), Outputs: enginetest.Named("out", sink.Output()),
	}, nil)
	got := sink.Bodies()
	slices.SortFunc(got, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	if want := strings.Fields("1 2 3 4 5 6 7 8 9 10"); rep.Err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, got %v, want %v", rep.Err, got, want)
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

func TestASeedRepeats(t *testing.T) {
	make := func(seed string) engine.Input {
		return enginetest.New(t, engine.Inputs, `{"generate": {"seed": `+seed+
			`, "body": "[random(), random_int(1, 6), fake('email'), ulid()[10:]]"}}`)
	}
	first, again, other := read(t, make("5"), 20), read(t, make("5"), 20), read(t, make("6"), 20)
	if !slices.Equal(first, again) {
		t.Error("two runs with one seed differ")
	}
	if slices.Equal(first, other) {
		t.Error("two seeds give the same")
	}
}

func TestABodyThatFailsIsAFailedMessage(t *testing.T) {
	in := enginetest.New(t, engine.Inputs, `{"generate": {"count": 1, "body": "random_int(6, 1)"}}`)
	b := engine.NewBatch(5)
	if _, err := in.Read(t.Context(), b); err != engine.ErrEnd {
		t.Errorf("got %v, want the end beside the last message", err)
	}
	n := 0
	for m := range b.Ended() {
		n++
		if !strings.Contains(m.Err().Error(), "the smaller first") {
			t.Errorf("got %v", m.Err())
		}
	}
	if n != 1 {
		t.Errorf("%d failed, want 1", n)
	}
	if _, err := in.Read(t.Context(), engine.NewBatch(5)); err != engine.ErrEnd {
		t.Errorf("got %v, want the end", err)
	}
}

func TestInterval(t *testing.T) {
	tests := []struct {
		name, interval string
		want           time.Duration // time of the fourth message
	}{
		{"the first message is due at once", "10s", 30 * time.Second},
		{"short intervals are kept", "250us", 750 * time.Microsecond},
		// The virtual clock starts at midnight.
		{"cron names minutes", "*/15 * * * *", time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := enginetest.New(t, engine.Inputs,
					`{"generate": {"interval": "`+tt.interval+`", "body": "counter()"}}`)
				start := time.Now()
				read(t, in, 4)
				if got := time.Since(start); got != tt.want {
					t.Errorf("four messages after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestWhatWasMissedIsMadeUpForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := enginetest.New(t, engine.Inputs, `{"generate": {"interval": "100ms", "body": "counter()"}}`)
		read(t, in, 1)
		time.Sleep(time.Hour)
		b := engine.NewBatch(1000)
		if _, err := in.Read(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if b.Len() < 10 || b.Len() > 11 {
			t.Errorf("got %d messages after an hour's pause, want those of a second", b.Len())
		}
	})
}

func TestConfiguration(t *testing.T) {
	for interval, want := range map[string]string{
		"often":       "neither a duration nor a cron expression",
		"-1s":         "not positive",
		"60 * * * *":  "end of range (60) above maximum (59)",
		"5-1 * * * *": "beginning of range (5) beyond end of range (1)",
		"*/0 * * * *": "step of range should be a positive number",
		"0 0 31 2 *":  "names a date that does not exist",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Inputs,
			`{"generate": {"body": "1", "interval": "`+interval+`"}}`), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", interval, got, want)
		}
	}
}

func TestConstantsAllocateNothing(t *testing.T) {
	in := enginetest.New(t, engine.Inputs, `{"generate": {"body": "'hello'"}}`)
	read(t, in, 1)
	b := engine.NewBatch(1 << 20)
	if n := testing.AllocsPerRun(1000, func() { in.(*input).add(b) }); n > 0 {
		t.Errorf("%v allocations a message", n)
	}
}

func TestItShowsWhenTheNextMessageIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := enginetest.New(t, engine.Inputs, `{"generate": {"interval": "0 2 * * *", "body": "1"}}`)
		due := in.(engine.Scheduled).Due
		if !due().IsZero() {
			t.Errorf("due at %s before the first Read", due())
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = in.Read(t.Context(), engine.NewBatch(1))
		}()
		synctest.Wait()
		if want := time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC); !due().Equal(want) { // the bubble begins at midnight
			t.Errorf("due at %s, want %s", due(), want)
		}
		<-read
		if !due().IsZero() {
			t.Errorf("due at %s after it", due())
		}
	})
}
