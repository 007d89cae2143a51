package cli

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

func TestOtherOutputErasesTheProgressLine(t *testing.T) {
	var out bytes.Buffer
	c := newConsole(&out)
	c.status("1 received")
	c.status("2 received")
	fmt.Fprintln(c, "a warning")
	c.status("")
	if got, want := out.String(), "1 received\r\x1b[K2 received\r\x1b[Ka warning\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestProgressIsOnlyForTerminals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		newConsole(&out).progress(ctx, func() []engine.Snapshot { return nil })
		if out.Len() > 0 {
			t.Errorf("%q, want nothing", out.String())
		}
	})
}

func TestProgressSaysTheRateAnewEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := newConsole(&out)
		c.terminal = true
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		c.progress(ctx, func() []engine.Snapshot { return nil })
		if got, want := out.String(), "0 received (0/s)\r\x1b[K0 received (0/s)\r\x1b[K"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

func TestProgressLine(t *testing.T) {
	c := counts(12345, map[engine.Fate]int64{engine.Delivered: 12000, engine.Filtered: 300})
	c.InFlight = 45
	if got, want := progressLine(c, 4100),
		"12,345 received (4.1 k/s): 12,000 delivered, 300 filtered, 45 in flight"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := fit("12,345 received", 10), "12,345 re"; got != want {
		t.Errorf("%q, want %q: the last column stays free", got, want)
	}
}

func TestNoColourWhereNobodyLooks(t *testing.T) {
	if colored(new(bytes.Buffer)) {
		t.Error("a buffer gets colours")
	}
	if got := paint(false, red, "x"); got != "x" {
		t.Errorf("%q, want x", got)
	}
	if got, want := string(shownBytes(nil, []byte(paint(true, red, "x")))), "\x1b[31mx\x1b[0m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
