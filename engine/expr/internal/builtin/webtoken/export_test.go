package webtoken

// ParsePEM is for tests.
var ParsePEM = parsePEM

// Bits is the size of a key, or 0 if it can't sign tokens.
func Bits(key any) int { return classify(key).bits }
