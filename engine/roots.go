package engine

func (m *Message) eachRoot(f func(root)) {
	for i := range m.in.Of {
		m.in.Of[i].eachRoot(f)
	}
	if r := rootOf(m); len(m.in.Of) == 0 && r.led != nil {
		f(r)
	}
}
