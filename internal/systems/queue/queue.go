// Package queue is what `flowd queue` asks of a message broker. A connector
// implements [Server] and registers it with [Register]; the commands know no broker.
package queue

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/internal/components/builds"
)

// Server is a connection to a broker. One goroutine uses it.
type Server interface {
	// List is what is known of the queues whose name a path.Match pattern
	// matches ("" is all), sorted by name.
	List(ctx context.Context, pattern string) ([]Info, error)
	// Reader takes messages from a queue. The caller closes it.
	Reader(ctx context.Context, queue string) (Reader, error)
	// Writer sends messages to a queue. The caller closes it.
	Writer(ctx context.Context, queue string) (Writer, error)
	// Purge removes what is in a queue, what is kept too, and says how many messages that were; -1 is unknown.
	Purge(ctx context.Context, queue string) (int64, error)
	// Close ends the connection, after its readers and writers are closed.
	Close() error
}

// Origin is an optional ability of a [Server]: the queue from which a dead letter came,
// asked with a message that a Reader of dlq returned. An error says why that is not known;
// "" without one is not known either.
type Origin interface {
	Origin(ctx context.Context, dlq string, m Message) (queue string, err error)
}

// Info is what a broker knows of a queue.
type Info struct {
	Name        string
	Kind        string // of queue, in the broker's word: "classic", "fifo"
	Ready       int64  // to be read now; -1 is unknown, as in those below
	InFlight    int64  // taken by a reader and not yet removed
	Delayed     int64  // readable later
	Kept        int64  // done with, and still there until they are purged
	DeadLetters string // the queue to which its dead letters go; "" means none or unknown
}

// Message carries what a broker needs to send it again as it was.
type Message struct {
	Payload []byte
	Meta    map[string]any // what the connector's input gives as metadata, in the same spelling
	Ref     uint64         // the reader's handle
	// Raw is the message in the broker's own types, which metadata only approximates: a
	// Writer of the same kind of server sends it unchanged. nil: there is only Meta.
	Raw any
}

// Reader takes messages from one queue; one goroutine uses it. What it has read
// is hidden from others until it is done, returned, or the reader closed.
type Reader interface {
	// Read waits for the first message only and gives at most max. It returns
	// [engine.ErrEnd] when the queue has been empty for a moment.
	Read(ctx context.Context, max int) ([]Message, error)
	// Done removes messages: called only when they are confirmed elsewhere.
	Done(ctx context.Context, refs []uint64) error
	// Return makes messages visible again at once.
	Return(ctx context.Context, refs []uint64) error
	// Close hands back what is neither done nor returned.
	Close() error
}

// Writer sends messages to one queue; one goroutine uses it.
type Writer interface {
	// Write sends messages and waits until the broker has confirmed them. The
	// errors are one for each message, nil for those confirmed; a nil slice
	// says that all are. The messages stay the caller's.
	Write(ctx context.Context, ms []Message) []error
	Close() error
}

// Open connects to the broker that a URL names.
type Open func(ctx context.Context, url *url.URL) (Server, error)

var (
	mu      sync.Mutex
	schemes = map[string]Open{}
)

// Register makes `flowd queue … SCHEME://…` known. It is called from init
// functions and panics when the scheme is taken.
func Register(scheme string, open func(ctx context.Context, url *url.URL) (Server, error)) {
	mu.Lock()
	defer mu.Unlock()
	if _, taken := schemes[scheme]; taken {
		panic(fmt.Sprintf("queue scheme %q is registered twice", scheme))
	}
	schemes[scheme] = open
}

// Schemes are the registered schemes, sorted.
func Schemes() []string {
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(maps.Keys(schemes))
}

// Dial connects to the broker of a URL. Its errors do not show the URL's password,
// as far as they are made here.
func Dial(ctx context.Context, address string) (Server, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The message of url.Parse repeats the address, password included.
		return nil, fmt.Errorf("the broker's address is not a URL (write SCHEME://HOST, where SCHEME is one of: %s)",
			strings.Join(Schemes(), ", "))
	}
	mu.Lock()
	open, ok := schemes[u.Scheme]
	mu.Unlock()
	if family := builds.Queue(u.Scheme); !ok && family != "" {
		return nil, builds.Without(u.Scheme+"://", family)
	}
	if !ok {
		return nil, fmt.Errorf("no broker is known for %q (write one of: %s)", u.Scheme+"://",
			strings.Join(Schemes(), ", "))
	}
	return open(ctx, u)
}
