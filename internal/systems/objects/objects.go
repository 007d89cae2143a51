// Package objects is what inputs and outputs for object stores share. Start at [Store], the contract of a store. [Input] reads
// objects from it, configured by [Source], and [Output] writes them, configured by [Target].
package objects

import (
	"context"
	"errors"
	"io"
	"time"
)

// Store is a bucket or a container. Its methods are safe for concurrent use. ctx bounds a call, and the store adds a deadline
// of its own. Errors have a class, and name the bucket, the key and the remedy: a missing bucket is transient and holds the
// output, refused credentials are of class auth, and an error about one object or call is of class rejected.
type Store interface {
	// List returns a page of the objects whose keys begin with prefix, in the order of keys.
	// The first page begins after the key after, where the store supports that: it may contain
	// earlier keys. token continues a listing, and is "" at its beginning.
	List(ctx context.Context, prefix, after, token string) (Page, error)

	// Get reads an object from an offset to its end. With an etag, [ErrChanged] says that the
	// object now has another one. [ErrMissing] says that it does not exist. The reader ends
	// with ctx, and the caller closes it.
	Get(ctx context.Context, key, etag string, offset int64) (Object, io.ReadCloser, error)

	// Put writes an object as a whole: whatever happens, all of it is stored or nothing.
	// [ErrExists] says that IfAbsent has prevented it.
	Put(ctx context.Context, p *Put) error

	// Delete, Move and Tag change an object if it has this etag. Otherwise they return
	// [ErrChanged], or [ErrMissing] if it does not exist. Move replaces an object that has the
	// new key. Tag adds to existing tags.
	Delete(ctx context.Context, key, etag string) error
	Move(ctx context.Context, key, etag, to string) error
	Tag(ctx context.Context, key, etag string, tags []Pair) error

	// Probe fails if the store can't be reached or the bucket does not exist.
	Probe(ctx context.Context) error

	// Close closes idle connections. Calls that are still running are not disturbed.
	Close()
}

// Errors that a [Store] wraps.
var (
	ErrChanged = errors.New("the object has changed")
	ErrMissing = errors.New("the object does not exist")
	ErrExists  = errors.New("an object with this key exists already")
)

// Page is a part of a listing. Token continues with the next one; "" is the end.
type Page struct {
	Objects []Object
	Token   string
}

// Object describes an object. A listing leaves ContentType, ContentEncoding and Metadata empty.
type Object struct {
	Key             string
	ETag            string // changes with the content: an etag or a generation
	Size            int64  // of the whole object, in bytes
	LastModified    time.Time
	ContentType     string
	ContentEncoding string
	Metadata        []Pair // the user's, sorted by name
}

// Pair is the name and the value of metadata or of a tag.
type Pair struct{ Name, Value string }

// Put is an object to write. Body must not change before the call has returned.
type Put struct {
	Key             string
	Body            []byte
	PartSize        int // bytes; larger bodies are written in parts of this size
	ContentType     string
	ContentEncoding string
	Metadata, Tags  []Pair
	IfAbsent        bool
}

// Notices is a queue of messages that name new objects. Its methods are safe for concurrent use.
type Notices interface {
	// Receive waits for notices for a while. It may return none.
	Receive(ctx context.Context) ([]*Notice, error)
	// Done removes notices of which all objects have been read.
	Done(ctx context.Context, all []*Notice) error
	// Renew extends the leases of notices, and returns when to do so again. The objects of a
	// notice whose lease is lost are read by others, too.
	Renew(ctx context.Context, all []*Notice) (next time.Duration, err error)
	// Release gives back notices whose objects were not read.
	Release(ctx context.Context, all []*Notice) error
}

// Notice is one message of a queue. It names objects of the bucket, or Err says why it can't be understood. It then becomes a
// failed message with Body.
type Notice struct {
	Objects []Object // Key, and ETag where it is known
	Body    []byte
	Err     error
	Handle  any // the queue's own

	left int // objects that are not settled; guarded by the book
}
