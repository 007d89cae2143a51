package nats

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// opened returns an open output with a configuration without its braces. It is closed when the test ends.
func opened(t testing.TB, s *natstest.Server, conf string) *output {
	t.Helper()
	o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"nats": {"url": %q, %s}}`, s.URL, conf)).(*output)
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Close(context.Background()) })
	return o
}

// written returns the results of messages: delivered, failed, or why the output is held.
func written(t testing.TB, o engine.Output, payloads ...string) (all []string) {
	t.Helper()
	b := enginetest.Batch(payloads...)
	fates := enginetest.WriteFates(b, o.Write(t.Context(), b))
	i := 0
	for m := range b.All() {
		if e := m.Err(); e != nil && fates[i] == "failed" {
			fates[i] = fmt.Sprintf("%s: %s", e.Class, e)
		}
		i++
	}
	return fates
}

func TestOutput(t *testing.T) {
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	for _, conf := range []string{`"subject": "s.a", "stream": "S"`, `"subject": "s.b", "jetstream": true`, `"subject": "core"`} {
		enginetest.Output(t, func(t *testing.T) engine.Output {
			return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"nats": {"url": %q, %s}}`, s.URL, conf))
		}, `{"a":1}`, "text", `{"b":2}`)
	}
}

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	var s *natstest.Server
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			s = natstest.Start(t, nil)
			s.Stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
			return func() engine.Output {
				return enginetest.New(t, engine.Outputs,
					fmt.Sprintf(`{"nats": {"url": %q, "subject": "s.a", "stream": "S"}}`, wire.Over(s.URL)))
			}
		},
		Arrived:  func(t *testing.T) []string { return s.Payloads(t, "S") },
		Payloads: []string{"1", "2", "3", "4", "5"},
		Greets:   true,
		Headers: func(t *testing.T) map[string]string {
			all := map[string]string{}
			for name, values := range s.All(t, "S")[0].Header {
				all[name] = values[0]
			}
			return all
		},
	}.Run(t)
}

func TestPublishedMessages(t *testing.T) {
	s := natstest.Start(t, nil)
	o := opened(t, s, `"subject": "s.$(id)", "stream": "S", "declare": {"subjects": ["s.>"]}, "dedupe_id": "id",
		"headers": {"kind": "k$(id)"}`)
	many := []string{}
	for i := range 500 {
		many = append(many, fmt.Sprintf(`{"id":%d}`, i%250)) // each twice
	}
	if fates := written(t, o, many...); slices.ContainsFunc(fates, func(f string) bool { return f != "safe" }) {
		t.Errorf("%v", fates)
	}
	all := s.All(t, "S")
	if len(all) != 250 {
		t.Fatalf("the stream has %d messages, want 250", len(all))
	}
	if m := all[7]; m.Subject != "s.7" || string(m.Data) != `{"id":7}` || m.Header.Get("kind") != "k7" {
		t.Errorf("%+v", m)
	}
}

// A message that can't be published fails alone. An error that concerns all messages holds the output.
func TestRefused(t *testing.T) {
	login := client.UserInfo("all", "secret")
	users := func(o *server.Options) {
		o.MaxPayload = 4000
		o.Users = []*server.User{{Username: "all", Password: "secret"}, {Username: "some", Password: "secret",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"s.>", "full", "small", "none.>"}}}}}
	}
	s := natstest.Start(t, users, login)
	s.Stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>", "secret.>"}})
	s.Stream(t, jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full"}, MaxMsgs: 1, Discard: jetstream.DiscardNew})
	s.Stream(t, jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"small"}, MaxMsgSize: 10})
	const some = `"user": "some", "password": "secret", `
	big := fmt.Sprintf(`{"to":"s.big","x":%q}`, strings.Repeat("x", 4000))
	for _, tt := range []struct {
		name, conf string
		payloads   []string
		want       []string // prefixes
	}{
		{"each for itself", `"user": "all", "password": "secret", "subject": "$(to)", "jetstream": true`,
			[]string{`{"to":"s.1"}`, `{"to":"none.x"}`, `{"to":"s 2"}`, big, `{"to":"small"}`, `{"to":"s.3"}`},
			[]string{"safe", "rejected: no stream has this subject", `rejected: subject "s 2" has white space in it`,
				"rejected: publish to s.big: maximum payload exceeded (make the message smaller, or raise max_payload",
				"rejected: the stream refuses the message: message size exceeds maximum allowed", "safe"}},
		{"no permission for some", some + `"subject": "$(to)"`,
			[]string{`{"to":"s.1"}`, `{"to":"secret.1"}`, `{"to":"s.2"}`},
			[]string{"safe", "rejected: publish to secret.1: permissions violation", "safe"}},
		{"no permission for some, of a stream", `"user": "some", "password": "secret", "subject": "$(to)", "jetstream": true`,
			[]string{`{"to":"s.1"}`, `{"to":"secret.1"}`, `{"to":"s.2"}`},
			[]string{"safe", "rejected: publish to secret.1: permissions violation", "safe"}},
		{"another stream", some + `"subject": "$(to)", "stream": "S"`, []string{`{"to":"full"}`, `{"to":"s.1"}`},
			[]string{"rejected: the stream refuses the message: expected stream does not match", "safe"}},
		{"no such stream", `"user": "all", "password": "secret", "subject": "$(to)", "stream": "NOPE"`,
			[]string{`{"to":"none.x"}`, `{"to":"s.1"}`}, []string{"held: transient: look for stream NOPE: stream not found", "held"}},
		{"wrong sequence", some + `"subject": "s.x", "stream": "S", "headers": {"Nats-Expected-Last-Subject-Sequence": "99"}`,
			[]string{`{}`}, []string{"rejected: the stream refuses the message: wrong last sequence"}},
		{"no permission at all", some + `"subject": "secret.x", "jetstream": true`, []string{`{}`, `{}`},
			[]string{"held: auth: publish to secret.x: permissions violation", "held"}},
		{"full", some + `"subject": "full", "jetstream": true`, []string{`{}`, `{}`},
			[]string{"safe", "held: transient: the stream refuses the message: maximum messages exceeded (the stream is full"}},
		{"no stream", some + `"subject": "none.x", "jetstream": true`, []string{`{}`},
			[]string{"held: transient: no stream has this subject (create one"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := opened(t, s, tt.conf)
			b := enginetest.Batch(tt.payloads...)
			err := o.Write(t.Context(), b)
			fates, i := enginetest.WriteFates(b, err), 0
			held := engine.ErrorOf(err, "")
			for m := range b.All() {
				got := fates[i]
				switch e := m.Err(); {
				case e != nil:
					got = fmt.Sprintf("%s: %s", e.Class, e)
				case err != nil && got != "safe":
					if got = fmt.Sprintf("held: %s: %s", held.Class, held); !held.HoldsOutput() {
						got = "not " + got
					}
				}
				if !strings.HasPrefix(got, tt.want[i]) {
					t.Errorf("message %d: %s\nwant %s", i, got, tt.want[i])
				}
				i++
			}
		})
	}
}

// While there is no server, the output is held. It continues when the server is back, and after a lost connection.
func TestOutages(t *testing.T) {
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	for _, conf := range []string{`"subject": "s.a", "stream": "S"`, `"subject": "s.a"`} {
		o := opened(t, s, conf)
		works := func() bool { return written(t, o, "x")[0] == "safe" }
		if !works() {
			t.Fatal("it does not work")
		}
		s.Cut(t)
		natstest.Until(t, "connected", works)
		s.Stop()
		natstest.Until(t, "held", func() bool {
			err := o.Write(t.Context(), enginetest.Batch("x"))
			return err != nil && engine.ErrorOf(err, "").HoldsOutput()
		})
		if err := o.Probe(t.Context()); err == nil {
			t.Error("a probe without a server works")
		}
		s.Restart(t, nil)
		natstest.Until(t, "reached", func() bool { return o.Probe(t.Context()) == nil })
		if !works() {
			t.Error("it does not work after a restart")
		}
	}
}

// A deleted stream holds the output. With declare, the stream is recreated.
func TestDeletedStream(t *testing.T) {
	s := natstest.Start(t, nil)
	o := opened(t, s, `"subject": "s.$(to)", "stream": "S", "declare": {"subjects": ["s.>"]}`)
	if fates := written(t, o, `{"to":"a"}`); fates[0] != "safe" {
		t.Fatal(fates)
	}
	if err := s.JS.DeleteStream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	if err := o.Write(t.Context(), enginetest.Batch(`{"to":"a"}`)); !engine.ErrorOf(err, "").HoldsOutput() {
		t.Errorf("%v", err)
	}
	if err := o.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if fates := written(t, o, `{"to":"b"}`); fates[0] != "safe" || len(s.All(t, "S")) != 1 {
		t.Error(fates)
	}
}

// If there is no server when flowd starts, the output waits for it.
func TestLateServer(t *testing.T) {
	s := natstest.Start(t, nil)
	s.Stop()
	conf := `"subject": "s.a", "stream": "S", "declare": {"subjects": ["s.>"]}`
	o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"nats": {"url": %q, %s}}`, s.URL, conf)).(*output)
	open := o.Open
	if err := open(t.Context()); !engine.Passes(err) {
		t.Errorf("%v", err)
	}
	s.Restart(t, nil)
	natstest.Until(t, "opened", func() bool { return open(t.Context()) == nil })
	if fates := written(t, o, "x"); fates[0] != "safe" {
		t.Error(fates)
	}
	_ = o.Close(t.Context())
}

// Credentials that the server no longer accepts hold the output. It continues once they are accepted again.
func TestCredentialsThatChange(t *testing.T) {
	with := func(password string) func(o *server.Options) {
		return func(o *server.Options) { o.Username, o.Password = "u", password }
	}
	s := natstest.Start(t, with("one"), client.UserInfo("u", "one"))
	s.Stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	o := opened(t, s, `"user": "u", "password": "one", "subject": "s.a", "stream": "S"`)
	s.Restart(t, with("two"))
	var err error
	natstest.Until(t, "refused", func() bool {
		err = o.Probe(t.Context())
		return err != nil && engine.ErrorOf(err, "").Class == engine.Auth
	})
	if !strings.Contains(err.Error(), "check user and password") {
		t.Error(err)
	}
	s.Restart(t, with("one"))
	natstest.Until(t, "written", func() bool { return written(t, o, "x")[0] == "safe" })
}

func TestMistakesAreFound(t *testing.T) {
	for conf, want := range map[string]string{
		`"url": "nats://x", "subject": "a..b"`:                         "empty part between dots",
		`"url": "nats://x", "subject": "a.*"`:                          "has a wildcard",
		`"url": "http://x", "subject": "a"`:                            "does not begin with nats://",
		`"subject": "a"`:                                               "url: required",
		`"url": "nats://x", "embedded": true, "subject": "a"`:          "either in this process or elsewhere",
		`"url": "nats://x", "subject": "a", "dedupe_id": "id"`:         "only a stream knows the ids of messages",
		`"url": "nats://x", "subject": "a", "declare": {}`:             "there is no stream to create",
		`"url": "nats://x", "subject": "a", "stream": "a.b"`:           "names can't have",
		`"url": "nats://x", "subject": "a", "token": "t", "nkey": "f"`: "more than one way to log in",
		`"url": "nats://x", "subject": "a", "headers": {"a:b": "x"}`:   "is not a valid header name",
	} {
		got := strings.Join(enginetest.Problems(t, engine.Outputs, `{"nats": {`+conf+`}}`), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s\nwant %s", conf, got, want)
		}
	}
}

func TestAHeaderWithALineBreakIsNotChanged(t *testing.T) {
	s := natstest.Start(t, nil)
	o := opened(t, s, `"subject": "s.a"`)
	for name, want := range map[string]string{"k": "failed", "error_message": "safe"} {
		b := enginetest.Batch("x")
		for m := range b.All() {
			m.Meta = m.Meta.With(name, "a\nb: c")
		}
		if fates := enginetest.WriteFates(b, o.Write(t.Context(), b)); fates[0] != want {
			t.Errorf("%s: %v, want %s", name, fates, want)
		}
	}
}

func TestPayloadsOfAllKinds(t *testing.T) {
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"nats": {"url": %q, "subject": "s.a", "stream": "S"}}`, s.URL))
	enginetest.Carries(t, o, func(t *testing.T, _ int) (all [][]byte) {
		for _, text := range s.Payloads(t, "S") {
			all = append(all, []byte(text))
		}
		return all
	})
}
