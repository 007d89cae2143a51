package test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// postSigned posts a body with its signature, and returns the status.
func postSigned(t *testing.T, url, secret, body string) string {
	t.Helper()
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte(body))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Signature", "sha256="+hex.EncodeToString(sum.Sum(nil)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	answer.Body.Close()
	return answer.Status
}

func TestQueueOnNATS(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	for _, name := range []string{"ONE", "TWO", "THREE"} {
		s.Stream(t, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Retention: jetstream.LimitsPolicy})
	}
	s.Stream(t, jetstream.StreamConfig{Name: "ALL", Subjects: []string{"all"}})
	const n = 1000
	s.Fill(t, n, "ONE.a", "ONE.b")
	if _, err := s.JS.CreateConsumer(t.Context(), "ONE", jetstream.ConsumerConfig{Durable: "c",
		AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "ONE.b"}); err != nil {
		t.Fatal(err)
	}
	want := s.Payloads(t, "ONE")
	command := func(args ...string) result {
		return queue(t, append([]string{args[0], s.URL}, args[1:]...)...)
	}
	var all []struct {
		Name, Kind string
		Ready      int
	}
	r := command("ls", "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil || len(all) != 5 || all[1].Name != "ONE" || all[1].Ready != n ||
		all[2].Name != "ONE/c" || all[2].Ready != n/2 || all[2].Kind != "consumer" {
		t.Errorf("%v %+v", err, all)
	}
	command("mv", "ONE", "TWO", "--yes").Want(t, 1, `stream TWO does not have the subject "ONE.a" (it has TWO.>)`)
	command("mv", "ONE/c", "ALL", "-n", "300", "--yes").Want(t, 0, "300 moved in ")
	if i := s.Info(t, "ONE", "c"); i.NumPending != n/2-300 || i.NumAckPending != 0 {
		t.Errorf("the consumer has %d messages pending and %d unacknowledged, want %d and 0", i.NumPending, i.NumAckPending, n/2-300)
	}
	command("purge", "ALL", "--yes").Want(t, 0, "ALL: 300 messages removed")
	command("mv", "ONE", "ALL", "-n", "700", "--yes").Want(t, 0, "700 moved in ")
	command("mv", "ONE", "ALL", "--yes").Want(t, 0, "300 moved in ")
	if got := s.Payloads(t, "ALL"); !slices.Equal(got, want) {
		t.Errorf("%d messages were moved, want %d in order", len(got), n)
	}
	if got := s.Payloads(t, "ONE"); len(got) != 0 {
		t.Errorf("%d messages are left in ONE", len(got))
	}
	file := filepath.Join(t.TempDir(), "saved.jsonl")
	command("peek", "ALL", "-n", "3").Want(t, 0, ": 3 shown in ")
	command("dump", "ALL", file, "--delete", "--yes").Want(t, 0, ": 1,000 written in ")
	command("load", "ALL", file).Want(t, 0, ": 1,000 sent in ")
	if got := s.Payloads(t, "ALL"); !slices.Equal(got, want) {
		t.Errorf("%d messages were loaded, want %d in order", len(got), n)
	}
}

func TestQueueRedriveOnNATS(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "HOME", Subjects: []string{"home.>"}})
	s.Stream(t, jetstream.StreamConfig{Name: "DEAD", Subjects: []string{"dead"}})
	for i, from := range []string{"HOME", "NOPE", "HOME", ""} {
		m := nats.NewMsg("dead")
		m.Data = []byte{'0' + byte(i)}
		m.Header = nats.Header{"Nats-Msg-Id": {string(m.Data)}, "error_class": {"decode"}, "kind": {"k"}, "Original_Case": {"x"}}
		if from != "" {
			m.Header["original_stream"], m.Header["original_subject"] = []string{from}, []string{"home.of." + string(m.Data)}
		}
		if _, err := s.JS.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	queue(t, "redrive", s.URL, "DEAD").Want(t, 1, "look for stream NOPE: stream not found", "the message has no header original_stream",
		"2 sent back, 2 failed")
	all := s.All(t, "HOME")
	if len(all) != 2 || all[1].Subject != "home.of.2" || all[1].Header.Get("kind") != "k" || all[1].Header.Get("error_class") != "" ||
		all[1].Header.Get("Nats-Msg-Id") != "" || all[1].Header.Get("Original_Case") != "x" {
		t.Errorf("stream HOME has %+v, want two redriven messages with their own headers only", all)
	}
	if left := s.Payloads(t, "DEAD"); !slices.Equal(left, []string{"1", "3"}) {
		t.Errorf("stream DEAD has %q, want 1 and 3", left)
	}
}

func TestQueueErrorsOfNATS(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"dump", s.URL, "NOPE", "-"}, "look for stream NOPE: stream not found"},
		{[]string{"dump", s.URL, "S/nope", "-"}, "look for consumer S/nope: consumer not found"},
		{[]string{"purge", s.URL, "S/nope", "--yes"}, "S/nope is a consumer, which can't be purged"},
		{[]string{"ls", s.URL + "/?group=x"}, `the address has the unknown parameter "group"`},
		{[]string{"ls", s.URL + "/S"}, `the address has the path "S"`},
		{[]string{"ls", "nats://me:s3cret@127.0.0.1:1"}, "check that the server runs, and its address"},
	} {
		r := queue(t, tt.args...)
		r.Want(t, 1, tt.says)
		if strings.Contains(r.Stderr, "s3cret") {
			t.Errorf("the output of %q contains the password:\n%s", tt.args, r.Stderr)
		}
	}
}
