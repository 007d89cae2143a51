package amqp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/flowd-io/flowd/internal/network/bounds"
)

const (
	frameSize = 128 << 10 // bytes; what a frame may have, by agreement
	mostBeats = 1000      // heartbeats within a second
	mostCalls = 100_000   // methods within a second that bring no message and confirm none
	mostBody  = 512 << 20 // bytes of a message: more than that no RabbitMQ can be set to
)

// The parts of a frame.
const (
	frameHead   = 7 // its type, channel and size
	frameMethod = 1
	frameHeader = 2 // of the content of a method
	frameBody   = 3
	frameBeat   = 8

	sizeOfBody   = frameHead + 12 // where the size of a content ends
	classBasic   = 60
	basicDeliver = 60
	basicAck     = 80
	basicNack    = 120
)

var errNotAMQP = errors.New("the server does not speak AMQP 0-9-1 (check the address, and what listens there)")

// deliveries bounds what the client queues: a server that keeps to the prefetch delivers no more than is taken.
type deliveries struct {
	beats bounds.Rate
	calls bounds.Rate
	most  atomic.Int64 // that may wait; 0: none is expected
	wait  atomic.Int64 // those that were delivered and not taken
}

// check is a [bounds.Check] of what a broker sends. The client grows a body for as long as it goes on, and queues what is
// delivered without end.
func (d *deliveries) check() bounds.Check {
	return &bounds.Frames{First: frameHead, Next: func(head []byte) (length int64, more int, err error) {
		size := int64(binary.BigEndian.Uint32(head[3:]))
		switch kind := head[0]; {
		case kind != frameMethod && kind != frameHeader && kind != frameBody && kind != frameBeat:
			return 0, 0, fmt.Errorf("%w: a frame has the type %d", errNotAMQP, kind)
		case size > frameSize:
			return 0, 0, bounds.TooLarge("the broker announces a frame of %d bytes, and none may have more than %d", size, frameSize)
		case kind == frameHeader && len(head) < sizeOfBody && size >= sizeOfBody-frameHead:
			return 0, sizeOfBody - len(head), nil
		case kind == frameMethod && len(head) < frameHead+4 && size >= 4:
			return 0, frameHead + 4 - len(head), nil
		case kind == frameBeat && d.beats.Over(mostBeats):
			return 0, 0, fmt.Errorf("%w: it sent over %d heartbeats within a second", errNotAMQP, mostBeats)
		case kind == frameHeader && len(head) == sizeOfBody:
			if body := binary.BigEndian.Uint64(head[sizeOfBody-8:]); body > mostBody {
				return 0, 0, bounds.TooLarge("the broker announces a message of %d bytes, and none may have more than %d", body, mostBody)
			}
		case kind == frameMethod && len(head) == frameHead+4:
			class, method := binary.BigEndian.Uint16(head[frameHead:]), binary.BigEndian.Uint16(head[frameHead+2:])
			switch {
			case class == classBasic && method == basicDeliver:
				if d.wait.Add(1) > d.most.Load() {
					return 0, 0, bounds.TooLarge("the broker delivers more than the prefetch of %d", d.most.Load())
				}
			case class == classBasic && (method == basicAck || method == basicNack):
			case d.calls.Over(mostCalls):
				return 0, 0, fmt.Errorf("%w: it sent over %d methods within a second", errNotAMQP, mostCalls)
			}
		}
		return frameHead + size + 1, 0, nil
	}}
}

// Expect says that n deliveries may wait until they are taken.
func (c *Conn) Expect(n int) { c.wire.deliveries.most.Store(int64(n)) }

// Took says that n deliveries were taken.
func (c *Conn) Took(n int) { c.wire.deliveries.wait.Add(-int64(n)) }
