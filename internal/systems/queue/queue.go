// Package queue has the interface between `flowd queue` and message brokers. A connector implements [Server] and registers it with
// [Register]. The commands use only this package.
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

// Server is a connection to a broker. It is not safe for concurrent use.
type Server interface {
	// List returns the queues whose names match a pattern of [path.Match], sorted by name. "" matches all.
	List(ctx context.Context, pattern string) ([]Info, error)
	// Reader returns a reader of a queue. The caller closes it.
	Reader(ctx context.Context, queue string) (Reader, error)
	// Writer returns a writer to a queue. The caller closes it.
	Writer(ctx context.Context, queue string) (Writer, error)
	// Purge removes all messages of a queue, including those that are done and kept, and returns their number, or -1 if it is
	// unknown.
	Purge(ctx context.Context, queue string) (int64, error)
	// Close closes the connection. Its readers and writers must be closed before.
	Close() error
}

// Origin is an optional interface of a [Server]. It returns the queue from which a dead letter came. m comes from a Reader of dlq. If
// the queue is unknown, the error says why; "" without an error also means unknown.
type Origin interface {
	Origin(ctx context.Context, dlq string, m Message) (queue string, err error)
}

// Info is what a broker knows of a queue.
type Info struct {
	Name        string
	Kind        string // of the queue, as the broker calls it: "classic", "fifo"
	Ready       int64  // messages that can be read now; -1 is unknown, also in the fields below
	InFlight    int64  // messages that consumers have read and not yet acknowledged
	Delayed     int64  // messages that can be read later
	Kept        int64  // messages that are done, and stay until they are purged
	DeadLetters string // the queue to which its dead letters go; "" means none or unknown
}

// Message has what a Writer needs to send a message again unchanged.
type Message struct {
	Payload []byte
	Meta    map[string]any // the same metadata as that of the connector's input
	Ref     uint64         // the reader's handle of the message
	// Raw is the message in the broker's own types, which metadata only approximates. A Writer of the same kind of server sends
	// it unchanged. nil: only Meta is known.
	Raw any
}

// Reader reads messages of one queue. It is not safe for concurrent use. Messages that it has read are hidden from others, as far as
// the broker supports that, until they are done or returned, or the reader is closed.
type Reader interface {
	// Read returns up to max messages. It waits only for the first of them. It returns [engine.ErrEnd] when the queue has been
	// empty for a moment.
	Read(ctx context.Context, max int) ([]Message, error)
	// Done removes messages. Callers must have stored them elsewhere.
	Done(ctx context.Context, refs []uint64) error
	// Return makes messages visible again at once.
	Return(ctx context.Context, refs []uint64) error
	// Close returns all messages that are neither done nor returned.
	Close() error
}

// Writer sends messages to one queue. It is not safe for concurrent use.
type Writer interface {
	// Write sends messages and waits until the broker has confirmed them. It returns the error of each message, or a nil slice if
	// all are confirmed. It does not keep the messages.
	Write(ctx context.Context, ms []Message) []error
	Close() error
}

// Open connects to the broker with a URL.
type Open func(ctx context.Context, url *url.URL) (Server, error)

var (
	mu      sync.Mutex // guards schemes
	schemes = map[string]Open{}
)

// Register registers a connector for URLs with a scheme. It is called from init functions, and panics if the scheme is already
// registered.
func Register(scheme string, open func(ctx context.Context, url *url.URL) (Server, error)) {
	mu.Lock()
	defer mu.Unlock()
	if _, taken := schemes[scheme]; taken {
		panic(fmt.Sprintf("queue scheme %q is registered twice", scheme))
	}
	schemes[scheme] = open
}

// Schemes returns the registered schemes, sorted.
func Schemes() []string {
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(maps.Keys(schemes))
}

// Dial connects to the broker with a URL. Errors that it makes itself do not contain the URL's password.
func Dial(ctx context.Context, address string) (Server, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The error of url.Parse contains the address with its password.
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
