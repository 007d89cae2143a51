package engine

// weight is how many messages of credit m holds, with the parts of a merge.
func (m *Message) weight() int {
	n := int(m.in.Credits)
	for i := range m.in.Of {
		n += m.in.Of[i].weight()
	}
	return n
}

// bytes is what m keeps in memory: the payload as it was read, and as it is.
func (m *Message) bytes() int {
	n, body := len(m.in.Orig), m.in.Doc.Payload()
	w := m.in.Doc.Weight()
	if w == len(body) && w == n && (n == 0 || &body[0] == &m.in.Orig[0]) {
		return n
	}
	return n + w
}
