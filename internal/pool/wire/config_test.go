package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/network/tlsconf"
	"github.com/flowd-io/flowd/schema"
)

func TestWhatCantWorkIsReported(t *testing.T) {
	secret := schema.NewSecret
	for _, r := range []struct {
		name string
		c    Config
		want []string // paths
	}{
		{"nothing", Config{}, []string{""}},
		{"both", Config{Listen: "127.0.0.1:1", URL: secret("nats://a:1")}, []string{"url"}},
		{"loopback", Config{Listen: "127.0.0.1:5019"}, nil},
		{"all of loopback", Config{Listen: "127.9.9.9:5019"}, nil},
		{"IPv6 loopback", Config{Listen: "[::1]:5019"}, nil},
		{"mapped loopback", Config{Listen: "[::ffff:127.0.0.1]:5019"}, nil},
		{"localhost", Config{Listen: "LOCALHOST:5019"}, nil},
		{"all addresses without a token", Config{Listen: "0.0.0.0:5019"}, []string{"listen"}},
		{"no host without a token", Config{Listen: ":5019"}, []string{"listen"}},
		{"a name without a token", Config{Listen: "localhost.evil.example:5019"}, []string{"listen"}},
		{"all addresses with a token", Config{Listen: ":5019", Token: secret("t")}, nil},
		{"no port", Config{Listen: "127.0.0.1"}, []string{"listen"}},
		{"an empty port", Config{Listen: "127.0.0.1:"}, []string{"listen"}},
		{"credentials without url", Config{Listen: "127.0.0.1:1", Credentials: "f"}, []string{"credentials"}},
		{"a CA without a certificate", Config{Listen: "127.0.0.1:1", TLS: tlsconf.Client{CA: "ca"}},
			[]string{"tls.ca"}},
		{"a server", Config{URL: secret("nats://a:1, tls://b:2")}, nil},
		{"a server with a token", Config{URL: secret("ws://a:1"), Token: secret("t")}, nil},
		{"token and credentials", Config{URL: secret("nats://a:1"), Token: secret("t"), Credentials: "f"},
			[]string{"credentials"}},
		{"a url without a scheme", Config{URL: secret("a:1")}, []string{"url"}},
		{"a url of another kind", Config{URL: secret("nats://a:1,http://u:hush@b")}, []string{"url"}},
		{"a url without a host", Config{URL: secret("nats://")}, []string{"url"}},
	} {
		var got []string
		r.c.CheckConfig(func(path, message, remedy string) {
			got = append(got, path)
			if strings.Contains(message+remedy, "hush") {
				t.Errorf("%s: %s (%s)", r.name, message, remedy)
			}
		})
		if !slices.Equal(got, r.want) {
			t.Errorf("%s: got %q, want %q", r.name, got, r.want)
		}
	}
}

func TestAGoodNameIsPartOfASubject(t *testing.T) {
	for name, want := range map[string]bool{
		"embed": true, "A-z_0": true, strings.Repeat("a", 100): true,
		"": false, strings.Repeat("a", 101): false, "a.b": false, "*": false, ">": false, "a b": false, "ä": false,
		"a\n": false, "a\xff": false,
	} {
		if got := GoodName(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}

func TestSubjectsTellTriesApart(t *testing.T) {
	id := NewID()
	want := Try{Pool: 12, ID: 1 << 63, Try: 3}
	if hub, got, ok := TryOf(JobOf("my-pool", id, want)); hub != id || got != want || !ok {
		t.Errorf("got %s %+v, want %s %+v", hub, got, id, want)
	}
	for _, all := range []string{JobsOf("my-pool", id, 12), JobsOfHub("my-pool", id), AllJobsOf("my-pool")} {
		if one := JobOf("my-pool", id, want); !strings.HasPrefix(one, strings.TrimSuffix(all, ">")) {
			t.Errorf("%s is not among %s", one, all)
		}
	}
	if JobsOf("p", id, 1) == JobsOf("p", id, 2) {
		t.Error("two pools of a hub have the same subjects")
	}
	for _, odd := range []string{"", "x", "......", "flowd.jobs.p.h.x.1.1", "flowd.jobs.p.h.1.-1.1",
		"flowd.jobs.p.h.1.1", "flowd.jobs.p.h.1.1.1.1"} {
		if _, _, ok := TryOf(odd); ok {
			t.Errorf("%q is taken for the subject of a job", odd)
		}
	}
}

func TestAnswersGoToWhoAsksAlone(t *testing.T) {
	for reply, want := range map[string]bool{
		"_INBOX.me.x": true, "_INBOX.me.x.1": true,
		"": false, "_INBOX.me": false, "_INBOX.you.x": false, "_INBOX.mean.x": false,
		"$JS.API.STREAM.DELETE.flowd-p": false, "flowd.jobs.p.h.0.1.1": false,
	} {
		from, answer := Asker(ListOf("me"), reply)
		if from != "me" || (answer == reply && reply != "") != want {
			t.Errorf("%q of %s is answered at %q", reply, from, answer)
		}
	}
}
