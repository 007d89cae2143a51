package embed

import (
	"errors"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/disk/flock"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// All users of a folder share a server, and the last one stops it. Its streams are there when it starts again.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	conf := Config{Dir: dir, Listen: "127.0.0.1:0", Token: "sesame", Sync: true}
	a, leaveA, err := Use(conf, "a")
	if err != nil {
		t.Fatal(err)
	}
	b, leaveB, err := Use(conf, "b")
	if err != nil || a != b {
		t.Fatalf("the second gets %p, not %p: %v", b, a, err)
	}
	if _, _, err := Use(Config{Dir: dir}, "c"); err == nil || !strings.Contains(err.Error(), "with other settings") {
		t.Errorf("with other settings: %v", err)
	}
	if _, err := Lock(dir, "d"); !errors.Is(err, flock.ErrHeld) || !strings.Contains(err.Error(), ", a (stop that one") {
		t.Errorf("the lock of another server: %v", err)
	}
	if _, err := nats.Connect(a.url()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without the token: %v", err)
	}
	stream(t, a.url(), nats.Token("sesame")).CreateStream(t.Context(), jetstream.StreamConfig{Name: "S"}) //nolint:errcheck // seen below
	leaveA()
	leaveA()
	if !b.runs() {
		t.Fatal("the server is stopped although it is used")
	}
	leaveB()
	if b.runs() {
		t.Error("the server runs although nobody uses it")
	}
	again, leave, err := Use(Config{Dir: dir}, "e")
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if _, err := stream(t, "nats://127.0.0.1", nats.InProcessServer(again)).Stream(t.Context(), "S"); err != nil {
		t.Errorf("the stream is lost: %v", err)
	}
}

func (s *Server) url() string { return "nats://" + s.Addr().String() }
func (s *Server) runs() bool  { return s.running.Running() }

func stream(t *testing.T, url string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestAServerThatCannotListenReleasesItsFolder(t *testing.T) {
	_, leave, err := Use(Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"}, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	first := running[onlyKey()].Addr().String()
	dir := t.TempDir()
	if _, _, err := Use(Config{Dir: dir, Listen: first}, "b"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("%v", err)
	}
	lock, err := Lock(dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	lock.Close()
}

// A failure that JetStream reports while the server is starting must not stop a server that does not exist.
func TestAFailureOfAServerThatDidNotStart(t *testing.T) {
	(&Server{}).stopFailed(nil, errors.New("JetStream is disabled"))
}

func onlyKey() string {
	for dir := range running {
		return dir
	}
	return ""
}
