package inside

import (
	"errors"
	"fmt"

	"github.com/flowd-io/flowd/engine/doc"
)

// State is where a message is within the call that shows it.
type State uint8

const (
	Live      State = iota
	Dropped         // ended by a step on purpose: filtered
	Discarded       // ended by `on_error: drop`
	Failed          // ended by an error
	Done            // an output: safe
	Parked          // out of the slab, continues later
	Consumed        // split or merged: its successors carry on
	Moved           // is now in another slab
	Vacant          // its place is for another: see Batch.Order
	Ended           // its fate is known: see Message.fate
	Waits           // to be tried again: see trialOf(Message)
)

// Stage is where a message that continues resumes.
type Stage uint8

const (
	Fresh    Stage = iota // at the beginning, or, in a lane, at its pc
	InInput               // in its input's own steps, at its pc
	InBatch               // in its batcher's steps, at its pc
	InOutput              // in its output's own steps, at its pc
	AtWrite               // after all steps
)

const (
	SlabSize  = 256     // messages in a slab
	BulkSize  = 2048    // messages in a write of an output whose trait is Bulk
	BlockSize = 1 << 18 // bytes that inputs read at once
)

// ReadBytes is about how much one Read brings, since credits for bytes are charged when
// the messages are there: as many messages as the last ones were long, and one beyond it
// at most where these are longer (see Batch.Room).
const ReadBytes = 4 << 20

// Key opens messages and batches.
type Key struct{}

// ErrReported says that what went wrong has been reported already.
var ErrReported = errors.New("inner steps are not valid")

// NoRoom is the cause of an error of a message that has to wait for bytes.
type NoRoom struct{ Bytes int }

func (e *NoRoom) Error() string {
	return fmt.Sprintf("there is no room for %d more bytes now (engine.max_in_flight.bytes)", e.Bytes)
}

// Slack is what a step may add to a message without being asked: it is charged when
// the slab moves on.
const Slack = 1 << 10

// Lacks is how many bytes a message has failed for; 0: it has failed for good.
func Lacks(err error) int {
	var e *NoRoom
	if errors.As(err, &e) {
		return e.Bytes
	}
	return 0
}

// Found is a message as something found it: its payload and metadata, of type M.
type Found[M any] struct {
	Body []byte
	Meta M
}

// Mark is Found without a copy. It holds until the arena of the document is reset.
type Mark[M any] struct {
	doc  doc.Mark
	meta M
}

// MarkOf marks a message.
func MarkOf[M any](d *doc.Doc, meta M) Mark[M] { return Mark[M]{d.Mark(), meta} }

// Restore makes the message what it was.
func (k *Mark[M]) Restore(d *doc.Doc, meta *M) {
	d.Restore(k.doc)
	*meta = k.meta
}

// Kept makes the mark hold for good; the message goes on as it is.
func (k *Mark[M]) Kept(d *doc.Doc) *Found[M] {
	now := d.Bytes()
	d.Restore(k.doc)
	found := &Found[M]{d.Bytes(), k.meta}
	d.Reset(now, nil)
	return found
}
