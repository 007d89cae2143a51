package sqs

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/internal/testing/fakesqs"
)

// virtual runs a test with the fake service in virtual time.
func virtual(t *testing.T, f func(t *testing.T, s *fakesqs.Server, q queue.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := fakesqs.Start(t)
		q, err := open(t.Context(), &url.URL{Scheme: "sqs", Host: "us-east-1"}, s.Client())
		if err != nil {
			t.Fatal(err)
		}
		f(t, s, q)
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAddresses(t *testing.T) {
	fakesqs.Start(t)
	for address, want := range map[string]string{
		"sqs://eu-west-1/": "", "sqs://?endpoint=http://localhost:4566&region=us-east-1": "", "sqs://": "",
		"sqs://me:secret@eu-west-1/": "contains credentials", "sqs://eu-west-1/orders": `has the path "orders"`,
		"sqs://?zone=x": `unknown parameter "zone"`, "sqs://?endpoint=localhost": "endpoint is not a service URL",
	} {
		s, err := queue.Dial(t.Context(), address)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", address, err, want)
		case err == nil:
			_ = s.Close()
		}
	}
}

func TestList(t *testing.T) {
	virtual(t, func(t *testing.T, s *fakesqs.Server, q queue.Server) {
		s.Create("orders", fakesqs.Queue{DeadLetters: "orders-dead", MaxReceives: 3})
		s.Create("orders-dead", fakesqs.Queue{})
		s.Create("other.fifo", fakesqs.Queue{})
		s.Put("orders", "a", "b")
		all, err := q.List(t.Context(), "")
		want := []queue.Info{{Name: "orders", Kind: "standard", Ready: 2, DeadLetters: "orders-dead"},
			{Name: "orders-dead", Kind: "standard"}, {Name: "other.fifo", Kind: "fifo"}}
		if diff := cmp.Diff(want, all); diff != "" || err != nil {
			t.Error(diff, err)
		}
		for pattern, n := range map[string]int{"orders*": 2, "*dead": 1, "orders": 1, "x*": 0, "o?????": 1} {
			if all, err := q.List(t.Context(), pattern); err != nil || len(all) != n {
				t.Errorf("%s: %v, %v", pattern, all, err)
			}
		}
		if _, err := q.List(t.Context(), "[a"); err == nil {
			t.Error("a pattern that is not valid is accepted")
		}
	})
	virtual(t, func(t *testing.T, s *fakesqs.Server, q queue.Server) {
		for i := range 1500 {
			s.Create(fmt.Sprintf("q%04d", i), fakesqs.Queue{})
		}
		if all, err := q.List(t.Context(), ""); err != nil || len(all) != 1500 {
			t.Errorf("%d queues on two pages, %v %d %d", len(all), err, len(s.Calls("ListQueues")), len(s.Calls("")))
		}
	})
}

func TestAReaderHoldsWhatItReads(t *testing.T) {
	virtual(t, func(t *testing.T, s *fakesqs.Server, q queue.Server) {
		s.Create("orders", fakesqs.Queue{Visibility: 5 * time.Second})
		var bodies []string
		for i := range 25 {
			bodies = append(bodies, fmt.Sprint("m", i))
		}
		s.Put("orders", bodies...)
		reader, err := q.Reader(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		var refs []uint64
		var got []string
		for {
			all, err := reader.Read(t.Context(), 10)
			if err == engine.ErrEnd {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range all {
				refs, got = append(refs, m.Ref), append(got, string(m.Payload))
			}
			time.Sleep(2 * time.Minute) // the reader renews the leases of held messages
		}
		if !slices.Equal(got, bodies) {
			t.Errorf("read %q", got)
		}
		if err := errors.Join(reader.Done(t.Context(), refs[:10]),
			reader.Return(t.Context(), refs[10:12])); err != nil {
			t.Error(err)
		}
		visible := func() (n int) {
			for _, m := range s.Messages("orders") {
				if !m.Visible.After(time.Now()) {
					n++
				}
			}
			return n
		}
		if n := visible(); n != 2 || len(s.Messages("orders")) != 15 {
			t.Errorf("%d visible of %d, want the two that were returned, of 15", n, len(s.Messages("orders")))
		}
		if err := reader.Close(); err != nil || visible() != 15 {
			t.Errorf("%v, %d visible after the end, want all 15", err, visible())
		}
	})
}

func TestDoneReturnsTheErrorsOfMessages(t *testing.T) {
	virtual(t, func(t *testing.T, s *fakesqs.Server, q queue.Server) {
		s.Create("orders", fakesqs.Queue{})
		s.Put("orders", "a", "b")
		reader, err := q.Reader(t.Context(), "orders")
		if err != nil {
			t.Fatal(err)
		}
		all, err := reader.Read(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		s.Fault("DeleteMessageBatch", fakesqs.Fault{Code: "InternalError",
			Entry: func(body string) bool { return body == "b" }})
		if err := reader.Done(t.Context(), []uint64{all[0].Ref, all[1].Ref}); err == nil ||
			!strings.Contains(err.Error(), "InternalError") {
			t.Errorf("got %v", err)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
		if m := s.Messages("orders"); len(m) != 1 || m[0].Body != "b" || m[0].Visible.After(time.Now()) {
			t.Errorf("left: %+v", m)
		}
	})
}

func TestMessagesAreMovedUnchanged(t *testing.T) {
	virtual(t, func(t *testing.T, s *fakesqs.Server, q queue.Server) {
		s.Create("from", fakesqs.Queue{})
		s.Create("to", fakesqs.Queue{})
		want := map[string]fakesqs.Attribute{
			"n": {DataType: "Number", StringValue: "7"}, "text": {DataType: "String", StringValue: "é"},
			"raw":       {DataType: "Binary", BinaryValue: []byte{0, 255}},
			"sender_id": {DataType: "String", StringValue: "mine"},
		}
		s.PutWith("from", "body", want)
		move(t, q, "from", "to", nil)
		if diff := cmp.Diff(want, s.Messages("to")[0].Attributes); diff != "" || s.Bodies("to")[0] != "body" {
			t.Error(diff)
		}
	})
}

// move moves all messages, and checks which of them can't be written.
func move(t *testing.T, q queue.Server, from, to string, wantErrs []bool) {
	t.Helper()
	r, err := q.Reader(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	w, err := q.Writer(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	for {
		ms, err := r.Read(t.Context(), 10)
		if err == engine.ErrEnd {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		errs := w.Write(t.Context(), ms)
		for i, want := range wantErrs {
			if errs == nil || (errs[i] != nil) != want {
				t.Errorf("errors %v, want %v", errs, wantErrs)
			}
		}
		var done []uint64
		for i, m := range ms {
			if errs == nil || errs[i] == nil {
				done = append(done, m.Ref)
			}
		}
		if err := r.Done(t.Context(), done); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(w.Close(), r.Close()); err != nil {
		t.Error(err)
	}
}

func TestAFIFOQueueIsMovedInOrderThereAndBack(t *testing.T) {
	virtual(t, func(t *testing.T, s *fakesqs.Server, q queue.Server) {
		s.Create("a.fifo", fakesqs.Queue{})
		s.Create("b.fifo", fakesqs.Queue{})
		bodies := []string{"x:1", "y:1", "x:2", "y:2", "x:3"}
		s.Put("a.fifo", bodies...)
		move(t, q, "a.fifo", "b.fifo", nil)
		move(t, q, "b.fifo", "a.fifo", nil) // within the five minutes of a deduplication id
		next := map[string]int{"x": 1, "y": 1}
		for _, m := range s.Messages("a.fifo") {
			if m.Body != fmt.Sprintf("%s:%d", m.Group, next[m.Group]) {
				t.Errorf("%s in group %s", m.Body, m.Group)
			}
			next[m.Group]++
		}
		if n := len(s.Messages("a.fifo")); n != 5 {
			t.Errorf("%d messages came back", n)
		}
	})
}

func TestRefusedMessagesStayInTheirQueue(t *testing.T) {
	virtual(t, func(t *testing.T, s *fakesqs.Server, q queue.Server) {
		s.Create("from", fakesqs.Queue{})
		s.Create("to", fakesqs.Queue{})
		s.Put("from", "a", "bad", "c")
		s.Fault("SendMessageBatch", fakesqs.Fault{Code: "InvalidMessageContents", Sender: true,
			Entry: func(body string) bool { return body == "bad" }})
		move(t, q, "from", "to", []bool{false, true, false})
		if !slices.Equal(s.Bodies("to"), []string{"a", "c"}) || !slices.Equal(s.Bodies("from"), []string{"bad"}) {
			t.Errorf("to %q, from %q", s.Bodies("to"), s.Bodies("from"))
		}
	})
}

func TestDeadLettersKnowTheirOrigin(t *testing.T) {
	virtual(t, func(t *testing.T, s *fakesqs.Server, q queue.Server) {
		s.Create("dead", fakesqs.Queue{})
		s.Create("one", fakesqs.Queue{DeadLetters: "dead", MaxReceives: 1})
		origin := q.(queue.Origin)
		named := queue.Message{Meta: map[string]any{"dead_letter_source": "arn:aws:sqs:us-east-1:000000000000:orders"}}
		if got, err := origin.Origin(t.Context(), "dead", named); got != "orders" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if got, err := origin.Origin(t.Context(), "dead", queue.Message{}); got != "one" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := origin.Origin(t.Context(), "one", queue.Message{}); err == nil ||
			!strings.Contains(err.Error(), "--to") {
			t.Errorf("got %v", err)
		}
		s.Create("two", fakesqs.Queue{DeadLetters: "dead", MaxReceives: 1})
		if got, err := origin.Origin(t.Context(), "dead", queue.Message{}); got != "one" || err != nil {
			t.Errorf("the sources are asked for again: got %q, %v", got, err)
		}
		later, err := open(t.Context(), &url.URL{Scheme: "sqs", Host: "us-east-1"}, s.Client())
		if err != nil {
			t.Fatal(err)
		}
		defer later.Close()
		if _, err := later.(queue.Origin).Origin(t.Context(), "dead", queue.Message{}); err == nil ||
			!strings.Contains(err.Error(), "one, two (write --to") {
			t.Errorf("got %v", err)
		}
	})
}

func TestPurge(t *testing.T) {
	virtual(t, func(t *testing.T, s *fakesqs.Server, q queue.Server) {
		s.Create("orders", fakesqs.Queue{})
		s.Put("orders", "a")
		if n, err := q.Purge(t.Context(), "orders"); n != -1 || err != nil || len(s.Messages("orders")) != 0 {
			t.Errorf("got %d, %v", n, err)
		}
		if _, err := q.Purge(t.Context(), "nowhere"); err == nil ||
			!strings.Contains(err.Error(), "queue nowhere in us-east-1: it does not exist") {
			t.Errorf("got %v", err)
		}
	})
}
