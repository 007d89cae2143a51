package worker

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAHubIsSilentWhenNothingIsHeardOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		l := &link{log: slog.New(slog.NewTextHandler(&told, nil)), again: make(chan struct{})}
		m := newMember(l, "p", Config{Slots: 1, Log: l.log})
		m.lease = 5 * time.Second
		want := func(what, hub string, silent time.Duration, known bool) {
			t.Helper()
			since, k := m.silence(hub)
			if k != known || since.IsZero() != (silent < 0) || silent >= 0 && time.Since(since) != silent {
				t.Errorf("%s: it is silent since %v, and known: %v", what, since, k)
			}
		}
		want("never heard of", "h", -1, false)
		m.hears("h", "host/1")
		want("heard of", "h", -1, true)
		time.Sleep(m.lease)
		want("for a lease", "h", -1, true)
		time.Sleep(time.Millisecond)
		want("for longer", "h", 0, true)
		time.Sleep(time.Minute)
		want("for much longer", "h", time.Minute, true)
		m.hears("h", "")
		want("it is back", "h", -1, true)
		m.misses("h")
		time.Sleep(time.Second)
		m.misses("h")
		want("nobody listens", "h", time.Second, true)
		m.hears("h", "host/1")
		time.Sleep(time.Hour)
		l.disconnected(errors.New("cut"))
		want("this worker is cut off itself", "h", -1, false)
		l.connected()
		want("and was until now", "h", -1, false)
		m.misses("h")
		want("and then nobody listens", "h", 0, true)
		m.lease = 100 * time.Millisecond
		m.hears("h", "")
		time.Sleep(patience)
		want("a short lease", "h", -1, true)

		m.misses("other")
		time.Sleep(forgotten + time.Second)
		m.misses("third")
		want("long ago", "other", -1, false)
		want("not long ago", "third", 0, true)
		if text := told.String(); strings.Count(text, "its jobs are set aside") != 5 ||
			strings.Count(text, "is back") != 3 || !strings.Contains(text, "hub=host/1 id=h") {
			t.Errorf("it tells\n%s", text)
		}
	})
}
