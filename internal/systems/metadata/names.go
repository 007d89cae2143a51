package metadata

import "strings"

// Names are the names of what a sender has named, such as headers, as metadata. One that is the input's own, such as
// topic, gets a prefix: no sender can pose as the server, and what it sent is not lost.
type Names struct {
	Prefix string
	Own    func(name string) bool
}

// In is a sender's name as metadata. Two names never become the same.
func (n Names) In(sent string) string {
	if n.clashes(sent) {
		return n.Prefix + sent
	}
	return sent
}

// Out is the inverse of In; other names stay as they are.
func (n Names) Out(name string) string {
	if sent, ok := strings.CutPrefix(name, n.Prefix); ok && n.clashes(sent) {
		return sent
	}
	return name
}

// clashes reports whether a name is the input's own, or looks like one that was.
func (n Names) clashes(sent string) bool {
	for !n.Own(sent) {
		rest, ok := strings.CutPrefix(sent, n.Prefix)
		if !ok {
			return false
		}
		sent = rest
	}
	return true
}
