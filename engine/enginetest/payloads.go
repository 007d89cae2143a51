package enginetest

import (
	"bytes"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// awkward are payloads that systems confuse with others: none at all, an empty one, bytes that are not text, and
// documents that are not objects.
var awkward = [][]byte{nil, {}, []byte("\xff\xfe"), []byte("a\x00b"), []byte("\ufffd"), []byte("a\r\nb\n"), []byte(" x "),
	[]byte("null"), []byte("5"), []byte(`"x"`), []byte(`[{"id":1}]`), []byte(`"\ud800"`), []byte("text")}

// Awkward are such payloads, for the sources of inputs.
func Awkward() (all []string) {
	for _, p := range awkward {
		all = append(all, string(p))
	}
	return all
}

// Carries checks that payloads of all kinds arrive at o's destination as they are, in their order, or fail alone with
// an error that can't be retried. arrived is called once, after the writes: it returns the payloads there, and nil for
// one that is missing where an empty one could be.
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

// failedAlone says whether the only message of a write failed, which must be for good.
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
