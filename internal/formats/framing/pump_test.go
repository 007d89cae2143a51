package framing

import (
	"io"
	"testing"
	"testing/synctest"
)

// long gives records of 1 MiB without ever reading, as a decoder does with a bomb.
type long struct{ made int }

func (l *long) Next() (Record, error) {
	l.made++
	return Record{Body: make([]byte, 1<<20)}, nil
}

func (*long) Place() Place { return Place{} }
func (*long) Close() error { return nil }

func TestAPumpHoldsFewLongRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &long{}
		p := NewPump(nil, func(io.Reader) (Reader, error) { return l, nil })
		synctest.Wait() // nobody takes any
		if l.made > 4 {
			t.Errorf("%d records of 1 MiB wait to be taken", l.made)
		}
		p.Close()
	})
}
