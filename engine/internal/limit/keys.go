package limit

import (
	"hash/maphash"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// keyLimits are the limits of keys, as many as there is room for; other keys share one, and
// start over when they find room. Keys are kept as 64-bit hashes under a random seed: two
// that collide share a limit.
type keyLimits struct {
	seed  maphash.Seed
	most  int
	lru   *simplelru.LRU[uint64, *allowance]
	spill allowance // shared by keys that there was no room for
}

func newKeyLimits(most int) *keyLimits {
	most = max(1, most)
	lru, _ := simplelru.NewLRU[uint64, *allowance](most, nil) // fails only for sizes below 1
	return &keyLimits{seed: maphash.MakeSeed(), most: most, lru: lru}
}

func (k *keyLimits) len() int { return k.lru.Len() }

func (k *keyLimits) get(key []byte, idle func(*allowance) bool) *allowance {
	id := maphash.Bytes(k.seed, key)
	if a, ok := k.lru.Get(id); ok {
		return a
	}
	if k.lru.Len() >= k.most && !k.evict(idle) {
		return &k.spill
	}
	// What the key may have booked in the spill is not held against it: the bookings
	// of others there would keep it, and with it a place, busy for long.
	a := &allowance{}
	k.lru.Add(id, a)
	return a
}

// evict drops a key whose allowance is whole again, which it has back at once if it
// returns. It looks at few; the next call looks at others.
func (k *keyLimits) evict(idle func(*allowance) bool) bool {
	for range 4 {
		id, a, _ := k.lru.GetOldest()
		if idle(a) {
			return k.lru.Remove(id)
		}
		k.lru.Get(id)
	}
	return false
}

func (k *keyLimits) Each(f func(*allowance)) {
	f(&k.spill)
	for _, a := range k.lru.Values() {
		f(a)
	}
}
