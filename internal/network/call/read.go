package call

import (
	"errors"
	"io"

	"github.com/flowd-io/flowd/engine"
)

// free is how many bytes of an answer need no credits: only few calls run at once.
const free = 32 << 10

// ReadAll reads an answer of up to limit bytes, plus one to detect a longer one. Beyond a small size it takes credits
// of m first. An [engine.Error] says that there are none, and must be returned like that of [engine.Message.Grow].
// Other errors come from r. Calls for other messages of the batch may run at the same time.
func ReadAll(m *engine.Message, r io.Reader, limit int64) ([]byte, error) {
	most := int(limit) + 1
	body := make([]byte, 0, min(most, 512))
	for len(body) < most {
		if len(body) == cap(body) {
			size := min(most, 2*cap(body))
			if size > free {
				if err := m.Grow(size - len(body)); err != nil {
					return nil, err
				}
			}
			body = append(make([]byte, 0, size), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return body, err
		}
	}
	return body, nil
}
