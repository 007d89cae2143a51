package amqp

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/boundstest"
)

func frameOf(kind byte, payload string) string {
	return string(binary.BigEndian.AppendUint32([]byte{kind, 0, 1}, uint32(len(payload)))) + payload + "\xce"
}

func content(size uint64) string {
	return frameOf(frameHeader, string(binary.BigEndian.AppendUint64([]byte{0, 60, 0, 0}, size))+"\x00\x00")
}

const delivery = "\x00\x3c\x00\x3cand the rest"

func TestFramesAreBounded(t *testing.T) {
	for _, c := range []struct {
		name, text string
		wrong      string // "": nothing
	}{
		{"all kinds", frameOf(1, "\x00\x0a\x00\x0ahello") + frameOf(8, "") + frameOf(1, delivery) + content(5) + frameOf(3, "12345"), ""},
		{"frames that are too short for what they are", frameOf(1, "") + frameOf(1, "a") + frameOf(2, "abc") + frameOf(3, ""), ""},
		{"the largest message", content(mostBody), ""},
		{"a message above the limit", content(mostBody + 1), "a message of 536870913 bytes"},
		{"the largest size", content(1<<64 - 1), "a message of 18446744073709551615 bytes"},
		{"a large frame", "\x03\x00\x01\xff\xff\xff\xff", "a frame of 4294967295 bytes"},
		{"as many deliveries as were asked for", strings.Repeat(frameOf(1, delivery), 2), ""},
		{"more deliveries", strings.Repeat(frameOf(1, delivery), 3), "more than the prefetch of 2"},
		{"a flood", strings.Repeat(frameOf(8, ""), 2*mostBeats), "heartbeats within a second"},
		{"answers without end", strings.Repeat(frameOf(1, "\x00\x3c\x00\x0b"), 2*mostCalls), "methods within a second"},
		{"another protocol", "HTTP/1.1 400 Bad Request\r\n", "a frame has the type 72"},
		{"another version", "AMQP\x00\x01\x00\x00", "a frame has the type 65"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{1, 7, 4 << 10} {
				var d deliveries
				d.most.Store(2)
				err := boundstest.Feed(d.check(), c.text, n)
				if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("in pieces of %d: %v, want %q", n, err, c.wrong)
				}
			}
		})
	}
}

// Checking a delivery does not allocate.
func TestFramesAreCheckedInPlace(t *testing.T) {
	text := []byte(strings.Repeat(frameOf(1, delivery)+content(5)+frameOf(3, "12345"), 100))
	var d deliveries
	d.most.Store(1 << 30)
	c := d.check()
	if n := testing.AllocsPerRun(10, func() {
		if err := c.Check(text); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for 100 deliveries", n)
	}
}

// The result does not depend on how the bytes are divided, and no message above the limit passes.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{frameOf(8, ""), frameOf(1, delivery) + content(5) + frameOf(3, "12345"), content(mostBody + 1),
		"\x03\x00\x01\xff\xff\xff\xff", "HTTP/1.1 400 Bad Request\r\n"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, n int) {
		var atOnce, inParts deliveries
		err := boundstest.Feed(atOnce.check(), string(text), len(text)+1)
		if again := boundstest.Feed(inParts.check(), string(text), max(1, n%1000)); (err == nil) != (again == nil) {
			t.Fatalf("in one piece: %v, in parts: %v", err, again)
		}
		for rest := text; err == nil && len(rest) >= frameHead; {
			size := binary.BigEndian.Uint32(rest[3:])
			if size > frameSize {
				t.Fatalf("a frame of %d bytes passes", size)
			}
			if rest[0] == frameHeader && size >= 12 && len(rest) >= sizeOfBody && binary.BigEndian.Uint64(rest[sizeOfBody-8:]) > mostBody {
				t.Fatal("a large message passes")
			}
			rest = rest[min(len(rest), int(size)+frameHead+1):]
		}
	})
}
