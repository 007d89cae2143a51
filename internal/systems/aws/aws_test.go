package aws

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
	"github.com/flowd-io/flowd/schema"
	"pgregory.net/rapid"
)

// TestRequestsKeepTheirPromises makes calls that fail at random and checks their entries.
func TestRequestsKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 60).Draw(t, "entries")
		r := Requests{Bytes: rapid.SampledFrom([]int{0, 20, 50}).Draw(t, "bytes"),
			Parallel: rapid.IntRange(1, 4).Draw(t, "parallel")}
		entries := make([]Entry, n)
		for i := range entries {
			entries[i].Size = rapid.IntRange(1, 25).Draw(t, "size")
			entries[i].Lanes[0] = rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "key")
			entries[i].Lanes[1] = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "group")
			if rapid.IntRange(0, 15).Draw(t, "unfit") == 0 {
				entries[i].Err = errors.New("unfit")
			}
		}
		guilty := rapid.SliceOfN(rapid.IntRange(0, 9), n, n).Draw(t, "guilty")
		var mu sync.Mutex
		var sent []int
		errs := r.Do(t.Context(), entries, func(_ context.Context, which []int) ([]error, error) {
			size := 0
			lanes := map[string]bool{}
			for _, i := range which {
				size += entries[i].Size
				for _, l := range entries[i].Lanes {
					if l != "" && lanes[l] {
						t.Errorf("a call has lane %s twice", l)
					}
					lanes[l] = true
				}
			}
			if len(which) > 10 || len(which) > 1 && r.Bytes > 0 && size > r.Bytes {
				t.Errorf("a call has %d entries and %d bytes", len(which), size)
			}
			results := make([]error, len(which))
			for k, i := range which {
				switch guilty[i] {
				case 0:
					return nil, engine.Errorf(engine.Rejected, "the call is refused for %d", i)
				case 1:
					results[k] = engine.Errorf(engine.Transient, "%d", i)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, i := range which {
				if results[k] == nil {
					sent = append(sent, i)
				}
			}
			return results, nil
		})
		shut := map[string]bool{}
		for i, e := range entries {
			own := e.Err != nil || guilty[i] <= 1
			behind := shut[e.Lanes[0]] && e.Lanes[0] != "" || shut[e.Lanes[1]] && e.Lanes[1] != ""
			switch {
			case behind != errors.Is(errs[i], engine.ErrBehind):
				t.Errorf("entry %d: %v, behind %v", i, errs[i], behind)
			case !behind && own != (errs[i] != nil):
				t.Errorf("entry %d: %v, its own fault %v", i, errs[i], own)
			}
			if slices.Contains(sent, i) != (errs[i] == nil) {
				t.Errorf("entry %d: sent %v, but %v", i, slices.Contains(sent, i), errs[i])
			}
			if errs[i] != nil {
				shut[e.Lanes[0]], shut[e.Lanes[1]] = true, true
			}
		}
		for a, i := range sent {
			for _, j := range sent[a+1:] {
				for _, l := range entries[i].Lanes {
					if l != "" && slices.Contains(entries[j].Lanes[:], l) && j < i {
						t.Errorf("%d was overtaken by %d in lane %s", j, i, l)
					}
				}
			}
		}
	})
}

func TestRequestsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	errs := Requests{Parallel: 1}.Do(ctx, make([]Entry, 100), func(context.Context, []int) ([]error, error) {
		if n++; n == 2 {
			cancel()
		}
		return nil, nil
	})
	if n != 2 || errs[19] != nil || !errors.Is(errs[20], context.Canceled) {
		t.Errorf("%d calls, %v, %v", n, errs[19], errs[20])
	}
}

func TestParseQueue(t *testing.T) {
	tests := []struct {
		in   string
		want Queue
		fifo bool
	}{
		{"orders", Queue{Name: "orders"}, false},
		{"orders.fifo", Queue{Name: "orders.fifo"}, true},
		{"arn:aws:sqs:eu-central-1:123456789012:orders",
			Queue{Name: "orders", Account: "123456789012", Region: "eu-central-1"}, false},
		{"arn:aws-cn:sqs:cn-north-1:123456789012:orders.fifo",
			Queue{Name: "orders.fifo", Account: "123456789012", Region: "cn-north-1"}, true},
		{"https://sqs.eu-central-1.amazonaws.com/123456789012/orders", Queue{Name: "orders", Region: "eu-central-1",
			URL: "https://sqs.eu-central-1.amazonaws.com/123456789012/orders"}, false},
		{"https://eu-west-1.queue.amazonaws.com/123456789012/orders", Queue{Name: "orders", Region: "eu-west-1",
			URL: "https://eu-west-1.queue.amazonaws.com/123456789012/orders"}, false},
		{"http://localhost:4566/000000000000/orders",
			Queue{Name: "orders", URL: "http://localhost:4566/000000000000/orders"}, false},
	}
	for _, tt := range tests {
		if got, err := ParseQueue(tt.in); err != nil || got != tt.want || got.FIFO() != tt.fifo {
			t.Errorf("%s: got %+v, %v", tt.in, got, err)
		}
	}
	for _, bad := range []string{"", ".fifo", "a b", "orders.fifo.fifo", strings.Repeat("x", 81), "arn:",
		"arn:aws:s3:::bucket", "arn:aws:sqs:eu:1:q", "ftp://host/q", "http:///q", "https://u:p@host/q", "https://h:u:p@x@host/q",
		"http://host/"} {
		if got, err := ParseQueue(bad); err == nil {
			t.Errorf("%q is accepted as %+v", bad, got)
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("a password shows: %v", err)
		}
	}
}

func FuzzParseQueue(f *testing.F) {
	f.Add("arn:aws:sqs:eu-central-1:123456789012:orders")
	f.Add("https://sqs.eu-central-1.amazonaws.com/123456789012/orders")
	f.Fuzz(func(t *testing.T, text string) {
		if q, err := ParseQueue(text); err == nil && (q.Name == "" || len(q.Name) > 80) {
			t.Errorf("%q is %+v", text, q)
		}
	})
}

func TestValuesKeepTheirType(t *testing.T) {
	tests := []struct {
		kind, text string
		binary     []byte
		want       any
	}{
		{"String", "7", nil, "7"},
		{"String.Array", `["a"]`, nil, `["a"]`},
		{"Number", "7", nil, 7},
		{"Number.long", "-9223372036854775808", nil, -9223372036854775808},
		{"Number", "9223372036854775808", nil, "9223372036854775808"},
		{"Number", "0.1", nil, 0.1},
		{"Number", "1e3", nil, 1000.0},
		{"Number", "1e999", nil, "1e999"},
		{"Number", "0.1234567890123456789", nil, "0.1234567890123456789"},
		{"Number", "NaN", nil, "NaN"},
		{"Binary.png", "", []byte{1, 2}, "\x01\x02"},
		{"", "x", nil, "x"},
	}
	for _, tt := range tests {
		if got := Value(tt.kind, tt.text, tt.binary); got != tt.want {
			t.Errorf("%s %q: got %#v, want %#v", tt.kind, tt.text, got, tt.want)
		}
	}
}

func TestLargeIntegersAreNumbers(t *testing.T) {
	for _, tt := range []struct {
		value      any
		kind, text string
	}{
		{doc.Number("12345678901234567890"), "Number", "12345678901234567890"},
		{doc.Number(strings.Repeat("9", 39)), "String", strings.Repeat("9", 39)},
		{[]any{doc.Number("12345678901234567890"), 0x1p60}, "String", "[12345678901234567890,1152921504606846976]"},
	} {
		m := enginetest.Batch("x")
		for m := range m.All() {
			m.Meta = m.Meta.With("k", tt.value)
			all, _, err := Attributes(m)
			if err != nil || len(all) != 1 || all[0].Type != tt.kind || all[0].Text != tt.text {
				t.Errorf("%v: got %+v, %v", tt.value, all, err)
			}
		}
	}
}

func TestAttributesComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.OneOf(rapid.String().AsAny(), rapid.Int().AsAny(), rapid.Float64().AsAny(),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) any { return string(b) })).Draw(t, "value")
		b := enginetest.Batch("x")
		for m := range b.All() {
			m.Meta = m.Meta.With("k", v)
			all, size, err := Attributes(m)
			if v == "" {
				if len(all) != 0 {
					t.Errorf("an empty text is sent: %v", all)
				}
				continue
			}
			if err != nil || len(all) != 1 || size != all[0].Size() {
				t.Fatalf("%v, %d, %v", all, size, err)
			}
			got := Value(all[0].Type, all[0].Text, all[0].Binary)
			if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1e15 {
				v = int(f) // a Number without a fraction is an int
			}
			if got != v {
				t.Errorf("%#v came back as %#v", v, got)
			}
		}
	})
}

func TestDelay(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		in   any
		want time.Duration
		bad  bool
	}{
		{nil, 0, false}, {60, time.Minute, false}, {0.5, 500 * time.Millisecond, false},
		{"90s", 90 * time.Second, false}, {90 * time.Second, 90 * time.Second, false},
		{now.Add(time.Minute), time.Minute, false}, {now.Add(-time.Minute), 0, false}, {-3, 0, false},
		{math.MinInt + 1, 0, false}, {-1e300, 0, false},
		{900, 900 * time.Second, false},
		{901, 0, true}, {1 << 62, 0, true}, {1e300, 0, true}, {"15m1s", 0, true}, {"soon", 0, true}, {true, 0, true},
		{[]any{}, 0, true},
	}
	for _, tt := range tests {
		if got, err := Delay(tt.in, now, LongestDelay); got != tt.want || err != nil != tt.bad {
			t.Errorf("%v: got %v, %v", tt.in, got, err)
		}
	}
}

// refusing is a network on which all connections are refused.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
}

func TestACallWithoutConnectionHoldsTheOutput(t *testing.T) {
	c := Config{Region: "eu-central-1", Endpoint: "http://sqs.example",
		Credentials: &Credentials{AccessKeyID: "id", SecretAccessKey: schema.NewSecret("key")}}
	s, err := c.Open(t.Context(), "", &http.Client{Transport: refusing{}})
	if err != nil {
		t.Fatal(err)
	}
	out := []Outgoing{{Body: "a"}, {Body: "b"}}
	for i, err := range (Requests{Bytes: MaxMessage, Parallel: 1}).Send(t.Context(), s.SQS(),
		"http://sqs.example/1/orders", "queue orders", out) {
		var e *engine.Error
		if !errors.As(err, &e) || !e.Holds || e.Class != engine.Transient ||
			!strings.HasPrefix(err.Error(), "queue orders: can't be reached: dial") {
			t.Errorf("message %d: %v, want an error that holds", i, err)
		}
	}
}

func TestHintsAreBounded(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"X-Amz-Retry-After: 1500": 1500 * time.Millisecond, "Retry-After: 7": 7 * time.Second,
		"Retry-After: 99999": longestHint, "Retry-After: -1": 0, "Retry-After: soon": 0,
		"Retry-After: 99999999999999999999":          0,
		"Retry-After: Mon, 02 Jan 2006 15:04:05 GMT": 0,
	} {
		name, value, _ := strings.Cut(header, ": ")
		if got := hint(http.Header{name: {value}}); got != want {
			t.Errorf("%s: got %v, want %v", header, got, want)
		}
	}
}

func TestCredentialsComeTheUsualWaysAndNeverShow(t *testing.T) {
	fakesqs.Start(t)
	tests := []struct {
		name   string
		env    map[string]string
		config Config
		key    string
		region string
	}{
		{"environment", map[string]string{"AWS_ACCESS_KEY_ID": "env"}, Config{}, "env", "us-east-1"},
		{"configuration", nil, Config{Region: "eu-west-1", Credentials: &Credentials{AccessKeyID: "own",
			SecretAccessKey: schema.NewSecret("hush")}}, "own", "eu-west-1"},
		{"profile", map[string]string{
			"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_REGION": "",
			"AWS_CONFIG_FILE": file(t,
				"[profile work]\nregion = eu-north-1\naws_access_key_id = prof\naws_secret_access_key = hush\n"),
		}, Config{Profile: "work"}, "prof", "eu-north-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			s, err := tt.config.Open(t.Context(), "", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c, err := s.cfg.Credentials.Retrieve(t.Context())
			if err != nil || c.AccessKeyID != tt.key || s.Region() != tt.region {
				t.Errorf("key %s, region %s, %v", c.AccessKeyID, s.Region(), err)
			}
			if text := fmt.Sprintf("%v %+v", tt.config.Credentials, tt.config); strings.Contains(text, "hush") {
				t.Errorf("a secret shows: %s", text)
			}
		})
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
