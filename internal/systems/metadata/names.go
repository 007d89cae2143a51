package metadata

import "strings"

// Names converts between the names that a sender chose, such as those of headers, and the names of metadata. A name that
// the input uses itself, such as topic, gets a prefix. So a sender can't forge the server's metadata, and its own value is
// not lost.
type Names struct {
	Prefix string
	Own    func(name string) bool // reports whether the input uses a name itself
}

// In returns the metadata name of a sender's name. Different names stay different.
func (n Names) In(sent string) string {
	if n.clashes(sent) {
		return n.Prefix + sent
	}
	return sent
}

// Out is the inverse of In. It returns names that In can't return unchanged.
func (n Names) Out(name string) string {
	if sent, ok := strings.CutPrefix(name, n.Prefix); ok && n.clashes(sent) {
		return sent
	}
	return name
}

// clashes reports whether a name is one that the input uses itself, with any number of prefixes before it.
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
