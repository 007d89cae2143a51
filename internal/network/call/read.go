package call

import (
	"errors"
	"io"

	"github.com/flowd-io/flowd/engine"
)

// free is how much of an answer is read without asking for room: calls are few at once.
const free = 32 << 10

// ReadAll reads an answer of up to limit bytes, and one more to detect that it is longer.
// Beyond a little it takes room in m first: an [engine.Error] says that there is none, and
// must be returned like that of [engine.Message.Grow]. Other errors are those of r. Calls
// for other messages of the batch may continue meanwhile.
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
