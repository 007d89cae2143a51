package source

import (
	"maps"
	"testing"
)

// FuzzLoad reads lines of a checkpoint. Valid entries are written so that the next run reads the same.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{"=a@1", "-a@1", "1700000000=a@1", "x=a@1", "a@1", "=a", ""} {
		f.Add([]byte(seed))
	}
	load := func(lines ...[]byte) (*memory[string, page], error) {
		m := &memory[string, page]{cfg: Config[string, page]{Parse: parse}, entries: map[string]slot[page]{}}
		for _, line := range lines {
			if err := m.load(line); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := load(line)
		if err != nil {
			return
		}
		var lines [][]byte
		for line, err := range m.all {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, append([]byte{}, line...))
		}
		if again, err := load(lines...); err != nil || !maps.Equal(m.entries, again.entries) {
			t.Errorf("%q was read as %v, written as %q: %v", line, m.entries, lines, err)
		}
	})
}
