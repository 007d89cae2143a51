package hub

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/pool/wire"
)

func TestAWorkerOfAnotherVersionIsToldOnceAnHour(t *testing.T) {
	var told strings.Builder
	r := &remote{refused: map[string]*refusal{}, log: slog.New(slog.NewTextHandler(&told, nil))}
	now := time.Now()
	for i := range 1441 { // every 5 s for 2 h
		r.refuse(&wire.Join{Worker: "a", Version: "v1"}, now.Add(time.Duration(i)*5*time.Second))
	}
	r.refuse(&wire.Join{Worker: "b", Version: "v1"}, now)
	r.refuse(&wire.Join{Worker: "b", Version: "v2"}, now)
	for i, want := range []string{"worker=a its=v1", "times=720", "times=720", "worker=b its=v1", "worker=b its=v2"} {
		if line := strings.Split(told.String(), "\n")[i]; !strings.Contains(line, want) {
			t.Errorf("line %d is %q, want %q", i, line, want)
		}
	}
	if n := strings.Count(told.String(), "\n"); n != 5 {
		t.Errorf("%d lines:\n%s", n, &told)
	}
	for i := range 3 * mostRefusals {
		r.refuse(&wire.Join{Worker: fmt.Sprint(i)}, now)
	}
	if len(r.refused) > mostRefusals {
		t.Errorf("%d workers are remembered", len(r.refused))
	}
}
