// Package pgoutput reads what PostgreSQL sends in logical replication: [Message.Decode] reads the messages of its
// plugin pgoutput, [ParseFrame] what carries them, and [Shape.Append] writes their values as JSON.
//
// Nothing of what it decodes is taken on trust: lengths are checked before they are used.
package pgoutput

import "time"

// Kind says what a [Message] is, as the protocol does.
type Kind byte

// The kinds of messages, of version 1 of the protocol.
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

// Message is a decoded message. Only the fields of its kind mean something; what they point to is part of the bytes that
// were decoded, and slices are used again by the next Decode.
type Message struct {
	Kind Kind

	LSN  LSN       // of Begin and Commit: where the record of the commit begins
	End  LSN       // of Commit: where the transaction ends
	XID  uint32    // of Begin
	Time time.Time // of the commit, of Begin and Commit

	ID        uint32 // of the table: of Relation, Insert, Update and Delete
	Namespace string // of Relation
	Name      string // of Relation
	Identity  byte   // of Relation: REPLICA IDENTITY: d(efault), n(othing), f(ull) or i(ndex)
	Columns   []Column

	Old []Value // of Update and Delete; empty: it was not sent
	All bool    // Old is the whole row, not only its key
	New []Value // of Insert and Update

	Tables []uint32 // of Truncate
}

// Column is one of a table.
type Column struct {
	Name     string
	Key      bool // it is part of the replica identity
	Type     uint32
	Modifier int32
}

// Value is that of a column, as text.
type Value struct {
	Kind ValueKind
	Text []byte // of Text
}

// ValueKind says what there is of a value.
type ValueKind byte

// The kinds of values.
const (
	Null      ValueKind = 'n'
	Unchanged ValueKind = 'u' // it is stored out of line, and an update that does not change it does not send it
	Text      ValueKind = 't'
)
