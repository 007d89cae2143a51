package stage

import "sync/atomic"

// serialBlock is how many serials a writer takes at once.
const serialBlock = 1 << 10

var serialBlocks atomic.Uint32

// nextSerial is one that no other writer gives.
func (w *writer) nextSerial() uint32 {
	if w.serials == 0 {
		w.serial, w.serials = (serialBlocks.Add(1)-1)*serialBlock, serialBlock-1 // the first of a block is spared: it may be 0
	}
	w.serial++
	w.serials--
	return w.serial
}
