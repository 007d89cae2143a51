package nats

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
)

func TestTheFolderOfTheServerOfThisProcessMoves(t *testing.T) {
	for name, does := range map[string]func(dir string) error{
		"renamed": func(dir string) error { return os.Rename(dir, dir+".1") },
		"deleted": os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			open := func() *output {
				o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"nats": {"embedded": {"store": %q}, "subject": "s.a",
					"stream": "S", "declare": {"subjects": ["s.>"]}, "timeout": "2s"}}`, dir)).(*output)
				if err := o.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				return o
			}
			o := open()
			if fates := written(t, o, "before"); fates[0] != "safe" {
				t.Fatal(fates)
			}
			if err := does(dir); err != nil {
				t.Fatal(err)
			}
			for until := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				b := enginetest.Batch("after")
				err := o.Write(t.Context(), b)
				if enginetest.WriteFates(b, err)[0] == "safe" {
					break
				}
				if e := engine.ErrorOf(err, engine.Transient); !e.HoldsOutput() || time.Now().After(until) {
					t.Fatalf("got %v, want an error that holds the output, for a while", err)
				}
				if err := o.Probe(t.Context()); err != nil {
					t.Log(err)
				}
			}
			if err := o.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			o = open()
			defer o.Close(context.Background()) //nolint:errcheck // nothing is written
			s, err := o.conn.JS.Stream(t.Context(), "S")
			if err != nil {
				t.Fatal(err)
			}
			if n := s.CachedInfo().State.Msgs; n != 1 {
				t.Errorf("the stream has %d messages, want 1", n)
			}
		})
	}
}

// JetStream gives up a stream permanently when its disk is full. The embedded server is restarted once there is room.
func TestAFullDiskUnderTheServerOfThisProcess(t *testing.T) {
	enginetest.InFullDisk(t, func(t *testing.T, limit func(bytes int64)) {
		o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"nats": {"embedded": {"store": %q, "sync": true}, "subject": "s.a",
			"stream": "S", "declare": {"subjects": ["s.>"]}, "timeout": "2s"}}`, t.TempDir())).(*output)
		if err := o.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer o.Close(context.Background()) //nolint:errcheck // the end of the process
		// writes repeats a write until it succeeds, or fails with an error that fails no message.
		writes := func(payload string) bool {
			b := enginetest.Batch(payload)
			err := o.Write(t.Context(), b)
			fates := enginetest.WriteFates(b, err)
			for m := range b.Ended() {
				if m.Err() != nil {
					err = m.Err()
				}
			}
			if err != nil && !engine.ErrorOf(err, engine.Transient).HoldsOutput() {
				t.Errorf("the message is to blame: %v", err)
			}
			if err != nil {
				t.Log(err)
			}
			return fates[0] == "safe"
		}
		if !writes("before") {
			t.Fatal("the first write failed")
		}
		limit(100_000)
		large := strings.Repeat("x", 50_000)
		safe := 1
		for range 5 {
			if writes(large) {
				safe++
			}
		}
		if safe == 6 {
			t.Error("nothing failed")
		}
		limit(-1)
		for until := time.Now().Add(30 * time.Second); !writes("after"); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal("it does not work again")
			}
		}
		s, err := o.conn.JS.Stream(t.Context(), "S")
		if err != nil {
			t.Fatal(err)
		}
		if n := int(s.CachedInfo().State.Msgs); n < safe+1 {
			t.Errorf("the stream has %d messages, and %d were acknowledged", n, safe+1)
		}
	})
}
