// Package pgoutput decodes PostgreSQL's logical replication: [ParseFrame] decodes the frames of the stream, [Message.Decode]
// the messages of the plugin pgoutput in them, and [Shape.Append] converts their values to JSON.
//
// The server is not trusted: lengths are checked before they are used.
package pgoutput

import "time"

// Kind is the kind of a [Message], with the protocol's values.
type Kind byte

// The kinds of messages in version 1 of the protocol.
const (
	Begin    Kind = 'B'
	Commit   Kind = 'C'
	Origin   Kind = 'O'
	Relation Kind = 'R'
	Type     Kind = 'Y'
	Insert   Kind = 'I'
	Update   Kind = 'U'
	Delete   Kind = 'D'
	Truncate Kind = 'T'
	Logical  Kind = 'M' // of pg_logical_emit_message
)

// Message is a decoded message. Only the fields of its kind are set. They refer to the bytes that were decoded, and their slices
// are used again by the next Decode.
type Message struct {
	Kind Kind

	LSN  LSN       // of Begin and Commit: where the commit record begins
	End  LSN       // of Commit: where the transaction ends
	XID  uint32    // of Begin
	Time time.Time // of Begin and Commit: the time of the commit

	ID        uint32   // of Relation, Insert, Update and Delete: the table's OID
	Namespace string   // of Relation
	Name      string   // of Relation
	Identity  byte     // of Relation: the replica identity, d(efault), n(othing), f(ull) or i(ndex)
	Columns   []Column // of Relation

	Old         []Value // of Update and Delete: the old row; empty: it was not sent
	OldComplete bool    // Old has all columns, not only the replica identity
	New         []Value // of Insert and Update: the new row

	Tables []uint32 // of Truncate: their OIDs
}

// Column is a column of a table.
type Column struct {
	Name     string
	Key      bool   // it is part of the replica identity
	Type     uint32 // OID
	Modifier int32  // such as the length of a varchar; -1: none
}

// Value is the value of a column.
type Value struct {
	Kind ValueKind
	Text []byte // of kind Text: the value as PostgreSQL writes it
}

// ValueKind says whether the value of a column was sent.
type ValueKind byte

// The kinds of values.
const (
	Null      ValueKind = 'n'
	Unchanged ValueKind = 'u' // a TOAST value that the update has not changed, so it was not sent
	Text      ValueKind = 't'
)
