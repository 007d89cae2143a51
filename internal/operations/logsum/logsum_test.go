package logsum

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine/enginetest"
)

// logTo makes a logger whose lines have no time.
func logTo(out *enginetest.Transcript) (*slog.Logger, *Handler) {
	h := New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
	return slog.New(h), h
}

func lines(out *enginetest.Transcript) []string {
	text := strings.TrimSuffix(out.String(), "\n")
	out.Reset()
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

//go:noinline
func no(log *slog.Logger, who string) { log.Warn("no", "who", who, "err", errors.New("bad")) }

func TestWhatRepeatsIsSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out enginetest.Transcript
		log, _ := logTo(&out)
		say := func(who string) { no(log, who) }
		want := func(what string, want ...string) {
			t.Helper()
			if got := lines(&out); strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Errorf("%s: got\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		line := func(who string) string { return "level=WARN msg=no who=" + who + " err=bad" }
		for range 100 {
			say("a")
		}
		say("b")
		want("at once", line("a"), line("a"), line("a"), line("b"))
		time.Sleep(4 * time.Second)
		say("a")
		time.Sleep(6 * time.Second)
		synctest.Wait()
		want("after ten seconds", line("a")+" repeated=98 over=10s")
		time.Sleep(500 * time.Millisecond)
		for range 50 {
			say("a")
			time.Sleep(time.Second)
		}
		want("while it goes on", line("a")+" repeated=10 over=9.5s", line("a")+" repeated=10 over=9.5s",
			line("a")+" repeated=10 over=9.5s", line("a")+" repeated=10 over=9.5s", line("a")+" repeated=10 over=9.5s")
		time.Sleep(time.Minute)
		say("a")
		say("b")
		want("when it was quiet", line("a"), line("b"))
		time.Sleep(time.Hour)
		want("and it ends")
	})
}

func TestKindsAreToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out enginetest.Transcript
		log, h := logTo(&out)
		one, other := log.With("pipeline", "one"), log.WithGroup("g").With("pipeline", "other")
		flood := func(l *slog.Logger, n int) {
			for i := range n {
				l.Info("false beat", "from", i)
			}
		}
		flood(one, 1000)
		other.Error("another place")
		flood(other, 2)
		got := lines(&out)
		if len(got) != mostLines+3 || got[mostLines] != `level=ERROR msg="another place" g.pipeline=other` {
			t.Errorf("%d lines: %q", len(got), got)
		}
		h.Flush()
		want := fmt.Sprintf(
			`level=INFO msg="lines were left out: there were too many of their kind" pipeline=one like="false beat" lines=%d over=1ms`,
			1000-mostLines)
		if got := lines(&out); len(got) != 1 || got[0] != want {
			t.Errorf("at the end: got %q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		flood(one, 1)
		if got := lines(&out); len(got) != 1 {
			t.Errorf("later: %q", got)
		}
	})
}

func TestLinesThatAreWantedAllCome(t *testing.T) {
	var out enginetest.Transcript
	log, _ := logTo(&out)
	for range 1000 {
		log.InfoContext(Each, "wanted")
		log.Debug("not wanted")
	}
	if n := len(lines(&out)); n != 1000 {
		t.Errorf("%d lines, want 1000", n)
	}
}

// TestManyCausesTakeNoMemory, nor a log.
func TestManyCausesTakeNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out enginetest.Transcript
		log, h := logTo(&out)
		long := strings.Repeat("x", 1<<20)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range 100_000 {
			log.Warn("odd", "n", i, "m", i%100)
			if i%100 == 0 {
				log.With("label", i).Warn("odd logger")
				log.Warn("long", "text", long)
				time.Sleep(11 * time.Millisecond)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
			t.Errorf("%d bytes are kept", grown)
		}
		if len(out.String()) > 1<<20 {
			t.Errorf("the log has %d bytes", len(out.String()))
		}
		for range 3 { // what is known now is logged, and forgotten
			time.Sleep(every)
			synctest.Wait()
		}
		if n := len(h.all.kinds); n != 0 {
			t.Errorf("%d kinds are kept", n)
		}
	})
}

func BenchmarkOneLine(b *testing.B) {
	for name, h := range map[string]slog.Handler{"without": slog.NewTextHandler(io.Discard, nil),
		"sums": New(slog.NewTextHandler(io.Discard, nil))} {
		b.Run(name, func(b *testing.B) {
			log := slog.New(h)
			b.ReportAllocs()
			for b.Loop() {
				log.Warn("a worker takes no jobs of the pool", "pool", "p", "worker", "host/1", "reason", "no")
			}
		})
	}
}
