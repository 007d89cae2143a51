package doc

// ValueKind is the kind of a JSON value.
type ValueKind uint8

// The kinds. Missing is the kind of an empty text.
const (
	Missing ValueKind = iota
	Null
	Bool
	Numeric
	String
	Array
	Object
)

var kindNames = [...]string{"missing", "null", "a boolean", "a number", "a string", "an array", "an object"}

// String returns the kind with its article, such as "a number".
func (k ValueKind) String() string { return kindNames[k] }

// Kind returns the kind of a value from its source text, as from [Doc.Raw].
func Kind(raw []byte) ValueKind {
	if len(raw) == 0 {
		return Missing
	}
	switch raw[0] {
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '"':
		return String
	case '[':
		return Array
	case '{':
		return Object
	}
	return Numeric
}
