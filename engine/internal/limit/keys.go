package limit

import (
	"hash/maphash"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// keyLimits has the allowances of keys, up to a number of keys. Further keys share one allowance, and start with a new one
// when there is room. Keys are stored as 64-bit hashes with a random seed; keys that collide share an allowance.
type keyLimits struct {
	seed  maphash.Seed
	most  int
	lru   *simplelru.LRU[uint64, *allowance]
	spill allowance // shared by keys for which there is no room
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
	// The new allowance ignores what the key may have booked in the spill. Counting the bookings of others there would keep
	// the key busy, and its place taken, for long.
	a := &allowance{}
	k.lru.Add(id, a)
	return a
}

// evict drops a key whose allowance is unused again, so that the key loses nothing. It looks at a few keys; the next call
// looks at others.
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
