package amqp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/flowd-io/flowd/internal/network/bounds"
)

const (
	frameSize = 128 << 10 // negotiated limit of a frame, in bytes
	mostBeats = 1000      // heartbeats within a second
	mostCalls = 100_000   // methods within a second, other than deliveries and confirms
	mostBody  = 512 << 20 // bytes of a message; RabbitMQ can't be configured to accept more
)

// Types and lengths of frames, and numbers of methods.
const (
	frameHead   = 7 // bytes: type, channel and size
	frameMethod = 1
	frameHeader = 2 // the header of a message
	frameBody   = 3
	frameBeat   = 8

	sizeOfBody   = frameHead + 12 // bytes up to the end of the size of a message
	classBasic   = 60
	basicDeliver = 60
	basicAck     = 80
	basicNack    = 120
)

var errNotAMQP = errors.New("the server does not speak AMQP 0-9-1 (check the address, and what listens there)")

// deliveries limits the deliveries that the client library queues. A broker that respects the prefetch never exceeds it.
type deliveries struct {
	beats bounds.Rate
	calls bounds.Rate
	most  atomic.Int64 // deliveries that may be queued; 0: none is expected
	wait  atomic.Int64 // deliveries that are queued
}

// check returns a [bounds.Check] of what a broker sends. The client library itself limits neither the size of a message nor
// the number of queued deliveries.
func (d *deliveries) check() bounds.Check {
	return &bounds.Frames{First: frameHead, Next: func(head []byte) (length int64, more int, err error) {
		size := int64(binary.BigEndian.Uint32(head[3:]))
		switch kind := head[0]; {
		case kind != frameMethod && kind != frameHeader && kind != frameBody && kind != frameBeat:
			return 0, 0, fmt.Errorf("%w: a frame has the type %d", errNotAMQP, kind)
		case size > frameSize:
			return 0, 0, bounds.TooLarge("the broker announces a frame of %d bytes, but none may have more than %d", size, frameSize)
		case kind == frameHeader && len(head) < sizeOfBody && size >= sizeOfBody-frameHead:
			return 0, sizeOfBody - len(head), nil
		case kind == frameMethod && len(head) < frameHead+4 && size >= 4:
			return 0, frameHead + 4 - len(head), nil
		case kind == frameBeat && d.beats.Over(mostBeats):
			return 0, 0, fmt.Errorf("%w: it has sent over %d heartbeats within a second", errNotAMQP, mostBeats)
		case kind == frameHeader && len(head) == sizeOfBody:
			if body := binary.BigEndian.Uint64(head[sizeOfBody-8:]); body > mostBody {
				return 0, 0, bounds.TooLarge("the broker announces a message of %d bytes, but none may have more than %d", body, mostBody)
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
				return 0, 0, fmt.Errorf("%w: it has sent over %d methods within a second", errNotAMQP, mostCalls)
			}
		}
		return frameHead + size + 1, 0, nil
	}}
}

// Expect allows n deliveries to be queued until [Conn.Took] is called for them.
func (c *Conn) Expect(n int) { c.wire.deliveries.most.Store(int64(n)) }

// Took records that n deliveries were taken from the queue.
func (c *Conn) Took(n int) { c.wire.deliveries.wait.Add(-int64(n)) }
