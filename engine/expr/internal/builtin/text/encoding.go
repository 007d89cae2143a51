package text

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var encodings = lang.Builtins{
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

// rawBase32 also refuses a last character that is only a part of a byte, which package base32 accepts.
func rawBase32(text string) ([]byte, error) {
	raw := base32.StdEncoding.WithPadding(base32.NoPadding)
	b, err := raw.DecodeString(text)
	breaks := strings.Count(text, "\n") + strings.Count(text, "\r")
	if err == nil && raw.EncodedLen(len(b)) != len(text)-breaks {
		err = base32.CorruptInputError(len(text))
	}
	return b, err
}

// encoding writes bytes as ASCII that needs no escapes in JSON.
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

func (e encoding) text(f *lang.Frame, s *lang.Site, args []any) any {
	in := value.ViewBytes(args[0])
	n := e.size(len(in))
	f.CheckRoom(s.Offset, 2*n)
	out := make([]byte, n)
	e.encode(out, in)
	return string(out)
}

// shortcuts adds a shorter way to the text of bytes that have one themselves, such as the hash of a field.
func (e encoding) shortcuts(s *lang.Site, call *lang.Node, args []lang.Node) {
	raw := args[0].Raw
	if raw == nil {
		return
	}
	call.Write = func(f *lang.Frame, dst []byte) ([]byte, bool) {
		start := len(dst) + len(`"`)
		out, ok := raw(f, append(dst, '"'))
		if !ok {
			return dst, false
		}
		from := len(out)
		size := e.size(from - start)
		f.Alloc(s.Offset, size)
		out = slices.Grow(out, size)[:from+size]
		e.encode(out[from:], out[start:from])
		out = append(out[:start], out[from:]...)
		return append(out, '"'), true
	}
}

// decoded is the reverse of an encoding.
func decoded(what string, decode func(text string) ([]byte, error)) func(*lang.Frame, *lang.Site, []any) any {
	return func(f *lang.Frame, s *lang.Site, args []any) any {
		f.CheckRoom(s.Offset, 3*len(value.ViewBytes(args[0])))
		b, err := decode(value.TextOf(args[0]))
		if err != nil {
			s.Fail("%s(): %s is not %s", s.Name, s.Show(args[0]), what)
		}
		return value.TextOrBytes(b)
	}
}

// padded decodes text with or without padding.
func padded(raw, full func(string) ([]byte, error)) func(string) ([]byte, error) {
	return func(text string) ([]byte, error) {
		if strings.Contains(text, "=") {
			return full(text)
		}
		return raw(text)
	}
}
