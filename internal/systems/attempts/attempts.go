// Package attempts remembers attempts that a source does not count. A source counts deliveries, but flowd may try a message
// several times between two deliveries. Start at [ForInput].
package attempts

import (
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// maxRemembered bounds the messages that a Book remembers. The least recently returned are forgotten first.
const maxRemembered = 10_000

// Book counts the attempts of one input, over all its instances in this process. Attempts of other processes are unknown.
// Its methods may be called from any goroutine.
type Book struct {
	mu    sync.Mutex // guards the field below
	extra *simplelru.LRU[string, int]
}

// input identifies an input among the values that a process shares.
type input struct{ pipeline, name string }

// ForInput returns the book of an input, which its instances share.
func ForInput(env engine.Env) *Book {
	return engine.Common(env.Shared, input{env.Pipeline, env.Name}, func() *Book {
		lru, err := simplelru.NewLRU[string, int](maxRemembered, nil)
		if err != nil {
			panic(err) // only a size below one is an error
		}
		return &Book{extra: lru}
	})
}

// Returned remembers the attempts of a message that goes back to its source to be delivered again after a delay.
// deliveries is how often the source has delivered it.
func (b *Book) Returned(id string, r engine.Result, deliveries int) {
	if r.Delay == 0 || r.Err == nil || r.Err.Attempt <= deliveries {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extra.Add(id, r.Err.Attempt-deliveries)
}

// Attempt returns the number of the attempt that starts with a delivery, and forgets the message. deliveries includes this
// delivery. id returns the id of the message; it is called only if the message was delivered before.
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

// Len returns how many messages are remembered.
func (b *Book) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.extra.Len()
}
