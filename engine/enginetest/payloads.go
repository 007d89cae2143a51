package enginetest

import (
	"bytes"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// awkward are payloads that systems confuse with others: nil, an empty payload, bytes that are not text, and documents that
// are not objects.
var awkward = [][]byte{nil, {}, []byte("\xff\xfe"), []byte("a\x00b"), []byte("\ufffd"), []byte("a\r\nb\n"), []byte(" x "),
	[]byte("null"), []byte("5"), []byte(`"x"`), []byte(`[{"id":1}]`), []byte(`"\ud800"`), []byte("text")}

// Awkward returns payloads that systems confuse with others, for tests of inputs: an empty payload, bytes that are not text,
// and documents that are not objects.
func Awkward() (all []string) {
	for _, p := range awkward {
		all = append(all, string(p))
	}
	return all
}

// Carries checks that payloads of all kinds arrive unchanged and in order at the destination of o, or fail alone with an
// error that is not retried. arrived is called once, after the writes. It returns the payloads at the destination, and nil
// where a payload is missing that could be taken for an empty one.
func Carries(t *testing.T, o engine.Output, arrived func(t *testing.T, n int) [][]byte) {
	t.Helper()
	opened(t, o)
	var want [][]byte
	for _, payload := range awkward {
		b := engine.NewBatch(1)
		b.Add(payload)
		err := o.Write(t.Context(), b)
		if !failedAlone(t, string(payload), b, err) {
			want = append(want, bytes.Clone(payload))
		}
	}
	got := arrived(t, len(want))
	closed(t, o)
	if len(got) != len(want) {
		t.Errorf("%d payloads arrived of %d that were delivered: %q, want %q", len(got), len(want), got, want)
		return
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) || got[i] == nil {
			t.Errorf("%q arrived as %q (missing: %t)", want[i], got[i], got[i] == nil)
		}
	}
}

// failedAlone says whether the only message of a write has failed. It must have failed for good.
func failedAlone(t *testing.T, payload string, b *engine.Batch, err error) bool {
	t.Helper()
	if err != nil {
		t.Errorf("%.60q fails the whole write: %v", payload, err)
	}
	if WriteFates(b, err)[0] != "failed" {
		return false
	}
	for m := range b.Ended() {
		switch c := m.Err().Class; c {
		case engine.Rejected, engine.Permanent, engine.Decode, engine.Expression:
		default:
			t.Errorf("%.60q fails with class %q: %v", payload, c, m.Err())
		}
	}
	return true
}
