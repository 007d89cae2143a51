package engine

// then is what becomes of a failed message.
type then uint8

var thens = map[string]then{"": thenDefault, "dead_letter": thenDeadLetter, "return": thenReturn, "drop": thenDrop, "stop": thenStop}

const (
	thenDefault then = iota // what the source can: return, stop or drop
	thenDeadLetter
	thenReturn
	thenDrop
	thenStop
)
