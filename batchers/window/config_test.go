package window_test

import (
	"strings"
	"testing"

	_ "github.com/flowd-io/flowd/batchers/window"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestWindowConforms(t *testing.T) {
	for _, component := range []string{
		`{"window": "1h"}`,
		`{"window": {"every": "3ms"}}`,
		`{"window": {"session": "1h"}}`,
		`{"window": {"session": "1h", "max_keys": 1}}`,
		`{"window": {"every": "10ms", "time": "1763640000 + size()"}}`,
		`{"window": {"session": "10ms", "time": "1763640000000 + size()", "lateness": "1m"}}`,
	} {
		t.Run(component, func(t *testing.T) {
			enginetest.Batcher(t, func(t *testing.T) engine.Batcher {
				t.Helper()
				return enginetest.New(t, engine.Batchers, component)
			})
		})
	}
}

func TestWindowRefuses(t *testing.T) {
	tests := []struct {
		name, component string
		want            []string
	}{
		{"no size at all", `{"window": {}}`, []string{"needs every or session", "`every: 1m`"}},
		{"a time alone", `{"window": {"time": "at"}}`, []string{"needs every or session"}},
		{"a length and sessions", `{"window": {"every": "1m", "session": "10s"}}`,
			[]string{"not both", "remove every or session"}},
		{"a length of nothing", `{"window": {"every": "0s"}}`, []string{"at least 1ms"}},
		{"a negative length", `{"window": {"every": "-1s"}}`, []string{"at least 1ms"}},
		{"a length beyond all reason", `{"window": {"every": "9000h"}}`, []string{"at most 8784h"}},
		{"a session of nothing", `{"window": {"session": "0s"}}`, []string{"at least 1ms"}},
		{"a slide of nothing", `{"window": {"every": "1m", "slide": "0s"}}`, []string{"at least 1ms"}},
		{"a slide without length", `{"window": {"session": "1m", "slide": "1s"}}`,
			[]string{"only windows of a fixed length can slide", "every"}},
		{"a slide longer than the window", `{"window": {"every": "1m", "slide": "61s"}}`,
			[]string{"in no window", "1m0s or less"}},
		{"a slide that makes too many copies", `{"window": {"every": "1m", "slide": "500ms"}}`,
			[]string{"in 120 windows, more than 100", "write 600ms or more"}},
		{"an offset without length", `{"window": {"session": "1m", "offset": "1s"}}`,
			[]string{"a session can't have an offset"}},
		{"an offset of a whole window", `{"window": {"every": "1m", "offset": "-90s"}}`,
			[]string{"too far", "write -30s"}},
		{"lateness by the clock", `{"window": {"every": "1m", "lateness": "1s"}}`,
			[]string{"messages are never late", "time: created_at"}},
		{"negative lateness", `{"window": {"every": "1m", "time": "at", "lateness": "-1s"}}`, []string{"at least 0s"}},
		{"max_ahead by the clock", `{"window": {"every": "1m", "max_ahead": "1s"}}`, []string{"messages are never ahead"}},
		{"negative max_keys", `{"window": {"every": "1m", "max_keys": -1}}`, []string{"at least 0"}},
		{"several at once", `{"window": {"session": "1m", "slide": "1s", "lateness": "1s"}}`,
			[]string{"slide", "late"}},
		{"a time that is no expression", `{"window": {"every": "1m", "time": "at at"}}`, []string{"time"}},
		{"a peer's word for every", `{"window": {"size": "1m"}}`, []string{"`every`"}},
		{"a peer's word for lateness", `{"window": {"every": "1m", "allowed_lateness": "1m"}}`, []string{"`lateness`"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(enginetest.Problems(t, engine.Batchers, tt.component), "\n")
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("problems %q, want %q among them", got, want)
				}
			}
		})
	}
}

func TestWindowTakesTheMostCopies(t *testing.T) {
	if got := enginetest.Problems(t, engine.Batchers, `{"window": {"every": "1m", "slide": "600ms"}}`); len(got) > 0 {
		t.Errorf("a hundred windows for a message: %q", got)
	}
}
