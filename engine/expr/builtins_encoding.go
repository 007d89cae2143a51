package expr

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var encodings = builtins{
	{"to_hex(text|bytes) text",
		"The text or bytes in hexadecimal, two lower-case digits for each byte.",
		`to_hex("flow") → "666c6f77"`,
		inHex.text},
	{"from_hex(text|bytes) text|bytes",
		"What hexadecimal digits, in upper or lower case, encode: text, or bytes if it is not text.",
		`from_hex("666C6f77") → "flow"
from_hex("0x66") → error: from_hex(): text "0x66" is not hexadecimal`,
		decoded("hexadecimal", hex.DecodeString)},
	{"to_base64url(text|bytes) text",
		"The text or bytes in base64 with - and _ instead of + and /, for URLs; without padding.",
		`to_base64url("a?>") → "YT8-"`,
		inBase64URL.text},
	{"from_base64url(text|bytes) text|bytes",
		"What base64 with - and _ encodes, with or without padding: text, or bytes if it is not text.",
		`from_base64url("YT8-") → "a?>"`,
		decoded("base64url", padded(base64.RawURLEncoding.DecodeString, base64.URLEncoding.DecodeString))},
	{"to_base32(text|bytes) text",
		"The text or bytes in base32, with padding.",
		`to_base32("flow") → "MZWG65Y="`,
		inBase32.text},
	{"from_base32(text|bytes) text|bytes",
		"What base32 encodes, in upper or lower case, with or without padding: text, or bytes if it is not text.",
		`from_base32("mzwg65y") → "flow"`,
		decoded("base32", func(text string) ([]byte, error) {
			return padded(rawBase32, base32.StdEncoding.DecodeString)(strings.ToUpper(text))
		})},
}

// rawBase32 refuses, as package base32 does not, a last character without the rest of a byte.
func rawBase32(text string) ([]byte, error) {
	raw := base32.StdEncoding.WithPadding(base32.NoPadding)
	b, err := raw.DecodeString(text)
	breaks := strings.Count(text, "\n") + strings.Count(text, "\r")
	if err == nil && raw.EncodedLen(len(b)) != len(text)-breaks {
		err = base32.CorruptInputError(len(text))
	}
	return b, err
}

func init() {
	family(func() {
		encodings.declare("text", true)
		for name, e := range map[string]encoding{
			"to_hex": inHex, "to_base64": inBase64, "to_base64url": inBase64URL, "to_base32": inBase32,
		} {
			functions[name].compiled = e.compiled
		}
	})
}

// encoding writes bytes as text of ASCII that JSON needs not escape.
type encoding struct {
	size   func(n int) int // of n bytes
	encode func(dst, src []byte)
}

var (
	inHex       = encoding{hex.EncodedLen, func(dst, src []byte) { hex.Encode(dst, src) }}
	inBase64    = encoding{base64.StdEncoding.EncodedLen, base64.StdEncoding.Encode}
	inBase64URL = encoding{base64.RawURLEncoding.EncodedLen, base64.RawURLEncoding.Encode}
	inBase32    = encoding{base32.StdEncoding.EncodedLen, base32.StdEncoding.Encode}
)

func (e encoding) text(f *frame, s *site, args []any) any {
	in := value.ViewBytes(args[0])
	n := e.size(len(in))
	f.room(s.offset, 2*n)
	out := make([]byte, n)
	e.encode(out, in)
	return string(out)
}

// compiled writes the text of what can be written as it is, such as the hash of a field.
func (e encoding) compiled(s *site, call *node, args []node) {
	raw := args[0].raw
	if raw == nil {
		return
	}
	call.write = func(f *frame, dst []byte) ([]byte, bool) {
		start := len(dst) + len(`"`)
		out, ok := raw(f, append(dst, '"'))
		if !ok {
			return dst, false
		}
		from := len(out)
		size := e.size(from - start)
		f.alloc(s.offset, size)
		out = slices.Grow(out, size)[:from+size]
		e.encode(out[from:], out[start:from])
		out = append(out[:start], out[from:]...)
		return append(out, '"'), true
	}
}

// decoded is the reverse of an encoding.
func decoded(what string, decode func(text string) ([]byte, error)) func(*frame, *site, []any) any {
	return func(f *frame, s *site, args []any) any {
		f.room(s.offset, 3*len(value.ViewBytes(args[0])))
		b, err := decode(value.TextOf(args[0]))
		if err != nil {
			s.fail("%s(): %s is not %s", s.name, s.left(args[0]), what)
		}
		return value.TextOrBytes(b)
	}
}

// padded reads text as it is padded.
func padded(raw, full func(string) ([]byte, error)) func(string) ([]byte, error) {
	return func(text string) ([]byte, error) {
		if strings.Contains(text, "=") {
			return full(text)
		}
		return raw(text)
	}
}
