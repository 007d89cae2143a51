package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/internal/testing/queuetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
	goredis "github.com/redis/go-redis/v9"
)

// readAll reads a queue to its end, two messages at a time.
func readAll(t testing.TB, r queue.Reader) (ms []queue.Message) {
	t.Helper()
	for {
		some, err := r.Read(t.Context(), 2)
		ms = append(ms, some...)
		if err == engine.ErrEnd {
			return ms
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func reader(t testing.TB, s queue.Server, name string) queue.Reader {
	t.Helper()
	r, err := s.Reader(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func payloads(ms []queue.Message) (texts []string) {
	for _, m := range ms {
		texts = append(texts, string(m.Payload))
	}
	return texts
}

func refs(ms []queue.Message) (all []uint64) {
	for _, m := range ms {
		all = append(all, m.Ref)
	}
	return all
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func send(t testing.TB, s queue.Server, name string, ms ...queue.Message) {
	t.Helper()
	w, err := s.Writer(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if errs := w.Write(t.Context(), ms); errs != nil {
		t.Fatal(errs)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// values returns the fields of a stream's entries.
func values(t testing.TB, c *goredis.Client, key string) string {
	t.Helper()
	entries, err := c.Do(t.Context(), "xrange", key, "-", "+").Slice()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprint(e.([]any)[1]))
	}
	return strings.Join(all, " ")
}

func info(t testing.TB, s queue.Server, pattern string) (all []string) {
	t.Helper()
	infos, err := s.List(t.Context(), pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		all = append(all, fmt.Sprintf("%s %s %d/%d/%d", i.Name, i.Kind, i.Ready, i.InFlight, i.Kept))
	}
	return all
}

func TestLists(t *testing.T) {
	url, key := redistest.URL(t), redistest.Key(t)
	c, s := redistest.Client(t, url), queuetest.Dial(t, url)
	c.RPush(t.Context(), key, "a", "b", "c")
	c.RPush(t.Context(), Processing(key, "worker"), "x")
	equal(t, "list", info(t, s, key+"*"), []string{key + " list 3/1/0"})
	r := reader(t, s, key)
	ms := readAll(t, r)
	equal(t, "read", payloads(ms), []string{"a", "b", "c"})
	equal(t, "list", info(t, s, key), []string{key + " list 0/4/0"})
	if err := r.Done(t.Context(), refs(ms[1:2])); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	equal(t, "left", c.LRange(t.Context(), key, 0, -1).Val(), []string{"a", "c"})
	send(t, s, key+"2", ms...)
	equal(t, "written", c.LRange(t.Context(), key+"2", 0, -1).Val(), []string{"a", "b", "c"})
	// A command that was killed has left its elements in the list processing.
	equal(t, "read", payloads(readAll(t, reader(t, s, key))), []string{"a", "c"})
	again := reader(t, s, key)
	equal(t, "read", payloads(readAll(t, again)), []string{"a", "c"})
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := s.Purge(t.Context(), key)
	equal(t, "purged", fmt.Sprint(n, err), "2 <nil>")
	if _, err := s.Reader(t.Context(), key); err == nil {
		t.Error("an empty list exists")
	}
	if _, err := s.(queue.Origin).Origin(t.Context(), key, ms[0]); err == nil {
		t.Error("an element of a list has an origin")
	}
}

func TestStreams(t *testing.T) {
	url, key := redistest.URL(t), redistest.Key(t)
	c, s := redistest.Client(t, url), queuetest.Dial(t, url)
	add := func(fields ...string) {
		c.XAdd(t.Context(), &goredis.XAddArgs{Stream: key, Values: fields})
	}
	add("payload", "a", "colour", "red", "colour", "blue", "id", "mine")
	add("other", "b")
	add("payload", "\xff")
	equal(t, "list", info(t, s, key), []string{key + " stream 3/0/0"})
	r := reader(t, s, key)
	ms := readAll(t, r)
	equal(t, "read", payloads(ms), []string{"a", `{"other":"b"}`, "\xff"})
	want := values(t, c, key)
	send(t, s, key+"2", ms...)
	equal(t, "written from entries", values(t, c, key+"2"), want)
	for i := range ms { // as read from a dump
		ms[i].Raw = nil
	}
	send(t, s, key+"3", ms...)
	equal(t, "written from metadata", values(t, c, key+"3"), "[payload a colour red colour blue id mine] [other b] [payload \xff]")
	add("payload", "new")
	if err := r.Done(t.Context(), refs(ms)); err != nil {
		t.Fatal(err)
	}
	equal(t, "left", values(t, c, key), "[payload new]")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	c.XGroupCreate(t.Context(), key, "g", "0")
	n, err := s.Purge(t.Context(), key)
	equal(t, "purged", fmt.Sprint(n, err), "1 <nil>")
	equal(t, "list", info(t, s, key), []string{key + " stream, 1 group 0/0/0"})
	equal(t, "read", len(readAll(t, reader(t, s, key))), 0)
}

func TestAGroupOfAStream(t *testing.T) {
	url, key := redistest.URL(t), redistest.Key(t)
	c, s := redistest.Client(t, url), queuetest.Dial(t, url+"?group=g")
	for _, p := range []string{"a", "b", "c", "d"} {
		c.XAdd(t.Context(), &goredis.XAddArgs{Stream: key, Values: []string{"payload", p}})
	}
	if _, err := s.Reader(t.Context(), key); err == nil || !strings.Contains(err.Error(), "no group g") {
		t.Errorf("a group that is missing: %v", err)
	}
	c.XGroupCreate(t.Context(), key, "g", "0")
	take := func(n int64) []goredis.XMessage {
		return c.XReadGroup(t.Context(), &goredis.XReadGroupArgs{Group: "g", Consumer: "w", Streams: []string{key, ">"},
			Count: n}).Val()[0].Messages
	}
	c.XAck(t.Context(), key, "g", take(1)[0].ID)
	take(1)
	equal(t, "list", info(t, s, key), []string{key + " stream, 1 group 2/1/1"})
	r := reader(t, s, key)
	ms := readAll(t, r)
	equal(t, "read", payloads(ms), []string{"c", "d"})
	// A command that was killed has left both pending for its consumer.
	r = reader(t, s, key)
	ms = readAll(t, r)
	equal(t, "read again", payloads(ms), []string{"c", "d"})
	if err := r.Done(t.Context(), refs(ms[:1])); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	claimed, _, err := c.XAutoClaim(t.Context(), &goredis.XAutoClaimArgs{Stream: key, Group: "g", Consumer: "w",
		MinIdle: 3600e9, Start: "0"}).Result()
	if err != nil || len(claimed) != 1 || claimed[0].Values["payload"] != "d" {
		t.Errorf("claimed after Close: %v, %v", claimed, err)
	}
	equal(t, "left", values(t, c, key), "[payload a] [payload b] [payload d]")
}

func TestDeadLettersReturnToTheirStream(t *testing.T) {
	url, key := redistest.URL(t), redistest.Key(t)
	c, s := redistest.Client(t, url), queuetest.Dial(t, url)
	c.XAdd(t.Context(), &goredis.XAddArgs{Stream: key + "dead", Values: []string{"payload", "a", "kind", "k",
		"error_class", "rejected", "error_message", "no", "original_stream", key, "original_id", "1-1"}})
	ms := readAll(t, reader(t, s, key+"dead"))
	from, err := s.(queue.Origin).Origin(t.Context(), key+"dead", ms[0])
	if err != nil || from != key {
		t.Errorf("origin %q, %v", from, err)
	}
	send(t, s, key, ms...)
	ms[0].Raw = nil
	send(t, s, key, ms...)
	equal(t, "returned", values(t, c, key), "[payload a kind k] [payload a kind k]")
	if _, err := s.(queue.Origin).Origin(t.Context(), key, queue.Message{}); err == nil {
		t.Error("a message that is not a dead letter has an origin")
	}
}

func TestAddresses(t *testing.T) {
	url := redistest.URL(t)
	for address, want := range map[string]string{
		url + "?x=1":                     "unknown parameter",
		url + "?type=hash":               "stream or list",
		url + "?ca=x":                    "rediss://",
		url + "?cluster=maybe":           "cluster",
		url + "/x":                       "database",
		"redis://127.0.0.1:1":            "refused",
		"redis://127.0.0.1:1?sentinel=m": "sentinels",
	} {
		_, err := queue.Dial(context.Background(), address)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
	key := redistest.Key(t)
	redistest.Client(t, url).Set(t.Context(), key, "x", 0)
	s := queuetest.Dial(t, url)
	if _, err := s.Writer(t.Context(), key); err == nil || !strings.Contains(err.Error(), "is a string") {
		t.Errorf("a key of another type: %v", err)
	}
	if _, err := s.List(t.Context(), "["); err == nil {
		t.Error("a pattern that is not valid is accepted")
	}
}

// The queues of a cluster are spread over all its nodes.
func TestACluster(t *testing.T) {
	nodes := redistest.Cluster(t)
	s := queuetest.Dial(t, "redis://"+strings.Join(nodes.Addresses()[:2], ",")+"/?cluster=true&type=list")
	var names []string
	for i := range 9 {
		name := fmt.Sprint("q", i)
		names = append(names, name)
		send(t, s, name, queue.Message{Payload: []byte("a")}, queue.Message{Payload: []byte("b")})
	}
	infos, err := s.List(t.Context(), "")
	if err != nil || len(infos) != len(names) {
		t.Fatalf("%v, %v", infos, err)
	}
	for _, name := range names {
		r := reader(t, s, name)
		ms := readAll(t, r)
		equal(t, name, payloads(ms), []string{"a", "b"})
		if err := r.Done(t.Context(), refs(ms)); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if infos, err := s.List(t.Context(), ""); err != nil || len(infos) != 0 {
		t.Errorf("left: %v, %v", infos, err)
	}
}
