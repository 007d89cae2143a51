// Package attempts remembers attempts that a source does not count: those made between two deliveries of a message that
// waits in the source for the next one. Start at [Of].
package attempts

import (
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// most bounds the messages that are remembered, the least recently returned are forgotten first.
const most = 10_000

// Book has the attempts of one input, over all its instances. Its methods may be called from any goroutine. A process
// does not know what others have tried.
type Book struct {
	mu    sync.Mutex // guards the field below
	extra *simplelru.LRU[string, int]
}

// input is the key of its book.
type input struct{ pipeline, name string }

// Of is the book of an input.
func Of(env engine.Env) *Book {
	return engine.Common(env.Shared, input{env.Pipeline, env.Name}, func() *Book {
		lru, err := simplelru.NewLRU[string, int](most, nil)
		if err != nil {
			panic(err) // of a size below one
		}
		return &Book{extra: lru}
	})
}

// Returned remembers the attempts at a message that goes back to wait in its source, which has delivered it so many
// times.
func (b *Book) Returned(id string, r engine.Result, deliveries int) {
	if r.Delay == 0 || r.Err == nil || r.Err.Attempt <= deliveries {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extra.Add(id, r.Err.Attempt-deliveries)
}

// Attempt is the number of the attempt for a message that is delivered for the so-many-th time. id is called for one that
// was delivered before.
func (b *Book) Attempt(deliveries int, id func() string) int {
	if deliveries <= 1 {
		return deliveries
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.extra.Len() == 0 {
		return deliveries
	}
	name := id()
	n, known := b.extra.Peek(name)
	if known {
		b.extra.Remove(name)
	}
	return deliveries + n
}

// Len is how many messages are remembered.
func (b *Book) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.extra.Len()
}
