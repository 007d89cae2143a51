package codec

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// Base64 is bytes written as text (RFC 4648).
type Base64 struct {
	URL bool `yaml:"url" doc:"The alphabet for URLs and file names: - and _ instead of + and /."`
	Raw bool `yaml:"raw" doc:"Without padding at the end."`
}

// Binary marks a codec whose decoded side is bytes.
func (c *Base64) Binary() {}

// Decode returns the bytes. It ignores line breaks in the text.
func (c *Base64) Decode(dst, payload []byte) ([]byte, error) {
	out, err := c.encoding().AppendDecode(dst, payload)
	if err != nil {
		return dst, fmt.Errorf("base64: %w", err)
	}
	return out, nil
}

// Encode returns the text.
func (c *Base64) Encode(dst, data []byte) ([]byte, error) {
	return c.encoding().AppendEncode(dst, data), nil
}

func (c *Base64) encoding() *base64.Encoding {
	e := base64.StdEncoding
	if c.URL {
		e = base64.URLEncoding
	}
	if c.Raw {
		e = e.WithPadding(base64.NoPadding)
	}
	return e
}

// Hex is bytes written as two hexadecimal digits each.
type Hex struct{}

// Binary marks a codec whose decoded side is bytes.
func (c *Hex) Binary() {}

// Decode returns the bytes.
func (c *Hex) Decode(dst, payload []byte) ([]byte, error) {
	out, err := hex.AppendDecode(dst, payload)
	if err != nil {
		return dst, fmt.Errorf("hex: %s", strings.TrimPrefix(err.Error(), "encoding/hex: "))
	}
	return out, nil
}

// Encode returns the text, in lower case.
func (c *Hex) Encode(dst, data []byte) ([]byte, error) { return hex.AppendEncode(dst, data), nil }
