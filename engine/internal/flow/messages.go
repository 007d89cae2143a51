package flow

import "github.com/flowd-io/flowd/engine"

// weight is how many messages of credit m holds, with the parts of a merge.
func Weight(m *engine.Message) int {
	n := int(msg(m).Credits)
	for i := range msg(m).Of {
		n += Weight(&msg(m).Of[i])
	}
	return n
}

// bytes is what m keeps in memory: the payload as it was read, and as it is.
func Bytes(m *engine.Message) int {
	n, body := len(msg(m).Orig), msg(m).Doc.Payload()
	w := msg(m).Doc.Weight()
	if w == len(body) && w == n && (n == 0 || &body[0] == &msg(m).Orig[0]) {
		return n
	}
	return n + w
}
