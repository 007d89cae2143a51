package queuetest

import (
	"testing"

	"github.com/flowd-io/flowd/internal/systems/queue"
)

// Dial connects to the server at an address, until the test ends.
func Dial(t testing.TB, address string) queue.Server {
	t.Helper()
	s, err := queue.Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
