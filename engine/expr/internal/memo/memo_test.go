package memo

import "testing"

func TestAFullMapStartsOver(t *testing.T) {
	m := Map[int, string]{Most: 3}
	kept := func() (n int) {
		for key := range 100 {
			if _, ok := m.Get(key); ok {
				n++
			}
		}
		return n
	}
	for key := range 100 {
		m.Put(key, "value")
		if v, ok := m.Get(key); v != "value" || !ok {
			t.Fatalf("got %q, %v right after Put", v, ok)
		}
		if n := kept(); n > 3 {
			t.Fatalf("%d values are kept, want at most 3", n)
		}
	}
}
