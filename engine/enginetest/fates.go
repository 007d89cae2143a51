package enginetest

import (
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// WriteFates returns the fate of each message after a Write that returned err: "safe", "failed" or "parked".
func WriteFates(b *engine.Batch, err error) []string {
	msgs := b.Inside(inside.Key{}).Msgs
	fates := make([]string, len(msgs))
	for i := range msgs {
		switch s := msgs[i].Inside(inside.Key{}).State; {
		case s == inside.Parked:
			fates[i] = "parked"
		case s == inside.Failed || s == inside.Live && err != nil:
			fates[i] = "failed"
		default:
			fates[i] = "safe"
		}
	}
	return fates
}
