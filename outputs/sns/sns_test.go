package sns

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
)

// topic is a service with one topic and the Query protocol of SNS.
type topic struct {
	mu       sync.Mutex // guards the fields below
	fail     string     // entries whose message contains this text fail
	refuse   string     // the error code of all calls
	requests []int      // number of entries of each
	messages []string
	fields   []string // fields of all entries
}

func (s *topic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	if s.refuse != "" && r.Form.Get("Action") == "PublishBatch" {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w,
			`<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error></ErrorResponse>`,
			s.refuse)
		return
	}
	if r.Form.Get("Action") == "GetTopicAttributes" {
		fmt.Fprint(w,
			`<GetTopicAttributesResponse><GetTopicAttributesResult><Attributes/></GetTopicAttributesResult></GetTopicAttributesResponse>`)
		return
	}
	var done, failed string
	n := 0
	for i := 1; ; i++ {
		prefix := fmt.Sprintf("PublishBatchRequestEntries.member.%d.", i)
		id := r.Form.Get(prefix + "Id")
		if id == "" {
			break
		}
		n++
		message := r.Form.Get(prefix + "Message")
		if s.fail != "" && strings.Contains(message, s.fail) {
			failed += fmt.Sprintf(`<member><Id>%s</Id><Code>InternalError</Code><Message>x</Message><SenderFault>false</SenderFault></member>`, id)
			continue
		}
		s.messages = append(s.messages, message)
		for k, v := range r.Form {
			if rest, ok := strings.CutPrefix(k, prefix); ok {
				s.fields = append(s.fields, rest+"="+v[0])
			}
		}
		done += fmt.Sprintf(`<member><Id>%s</Id><MessageId>%d</MessageId></member>`, id, len(s.messages))
	}
	s.requests = append(s.requests, n)
	fmt.Fprintf(w,
		`<PublishBatchResponse><PublishBatchResult><Successful>%s</Successful><Failed>%s</Failed></PublishBatchResult></PublishBatchResponse>`,
		done, failed)
}

func start(t *testing.T, config string) (*topic, *output) {
	t.Helper()
	fakesqs.Start(t) // for its environment
	s := &topic{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	o := enginetest.New(t, engine.Outputs, `{"sns": `+config+`}`).(*output)
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close(t.Context()) })
	return s, o
}

func TestAServerThatIsAway(t *testing.T) {
	var s *topic
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			fakesqs.Start(t) // for its environment
			s = &topic{}
			server := httptest.NewServer(s)
			t.Cleanup(server.Close)
			t.Setenv("AWS_ENDPOINT_URL", wire.Over(server.URL))
			return func() engine.Output {
				return enginetest.New(t, engine.Outputs, `{"sns": `+plain+`}`)
			}
		},
		Arrived:  func(*testing.T) []string { return s.messages },
		Payloads: []string{"1", "2", "3", "4", "5"},
		Headers: func(*testing.T) map[string]string {
			fields := map[string]string{}
			for _, f := range s.fields {
				name, value, _ := strings.Cut(f, "=")
				fields[name] = value
			}
			all := map[string]string{}
			for name, value := range fields {
				if entry, ok := strings.CutSuffix(name, ".Name"); ok {
					all[value] = fields[entry+".Value.StringValue"]
				}
			}
			return all
		},
	}.Run(t)
}

const plain, fifo = `{"topic": "arn:aws:sns:us-east-1:000000000000:events", "parallel": 1}`,
	`{"topic": "arn:aws:sns:us-east-1:000000000000:events.fifo", "group_id": "g"}`

func write(t *testing.T, o *output, b *engine.Batch) (errs []error) {
	t.Helper()
	var all []*engine.Message
	for m := range b.All() {
		all = append(all, m)
	}
	if err := o.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		errs = append(errs, nil)
		if m.Err() != nil {
			errs[len(errs)-1] = m.Err()
		}
	}
	return errs
}

func TestLint(t *testing.T) {
	tests := []struct {
		name, config, want string
	}{
		{"a topic", `{"sns": "arn:aws:sns:us-east-1:000000000000:events"}`, ""},
		{"a queue", `{"sns": "arn:aws:sqs:us-east-1:000000000000:events"}`,
			"is not a topic ARN (write arn:aws:sns:REGION:ACCOUNT:NAME)"},
		{"a subscription", `{"sns": "arn:aws:sns:us-east-1:000000000000:events:x"}`, "is not a topic ARN"},
		{"two regions", `{"sns": {"topic": "arn:aws:sns:us-east-1:000000000000:events", "region": "eu-west-1"}}`,
			"is eu-west-1, but the topic is in us-east-1"},
		{"no group", `{"sns": "arn:aws:sns:us-east-1:000000000000:events.fifo"}`,
			"each message of a FIFO topic needs a group"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			problems := fmt.Sprint(enginetest.Problems(t, engine.Outputs, tt.config))
			if tt.want == "" && problems != "[]" || !strings.Contains(problems, tt.want) {
				t.Errorf("got %s, want %q", problems, tt.want)
			}
		})
	}
}

func TestTenMessagesGoInARequest(t *testing.T) {
	s, o := start(t, plain)
	var all []string
	for i := range 25 {
		all = append(all, fmt.Sprint("m", i))
	}
	write(t, o, enginetest.Batch(all...))
	if !slices.Equal(s.messages, all) || !slices.Equal(s.requests, []int{10, 10, 5}) {
		t.Errorf("requests of %v, messages %v", s.requests, s.messages)
	}
	s.requests = nil
	large := strings.Repeat("x", 100<<10)
	errs := write(t, o, enginetest.Batch(large, large, large, strings.Repeat("y", 256<<10+1)))
	if !slices.Equal(s.requests, []int{2, 1}) || errs[2] != nil || errs[3] == nil {
		t.Errorf("requests of %v, %v", s.requests, errs)
	}
}

func TestOnlyTheEntriesThatFailedFail(t *testing.T) {
	s, o := start(t, plain)
	s.fail = "bad"
	errs := write(t, o, enginetest.Batch("a", "bad", "c"))
	var e *engine.Error
	if errs[0] != nil || errs[2] != nil || !errors.As(errs[1], &e) || e.Class != engine.Transient {
		t.Errorf("got %v", errs)
	}
}

func TestARefusedCallIsOfClassAuth(t *testing.T) {
	s, o := start(t, plain)
	s.refuse = "AuthorizationError"
	errs := write(t, o, enginetest.Batch("a"))
	var e *engine.Error
	if !errors.As(errs[0], &e) || e.Class != engine.Auth ||
		!strings.Contains(e.Error(), "sns:PublishBatch: AuthorizationError: no (allow these credentials this action)") {
		t.Errorf("got %v", errs)
	}
}

func TestSubjectAndMetadataGoAlong(t *testing.T) {
	s, o := start(t, `{"topic": "arn:aws:sns:us-east-1:000000000000:events", "subject": "order $(id)"}`)
	b := enginetest.Batch(`{"id":7}`, `{"id":"\n"}`)
	for m := range b.All() {
		m.Meta = m.Meta.With("n", 1)
	}
	errs := write(t, o, b)
	for _, want := range []string{"Subject=order 7", "MessageAttributes.entry.1.Name=n",
		"MessageAttributes.entry.1.Value.DataType=Number", "MessageAttributes.entry.1.Value.StringValue=1"} {
		if !slices.Contains(s.fields, want) {
			t.Errorf("no %s in %v", want, s.fields)
		}
	}
	if errs[0] != nil || errs[1] == nil {
		t.Errorf("got %v", errs)
	}
}

func TestInAFIFOTopicGroupsKeepTheirOrder(t *testing.T) {
	s, o := start(t, fifo)
	s.fail = "bad"
	errs := write(t, o, enginetest.Batch(`{"g":"a","n":1}`, `{"g":"b","n":1}`, `{"g":"a","bad":1}`, `{"g":"a","n":3}`,
		`{"g":"b","n":2}`))
	if errs[0] != nil || errs[1] != nil || errs[4] != nil || errs[2] == nil || !errors.Is(errs[3], engine.ErrBehind) {
		t.Errorf("got %v", errs)
	}
	if !slices.Equal(s.requests, []int{2, 2}) {
		t.Errorf("requests of %v, want two rounds", s.requests)
	}
}
