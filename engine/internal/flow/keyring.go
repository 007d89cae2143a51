package flow

import (
	"slices"
	"unsafe"
)

// keyring is memory for keys, of which one goroutine makes many.
type Keyring []byte

// keysSize is how many bytes of keys are kept together: few, since one may stay long.
const keysSize = 1 << 10

// room is where the next key may be appended, to be kept or forgotten.
func (k Keyring) Room() []byte { return k[len(k):] }

// keep makes a key that was appended to room permanent.
func (k *Keyring) Keep(key []byte) []byte {
	if len(key) > cap(*k)-len(*k) { // it is elsewhere
		if len(key) < keysSize/4 {
			*k = append(make([]byte, 0, keysSize), key...)
			return slices.Clip(*k)
		}
		return key
	}
	*k = (*k)[:len(*k)+len(key)]
	return slices.Clip(key)
}

// text is keep for a key that is asked for as text: what is kept never changes.
func (k *Keyring) Text(key []byte) string {
	key = k.Keep(key)
	return unsafe.String(unsafe.SliceData(key), len(key))
}
