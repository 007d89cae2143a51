package compression

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/zstd"
)

// claim is a zstd frame with a window descriptor, and a block of one byte many times.
func claim(window byte) []byte {
	return []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, window, 0x03, 0x00, 0x10, 'a'}
}

const (
	large = 0x88 // a window of 128 MiB
	small = 0x58 // of 2 MiB
)

func free() int {
	windows.mu.Lock()
	defer windows.mu.Unlock()
	return windows.left
}

func open(t *testing.T, data []byte, stop <-chan struct{}) io.ReadCloser {
	t.Helper()
	r, err := NewReader(Zstd, bytes.NewReader(data), stop)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestStreamsTogetherHaveOneBudgetForTheirWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside := windows
		defer func() { windows = outside }()
		windows = &budget{left: 2 * maxWindow, freed: make(chan struct{})} // its channel is the bubble's
		var buf [1]byte
		all := free()
		one, two := open(t, claim(large), nil), open(t, append(claim(small), claim(large)...), nil)
		for _, r := range []io.Reader{one, two} {
			if _, err := r.Read(buf[:]); err != nil {
				t.Fatal(err)
			}
		}
		three := open(t, claim(large), nil)
		var busy *BusyError
		if _, err := three.Read(buf[:]); !errors.As(err, &busy) {
			t.Fatalf("a third stream: got %v, want a BusyError", err)
		}
		stop := make(chan struct{})
		waits := make(chan error, 2)
		for _, stop := range []chan struct{}{stop, make(chan struct{})} {
			r := open(t, claim(large), stop)
			go func() {
				_, err := io.Copy(io.Discard, r)
				waits <- err
			}()
		}
		synctest.Wait()
		if len(waits) > 0 {
			t.Fatalf("there was room for more: %v", <-waits)
		}
		close(stop)
		if err := <-waits; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a wait that is called off: %v", err)
		}
		one.Close()
		<-busy.Freed
		if err := <-waits; err != nil {
			t.Errorf("a wait that has its room: %v", err)
		}
		if _, err := io.Copy(io.Discard, two); err != nil { // its second frame is large
			t.Errorf("a larger frame: %v", err)
		}
		two.Close()
		three.Close()
		if free() != all {
			t.Errorf("%d bytes were not given back", all-free())
		}
	})
}

// Whatever the stream is, looking at its frames changes nothing in the result.
func FuzzFrames(f *testing.F) {
	packed, _ := Compress(Zstd, []byte("some text, some text"), 0)
	skippable := []byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc")
	f.Add(packed)
	f.Add(append(append(bytes.Clone(packed), skippable...), packed...))
	f.Add(append(claim(small), claim(0x00)...))
	f.Add(claim(large))
	f.Add(claim(0xff))
	f.Add([]byte("\x28\xb5\x2f\xfd\xe0\xff\xff\xff\xff\xff\xff\xff\x7f\x01\x00\x00"))
	f.Add([]byte("\x50\x2a\x4d\x18\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 1 << 20
		d, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		want, wantErr := io.ReadAll(io.LimitReader(d, most))
		all := free()
		r := open(t, data, nil)
		got, err := io.ReadAll(io.LimitReader(r, most))
		if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
			t.Fatalf("%d bytes and %v, want %d and %v", len(got), err, len(want), wantErr)
		}
		if r.Close(); free() != all {
			t.Fatal("the window was not given back")
		}
	})
}
