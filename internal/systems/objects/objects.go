// Package objects is what inputs and outputs for object stores share. Start at [Store], the
// contract that each kind of store fulfils; [Input] reads objects on top of it, with its
// configuration in [Source], and [Output] writes them, with [Target].
package objects

import (
	"context"
	"errors"
	"io"
	"time"
)

// Store is a bucket or a container. Its methods are safe for concurrent use; ctx bounds a
// call, and the store gives each its own deadline in addition. Their errors are of a class:
// a bucket that does not exist is transient and holds, refused credentials are auth, what
// the store has against one object or call is rejected, and errors name the bucket, the key
// and the remedy.
type Store interface {
	// List gives a page of the objects whose keys begin with prefix, in the order of keys.
	// The first page begins after a key, where the store can: it may give earlier ones.
	// token continues a listing, and is "" at its beginning.
	List(ctx context.Context, prefix, after, token string) (Page, error)

	// Get reads an object from a byte on, to its end. With an etag, [ErrChanged] says that
	// the object has another one by now; [ErrMissing] says that it is not there. The reader
	// ends with ctx, and is closed by the caller.
	Get(ctx context.Context, key, etag string, offset int64) (Object, io.ReadCloser, error)

	// Put writes an object in one piece: whatever happens, there is the whole object or
	// none of it. [ErrExists] says that IfAbsent has prevented it.
	Put(ctx context.Context, p *Put) error

	// Delete, Move and Tag are for an object as it is with this etag: they are [ErrChanged]
	// if it has another one, and [ErrMissing] if it is not there. Move replaces an object
	// that has the new key. Tag adds to the tags that there are.
	Delete(ctx context.Context, key, etag string) error
	Move(ctx context.Context, key, etag, to string) error
	Tag(ctx context.Context, key, etag string, tags []Pair) error

	// Probe says whether the store can be reached and the bucket exists.
	Probe(ctx context.Context) error

	// Close drops idle connections; calls that are late still work.
	Close()
}

// Errors that a [Store] wraps.
var (
	ErrChanged = errors.New("the object has changed")
	ErrMissing = errors.New("the object does not exist")
	ErrExists  = errors.New("an object with this key exists already")
)

// Page is a part of a listing. Token is for the next one; "" is the end.
type Page struct {
	Objects []Object
	Token   string
}

// Object is what a store says about an object. A listing leaves ContentType, ContentEncoding
// and Metadata empty.
type Object struct {
	Key             string
	ETag            string // changes with the content: an etag or a generation
	Size            int64  // of the whole object, in bytes
	LastModified    time.Time
	ContentType     string
	ContentEncoding string
	Metadata        []Pair // the user's, sorted by name
}

// Pair is a name and its value, of metadata and tags.
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

// Notices is a queue that says which objects there are. Its methods are safe for concurrent
// use.
type Notices interface {
	// Receive waits for notices, for a while: there may be none.
	Receive(ctx context.Context) ([]*Notice, error)
	// Done removes notices of which all objects have been read.
	Done(ctx context.Context, all []*Notice) error
	// Renew keeps notices from others for longer, and says until when that is enough. What
	// is lost is read by others as well.
	Renew(ctx context.Context, all []*Notice) (next time.Duration, err error)
	// Release gives notices back that were not read.
	Release(ctx context.Context, all []*Notice) error
}

// Notice is one message of a queue. It is about objects of the bucket, or else Err says why
// it can't be understood: it then becomes a failed message with Body.
type Notice struct {
	Objects []Object // Key, and ETag where it is known
	Body    []byte
	Err     error
	Handle  any // the queue's own

	left int // objects that are not settled; guarded by the book
}
