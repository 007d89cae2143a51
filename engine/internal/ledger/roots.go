package ledger

import "github.com/flowd-io/flowd/engine"

func EachRoot(m *engine.Message, f func(Root)) {
	for i := range msg(m).Of {
		EachRoot(&msg(m).Of[i], f)
	}
	if r := RootOf(m); len(msg(m).Of) == 0 && r.Led != nil {
		f(r)
	}
}
