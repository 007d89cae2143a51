package nats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
)

func TestSubject(t *testing.T) {
	s := natstest.Start(t, nil)
	in := opened(t, s, `"subject": ["a.*", "b"]`)
	for _, subject := range []string{"a.x", "b", "c"} {
		if err := s.Conn.Publish(subject, []byte(subject)); err != nil {
			t.Fatal(err)
		}
	}
	answer := make(chan string, 1)
	go func() {
		m, err := s.Conn.Request("b", []byte("?"), time.Minute)
		if err != nil {
			t.Error(err)
			m = &client.Msg{}
		}
		answer <- string(m.Data)
	}()
	all, acker := read(t, in, 3)
	slices.SortFunc(all, func(x, y got) int { return strings.Compare(x.body, y.body) }) // subjects have no order among them
	if text := bodies(all); text != "? a.x b" || acker != nil || all[1].meta["subject"] != "a.x" {
		t.Fatalf("read %s: %+v", text, all)
	}
	if err := s.Conn.Publish(all[0].meta["reply"].(string), []byte("!")); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "!" {
		t.Errorf("answered %q", got)
	}
	s.Restart(t, nil)
	natstest.Until(t, "subscribed again", func() bool {
		_ = s.Conn.Publish("b", []byte("again"))
		c := in.Conn().reader.(*core)
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.waiting) > 0
	})
}

// The members of a group share messages: each message goes to one member.
func TestQueueGroup(t *testing.T) {
	s := natstest.Start(t, nil)
	x, y := opened(t, s, `"subject": "a", "queue_group": "g"`), opened(t, s, `"subject": "a", "queue_group": "g"`)
	for i := range 100 {
		if err := s.Conn.Publish("a", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	waiting := func(in *input) int {
		c := in.Conn().reader.(*core)
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.waiting)
	}
	natstest.Until(t, "delivered", func() bool { return waiting(x)+waiting(y) == 100 })
	if waiting(x) == 0 || waiting(y) == 0 {
		t.Errorf("one has %d, the other %d", waiting(x), waiting(y))
	}
}

// Messages beyond the buffer are dropped, counted and reported.
func TestDropsAreReported(t *testing.T) {
	s := natstest.Start(t, nil)
	in := opened(t, s, `"subject": "a", "buffer": "64KiB"`)
	for range 10 {
		if err := s.Conn.Publish("a", make([]byte, 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	natstest.Until(t, "dropped", func() bool { return in.Trouble() != nil && strings.HasPrefix(in.Trouble().Impact, "7 messages") })
	if all, _ := read(t, in, 3); len(all) != 3 {
		t.Errorf("%d are left", len(all))
	}
}

func TestConfigMistakes(t *testing.T) {
	for conf, want := range map[string]string{
		`"url": "nats://x"`: "subject: required",
		`"url": "nats://x", "subject": "a", "stream": "S"`:                                                   "which is read by its consumer",
		`"url": "nats://x", "stream": "S"`:                                                                   "consumer: required",
		`"url": "nats://x", "subject": "a", "consumer": "c"`:                                                 "has no effect without a stream",
		`"url": "nats://x", "subject": "a.>.b"`:                                                              "has a > that is not at the end",
		`"url": "nats://x", "stream": "a b", "consumer": "c"`:                                                "names can't have",
		`"embedded": {"listen": "0.0.0.0:4222"}, "subject": "a"`:                                             "anyone could connect",
		`"embedded": false, "subject": "a"`:                                                                  "url: required",
		`"url": "nats://x", "stream": "S", "consumer": "c", "declare": {"consumer": {"start": "yesterday"}}`: "is not a position to start at",
		`"url": "nats://u:s3cret@ho st", "subject": "a"`:                                                     "is not a valid URL of a NATS",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Inputs, `{"nats": {`+conf+`}}`), "\n")
		if !strings.Contains(got, want) || strings.Contains(got, "s3cret") {
			t.Errorf("%s: got %s\nwant %s", conf, got, want)
		}
	}
}

// Each way to log in works, and a wrong login is explained.
func TestLogin(t *testing.T) {
	const seed, public = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY",
		"UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4" // those of NATS's own documentation
	file := filepath.Join(t.TempDir(), "user.nk")
	if err := os.WriteFile(file, []byte(seed), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := client.NkeyOptionFromSeed(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		change      func(o *server.Options)
		login       client.Option
		good, wrong string
	}{
		{func(o *server.Options) { o.Username, o.Password = "u", "p" }, client.UserInfo("u", "p"),
			`"user": "u", "password": "p"`, `"user": "u", "password": "x"`},
		{func(o *server.Options) { o.Authorization = "t" }, client.Token("t"), `"token": "t"`, `"token": "x"`},
		{func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }, key, fmt.Sprintf(`"nkey": %q`, file),
			`"name": "nobody"`},
	} {
		s := natstest.Start(t, tt.change, tt.login)
		in := opened(t, s, `"subject": "a", `+tt.good)
		if err := s.Conn.Publish("a", []byte("x")); err != nil {
			t.Fatal(err)
		}
		read(t, in, 1)
		bad := build(t, s, `"subject": "a", `+tt.wrong).(*input)
		if err := bad.Open(t.Context()); engine.ErrorOf(err, "").Class != engine.Auth || !errors.Is(err, client.ErrAuthorization) {
			t.Errorf("%s: %v", tt.wrong, err)
		}
	}
}

// A user without permission to subscribe or to read the stream gets an error that says so.
func TestPermissions(t *testing.T) {
	s := streams(t, func(o *server.Options) {
		o.NoAuthUser = "all"
		deny := func(subject string) *server.Permissions {
			return &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{subject}},
				Subscribe: &server.SubjectPermission{Deny: []string{"secret"}}}
		}
		o.Users = []*server.User{{Username: "all", Password: "p"}, {Username: "some", Password: "p", Permissions: deny("x")},
			{Username: "no-api", Password: "p", Permissions: deny("$JS.API.STREAM.INFO.*")},
			{Username: "no-ack", Password: "p", Permissions: deny("$JS.ACK.>")}}
	})
	in := build(t, s, `"subject": "secret", "user": "some", "password": "p"`).(*input)
	err := in.Open(t.Context())
	if engine.ErrorOf(err, "").Class != engine.Auth || !strings.Contains(fmt.Sprint(err), "give the user the permission") {
		t.Errorf("%v", err)
	}
	const patient = durable + `, "timeout": "10m", "password": "p", "user": ` // the server gives no other answer
	err = build(t, s, patient+`"no-api"`).(*input).Open(t.Context())
	if engine.ErrorOf(err, "").Class != engine.Auth || !strings.Contains(fmt.Sprint(err), `"$JS.API.STREAM.INFO.S"`) {
		t.Errorf("%v", err)
	}
	s.Send(t, "s.a", "0")
	all, a := read(t, opened(t, s, patient+`"no-ack"`), 1)
	again, err := a.Ack(t.Context(), []engine.Result{{Ref: all[0].ref, Fate: engine.Delivered}})
	if len(again) != 1 || engine.ErrorOf(err, "").Class != engine.Auth || !strings.Contains(fmt.Sprint(err), "$JS.ACK.>") {
		t.Errorf("again %v: %v", again, err)
	}
}
