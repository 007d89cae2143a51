//go:build race || scribble

package ledger

// With the race detector, roots that were recycled are overwritten, and checked when they are reused. This finds code that
// still writes to one.

const nonsense = 0xDEADDEADDEADDEAD

func scribble(b *block) {
	clear(b[:])
	for i := range b {
		b[i].Ref, b[i].Worst, b[i].Stakes, b[i].index = nonsense, 0xEE, -1, -1
		b[i].others.Store(-1)
	}
}

func unscribble(b *block) {
	for i := range b {
		if s := &b[i]; s.Ref != nonsense || s.Worst != 0xEE || s.Stakes != -1 || s.index != -1 ||
			s.others.Load() != -1 || s.Lease.Load() != 0 || s.Err != nil || s.Body != nil {
			panic("engine: a root was changed after its ledger had ended (please report this bug)")
		}
	}
}
