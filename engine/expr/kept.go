package expr

import "sync"

// kept is what was made of what messages have brought, up to a number. When it is full it starts over: no message can
// make it large, and what is in use returns at once. It is safe for concurrent use.
type kept[K comparable, V any] struct {
	most int

	mu sync.RWMutex // guards the field below
	by map[K]V
}

func (k *kept[K, V]) get(key K) (v V, ok bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	v, ok = k.by[key]
	return v, ok
}

// put keeps v. The key must not be a part of a payload.
func (k *kept[K, V]) put(key K, v V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil || len(k.by) >= k.most {
		k.by = map[K]V{}
	}
	k.by[key] = v
}
