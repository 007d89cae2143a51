package ledger

// then is what becomes of a failed message.
type Then uint8

var Thens = map[string]Then{"": ThenDefault, "dead_letter": ThenDeadLetter, "return": ThenReturn, "drop": ThenDrop, "stop": ThenStop}

const (
	ThenDefault Then = iota // what the source can: return, stop or drop
	ThenDeadLetter
	ThenReturn
	ThenDrop
	ThenStop
)
