package push

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/operations/logsum"
)

func TestReferencesDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said lockedBuffer
		f := References{Log: slog.New(logsum.New(slog.NewTextHandler(&said, nil)))} // as the process logs
		given := map[string]bool{}
		for i := range 3000 {
			given[f.of(engine.Errorf(engine.Permanent, "error %d", i%300))] = true
		}
		if n := strings.Count(said.String(), "\n"); n != mostReferences+1 || len(given) != n {
			t.Errorf("%d lines, %d references", n, len(given))
		}
		for ref := range given {
			if !strings.Contains(said.String(), "ref="+ref) {
				t.Errorf("%s was given out and is not in the log", ref)
			}
		}
		time.Sleep(referencesFor) // virtual
		synctest.Wait()
		if !strings.Contains(said.String(), "times=10\n") || !strings.Contains(said.String(), "times=2000\n") {
			t.Errorf("nothing is summed up: %s", said.String())
		}
		if ref := f.of(engine.Errorf(engine.Permanent, "error 1")); given[ref] {
			t.Error("a reference is used again, far from its line in the log")
		}
		before := len(said.String())
		f.of(engine.Errorf(engine.Permanent, "%s", strings.Repeat("long", 1<<20)))
		if n := len(said.String()) - before; n < mostLogged || n > mostLogged+1000 {
			t.Errorf("of a long error %d bytes are logged", n)
		}
		f.SumUp()
	})
}

// lockedBuffer is a log that a timer writes to as well.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
