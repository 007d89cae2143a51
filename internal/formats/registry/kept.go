package registry

import "github.com/hashicorp/golang-lru/v2/simplelru"

// Limits of a cache. The least recently used entries go first.
const (
	mostKept      = 10_000
	mostKeptBytes = 32 << 20 // of the texts of schemas
	mostMadeBytes = 256 << 20
	madeOfText    = 40 // compiled bytes per byte of a schema's text, roughly at most
)

// kept is a cache bounded by number and by bytes. It has no lock.
type kept[K comparable, V any] struct {
	lru         *simplelru.LRU[K, sized[V]]
	bytes, most int
}

type sized[V any] struct {
	value V
	bytes int
}

func newKept[K comparable, V any](mostBytes int) *kept[K, V] {
	k := &kept[K, V]{most: mostBytes}
	k.lru, _ = simplelru.NewLRU(mostKept, func(_ K, old sized[V]) { k.bytes -= old.bytes }) // the size is positive
	return k
}

func (k *kept[K, V]) get(key K) (V, bool) {
	s, ok := k.lru.Get(key)
	return s.value, ok
}

// add adds a value of roughly this many bytes.
func (k *kept[K, V]) add(key K, v V, bytes int) {
	k.lru.Remove(key)
	k.bytes += bytes
	k.lru.Add(key, sized[V]{v, bytes})
	for k.bytes > k.most && k.lru.Len() > 1 {
		k.lru.RemoveOldest()
	}
}
