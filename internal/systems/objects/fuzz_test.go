package objects

import (
	"reflect"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

// FuzzParse reads entries of a checkpoint. What is understood is written as the next run reads it.
func FuzzParse(f *testing.F) {
	b := newBook(&Source{}, Opening{Kind: "fake", Bucket: "b"}, engine.Env{})
	for _, seed := range []string{"0123456789abcdef0123456789ABCDEF", `{"key":"k","etag":"1","offset":7,"line":2,"done":true}`,
		`{"key":"k","offset":-1}`, "{", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := b.parse(text)
		if err != nil {
			return
		}
		written, err := r.AppendText(nil)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := b.parse(written); err != nil || !reflect.DeepEqual(r, again) {
			t.Errorf("%q was read as %+v, and then as %+v, %v", text, r, again, err)
		}
	})
}
