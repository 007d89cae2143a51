package sqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
	"github.com/google/go-cmp/cmp"
)

// ending is an input that ends when its queue is empty, as the suite requires.
type ending struct {
	*input
	*fakesqs.Server
}

func (e ending) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if !slices.ContainsFunc(e.Messages("orders"), func(m fakesqs.Message) bool { return m.Receives == 0 }) {
		return e.input, engine.ErrEnd
	}
	return e.input.Read(ctx, b)
}

// Close also stops the service, since the suite counts goroutines.
func (e ending) Close(ctx context.Context) error {
	defer e.Server.Close()
	return e.input.Close(ctx)
}

func TestInput(t *testing.T) {
	var want []string
	for i := range 23 {
		want = append(want, fmt.Sprintf("m%d", i))
	}
	enginetest.Input(t, func(t *testing.T) engine.Input {
		s := fakesqs.Start(t)
		s.Create("orders", fakesqs.Queue{})
		s.Put("orders", want...)
		in := enginetest.New(t, engine.Inputs, `{"sqs": {"queue": "orders", "wait": "0s"}}`).(*input)
		in.http = s.Client()
		return ending{in, s}
	}, want...)
}

func TestLint(t *testing.T) {
	tests := []struct {
		name, config, want string
	}{
		{"a name", `{"sqs": "orders"}`, ""},
		{"a pattern", `{"sqs": "orders-[a-c]?-*.fifo"}`, ""},
		{"a pattern that is not closed", `{"sqs": "orders-["}`,
			`"orders-[" is not a valid pattern of queue names (write letters`},
		{"a pattern with a space", `{"sqs": "orders *"}`, "is not a valid pattern of queue names"},
		{"a pattern in an ARN", `{"sqs": "arn:aws:sqs:eu-central-1:123456789012:orders-*"}`,
			`an ARN or URL can't contain a pattern such as "orders-*" (write only the pattern, and`},
		{"a pattern in a URL", `{"sqs": "https://sqs.eu-central-1.amazonaws.com/123456789012/orders-?"}`,
			"is not a queue URL"},
		{"a URL", `{"sqs": {"queue": "https://sqs.eu-central-1.amazonaws.com/123456789012/orders"}}`, ""},
		{"an ARN", `{"sqs": {"queue": "arn:aws:sqs:eu-central-1:123456789012:orders.fifo"}}`, ""},
		{"no ARN of a queue", `{"sqs": {"queue": "arn:aws:sns:eu-central-1:123456789012:orders"}}`,
			"is not a queue ARN (write arn:aws:sqs:REGION:ACCOUNT:NAME)"},
		{"an ARN without account", `{"sqs": {"queue": "arn:aws:sqs:eu-central-1::orders"}}`, "is not a queue ARN"},
		{"a URL with a password", `{"sqs": {"queue": "https://me:secret@host/1/orders"}}`, "is not a queue URL"},
		{"no name", `{"sqs": {"queue": "or ders"}}`, "is not a valid queue name"},
		{"two regions", `{"sqs": {"queue": "arn:aws:sqs:eu-central-1:123456789012:orders", "region": "us-east-1"}}`,
			"is us-east-1, but the queue is in eu-central-1"},
		{"a wait that SQS does not have", `{"sqs": {"queue": "orders", "wait": "21s"}}`, "20s"},
		{"half a second", `{"sqs": {"queue": "orders", "wait": "500ms"}}`, "has a fraction of a second"},
		{"eleven messages", `{"sqs": {"queue": "orders", "max": 11}}`, "10"},
		{"a lease over 12 hours", `{"sqs": {"queue": "orders", "lease": {"max": "13h"}}}`, "12h"},
		{"a lease that is never renewed", `{"sqs": {"queue": "orders", "visibility": "1h", "lease": {"max": "30m"}}}`,
			"is less than visibility"},
		{"no endpoint", `{"sqs": {"queue": "orders", "endpoint": "localhost:4566"}}`, "is not a service URL"},
		{"keys in part", `{"sqs": {"queue": "orders", "credentials": {"access_key_id": "x"}}}`, "secret_access_key"},
		{"another's word", `{"sqs": {"queue_url": "orders"}}`, "write `queue`"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			problems := fmt.Sprint(enginetest.Problems(t, engine.Inputs, tt.config))
			if tt.want == "" && problems != "[]" || !strings.Contains(problems, tt.want) {
				t.Errorf("got %s, want %q", problems, tt.want)
			}
			if strings.Contains(problems, "secret@") {
				t.Error("a password shows")
			}
		})
	}
}

func TestMetadataSaysWhereAMessageComesFrom(t *testing.T) {
	virtual(t, fakesqs.Queue{}, func(c *Config) { c.Queue = "orders.fifo" }, func(t *testing.T, b *bench) {
		b.PutWith("orders.fifo", "g:1", map[string]fakesqs.Attribute{
			"kind": {DataType: "String", StringValue: "x"}, "n": {DataType: "Number.int", StringValue: "7"},
			"price":            {DataType: "Number", StringValue: "1.5"},
			"huge":             {DataType: "Number", StringValue: "123456789012345678901234567890"},
			"raw":              {DataType: "Binary", BinaryValue: []byte{0, 255}},
			"message_group_id": {DataType: "String", StringValue: "forged"},
		})
		b.open(t)
		m := b.read(t, 10)[0]
		now := time.Now().UTC().Truncate(time.Millisecond)
		want := map[string]any{
			"queue": "orders.fifo", "message_id": "orders.fifo-1", "receive_count": 1, "sent_at": now,
			"first_received_at": now, "sender_id": "AIDAEXAMPLE",
			"message_group_id": "g", "dedupe_id": "0", "sequence_number": "1",
			"kind": "x", "n": 7, "price": 1.5, "huge": "123456789012345678901234567890", "raw": "\x00\xff",
			"attribute_message_group_id": "forged",
		}
		if diff := cmp.Diff(want, m.Meta.Map()); diff != "" {
			t.Error(diff)
		}
		added := 0
		for range m.Meta.Added() {
			added++
		}
		if m.Attempt != 1 || added != 6 {
			t.Errorf("attempt %d, %d values to be sent along; want 1 and 6", m.Attempt, added)
		}
	})
}

func TestAReceiveAsksForNoMoreThanThereIsRoomFor(t *testing.T) {
	virtual(t, fakesqs.Queue{}, func(c *Config) { c.Wait = 5 * time.Second }, func(t *testing.T, b *bench) {
		b.Put("orders", slices.Repeat([]string{"x"}, 20)...)
		b.open(t)
		if n := len(b.read(t, 3)); n != 3 {
			t.Errorf("got %d messages, want 3", n)
		}
		if n := len(b.read(t, 256)); n != 10 {
			t.Errorf("got %d messages, want 10", n)
		}
		if r := b.Calls("ReceiveMessage")[1].Request; !strings.Contains(r, `"WaitTimeSeconds":5`) ||
			!strings.Contains(r, `"VisibilityTimeout":30`) {
			t.Errorf("asked %s", r)
		}
	})
}

func TestAReadEndsWithItsContext(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.open(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := b.in.Read(ctx, engine.NewBatch(10)); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("err %v after %v, want none after 3s", err, time.Since(began))
		}
	})
}

func TestWhatComesWhileNobodyReadsIsVisibleAtOnce(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.open(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, _ = b.in.Read(ctx, engine.NewBatch(10))
		b.Put("orders", "a")
		time.Sleep(time.Millisecond)
		if m := b.Messages("orders")[0]; m.Receives != 1 || m.Visible.After(time.Now()) {
			t.Errorf("received %d times, hidden for %v", m.Receives, time.Until(m.Visible))
		}
		if got := bodies(b.read(t, 10)); !slices.Equal(got, []string{"a"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestAReadTakesUpThePollThatTheLastOneLeft(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.open(t)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, _ = b.in.Read(ctx, engine.NewBatch(10))
		time.AfterFunc(5*time.Second, func() { b.Put("orders", "a", "b", "c") })
		if got := bodies(b.read(t, 2)); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("got %q", got)
		}
		if m := b.Messages("orders")[2]; m.Visible.After(time.Now()) {
			t.Error("what there was no room for is hidden")
		}
		if n := len(b.Calls("ReceiveMessage")); n != 1 {
			t.Errorf("%d receives", n)
		}
	})
}

func TestWhatAClosingInputTakesInIsVisibleAtOnce(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", "a")
		dst := &enginetest.Sink{Block: make(chan struct{})}
		p := b.pipeline(dst)
		p.Engine.Drain.Timeout = 10 * time.Second
		b.run(t, p, 5*time.Second)
		if m := b.Messages("orders")[0]; m.Receives != 2 || m.Visible.After(time.Now()) {
			t.Errorf("received %d times, hidden for %v: the open poll gets it again, and gives it back", m.Receives,
				time.Until(m.Visible))
		}
	})
}

func TestMessagesWakeALongPoll(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.open(t)
		time.AfterFunc(7*time.Second, func() { b.Put("orders", "a") })
		began := time.Now()
		if got := bodies(b.read(t, 10)); !slices.Equal(got, []string{"a"}) || time.Since(began) != 7*time.Second {
			t.Errorf("got %q after %v", got, time.Since(began))
		}
	})
}

// After an empty receive, the caller pauses, as the input poll does.
func TestAnEmptyReadThatDoesNotWaitReturnsAtOnce(t *testing.T) {
	virtual(t, fakesqs.Queue{}, func(c *Config) { c.Wait = 0 }, func(t *testing.T, b *bench) {
		b.open(t)
		began := time.Now()
		for _, at := range []time.Duration{0, 3 * time.Second, 6 * time.Second} {
			time.Sleep(time.Until(began.Add(at)))
			if got := b.read(t, 10); len(bodies(got)) > 0 || time.Since(began).Round(time.Millisecond) != at {
				t.Errorf("got %q after %v, want nothing after %v", bodies(got), time.Since(began), at)
			}
		}
		if b.read(t, 10); time.Since(began).Round(time.Millisecond) != 7*time.Second {
			t.Errorf("the next receive is after %v, want 7s", time.Since(began))
		}
	})
}

func TestWithoutLongPollingAnEmptyQueueIsAskedOnceASecond(t *testing.T) {
	virtual(t, fakesqs.Queue{}, func(c *Config) { c.Wait = 0 }, func(t *testing.T, b *bench) {
		b.run(t, b.pipeline(&enginetest.Sink{}), 10*time.Second)
		if n := len(b.Calls("ReceiveMessage")); n < 9 || n > 12 {
			t.Errorf("%d receives in 10s", n)
		}
	})
}

func TestItDoesNotOpen(t *testing.T) {
	tests := []struct {
		name  string
		env   map[string]string
		queue string
		fault fakesqs.Fault
		class engine.Class
		want  string
	}{
		{"without the queue", nil, "other", fakesqs.Fault{}, engine.Transient,
			"queue other in us-east-1: it does not exist (create it"},
		{"without the queue, by URL", nil, "http://sqs.test/1/other", fakesqs.Fault{}, engine.Transient,
			"queue other: it does not exist"},
		{"without the right", nil, "orders", fakesqs.Fault{Code: "AccessDenied", Message: "User x is not authorized",
			Status: 403, Times: -1}, engine.Auth,
			"sqs:GetQueueUrl: AccessDenied: User x is not authorized (allow these credentials this action)"},
		{"with wrong credentials", nil, "orders", fakesqs.Fault{Code: "InvalidClientTokenId",
			Message: "The security token included in the request is invalid.", Status: 403, Times: -1}, engine.Auth,
			"InvalidClientTokenId: The security token included in the request is invalid. (check AWS_ACCESS_KEY_ID"},
		{"without credentials", map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "orders",
			fakesqs.Fault{}, engine.Auth, "no AWS credentials: "},
		{"without a region", map[string]string{"AWS_REGION": ""}, "orders", fakesqs.Fault{}, engine.Permanent,
			"the region is unknown (set `region`"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := fakesqs.Start(t)
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			s.Create("orders", fakesqs.Queue{})
			if tt.fault.Code != "" {
				s.Fault("GetQueueUrl", tt.fault)
			}
			in := enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"sqs": {"queue": %q}}`, tt.queue)).(*input)
			in.http = s.Client()
			err := in.Open(t.Context())
			var e *engine.Error
			if !errors.As(err, &e) || e.Class != tt.class || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want class %s and %q", err, tt.class, tt.want)
			}
		})
	}
}

func TestTheQueueIsFoundByNameURLAndARN(t *testing.T) {
	for _, queue := range []string{"orders", "http://sqs.test/000000000000/orders",
		"arn:aws:sqs:us-east-1:000000000000:orders"} {
		virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
			in, err := newInput(Config{Queue: queue, Max: 10, Wait: time.Second}, engine.Env{Log: b.in.log})
			if err != nil {
				t.Fatal(err)
			}
			b.in = in.(*input)
			b.in.http = b.Client()
			b.Put("orders", "a")
			b.open(t)
			if got := bodies(b.read(t, 10)); !slices.Equal(got, []string{"a"}) {
				t.Errorf("%s: got %q", queue, got)
			}
		})
	}
}

func TestFailingReceivesAreTriedForEver(t *testing.T) {
	tests := []struct {
		name  string
		fault fakesqs.Fault
		calls int // maximum, in 10 minutes
	}{
		{"one bad answer", fakesqs.Fault{Code: "InternalError", Status: 500}, 40},
		{"an outage of half an hour", fakesqs.Fault{Code: "InternalError", Status: 500, Times: 60}, 150},
		{"throttled, told when to come again", fakesqs.Fault{Code: "RequestThrottled", Times: 9,
			Header: map[string]string{"Retry-After": "30"}}, 40},
		{"answers that are cut off", fakesqs.Fault{Cut: true, Times: 5}, 40},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
				b.Fault("ReceiveMessage", tt.fault)
				dst := &enginetest.Sink{}
				time.AfterFunc(9*time.Minute, func() { b.Put("orders", "a") })
				rep := b.run(t, b.pipeline(dst), 10*time.Minute)
				if rep.Err != nil || !slices.Equal(dst.Bodies(), []string{"a"}) {
					t.Errorf("err %v, delivered %q", rep.Err, dst.Bodies())
				}
				if n := len(b.Calls("ReceiveMessage")); n > tt.calls {
					t.Errorf("%d receives: a storm", n)
				}
				if n := strings.Count(b.log.String(), "\n"); n > 12 {
					t.Errorf("%d log lines:\n%s", n, b.log.String())
				}
			})
		})
	}
}

func TestAQueueThatIsDeletedIsWaitedFor(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		time.AfterFunc(time.Minute, func() { b.Delete("orders") })
		time.AfterFunc(5*time.Minute, func() { b.Create("orders", fakesqs.Queue{}); b.Put("orders", "a") })
		dst := &enginetest.Sink{}
		rep := b.run(t, b.pipeline(dst), 10*time.Minute)
		if rep.Err != nil || !slices.Equal(dst.Bodies(), []string{"a"}) || len(b.Messages("orders")) != 0 {
			t.Errorf("err %v, delivered %q", rep.Err, dst.Bodies())
		}
		if n := len(b.Calls("")); n > 200 {
			t.Errorf("%d calls in 10 minutes: a storm", n)
		}
	})
}

func TestLargeMessagesArriveWhole(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", slices.Repeat([]string{strings.Repeat("x", 100<<10)}, 10)...)
		b.open(t)
		for _, m := range b.read(t, 10) {
			if m.Size() != 100<<10 {
				t.Errorf("%d bytes", m.Size())
			}
		}
	})
}

func TestACutConnectionIsNotTheEndOfAQueue(t *testing.T) {
	virtual(t, fakesqs.Queue{}, nil, func(t *testing.T, b *bench) {
		b.Put("orders", "a", "b")
		b.Fault("ReceiveMessage", fakesqs.Fault{Times: 10, Cut: true})
		dst := &enginetest.Sink{}
		b.run(t, b.pipeline(dst), time.Hour)
		if got := slices.Sorted(slices.Values(dst.Bodies())); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("delivered %q", got)
		}
	})
}

func TestMessagesThatAreTooManyForAnAnswerComeInSeveral(t *testing.T) {
	virtual(t, fakesqs.Queue{Visibility: 30 * time.Second}, nil, func(t *testing.T, b *bench) {
		var want []string
		for i := range 5 {
			want = append(want, strings.Repeat(`"`, 1<<20-1)+strconv.Itoa(i))
		}
		b.Put("orders", want...)
		var dst enginetest.Sink
		b.run(t, b.pipeline(&dst), 3*time.Minute)
		if got := dst.Bodies(); len(got) < len(want) {
			t.Errorf("%d of %d messages came\n%s", len(got), len(want), b.log.String())
		}
		if !strings.Contains(b.log.String(), "fewer messages") {
			t.Error("nothing is said")
		}
	})
}

func TestConnectionsThatBreak(t *testing.T) {
	var s *fakesqs.Server
	enginetest.RemoteInput{
		Reach: func(t *testing.T, wire *enginetest.Wire) string {
			s = fakesqs.Start(t)
			s.Create("orders", fakesqs.Queue{Visibility: time.Second})
			t.Setenv("AWS_ENDPOINT_URL", wire.Over(s.Listen()))
			return `{"sqs": {"queue": "orders", "wait": "1s"}}`
		},
		Send: func(_ *testing.T, payloads ...string) { s.Put("orders", payloads...) },
		SendHeaders: func(_ *testing.T, payload string, headers map[string]string) {
			all := map[string]fakesqs.Attribute{}
			for name, value := range headers {
				all[name] = fakesqs.Attribute{DataType: "String", StringValue: value}
			}
			s.PutWith("orders", payload, all)
		},
		Left:   func(*testing.T) int { return len(s.Bodies("orders")) },
		Shared: true,
	}.Run(t)
}
