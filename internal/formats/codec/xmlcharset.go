package codec

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

var (
	utf8Mark = []byte("\ufeff")
	utf16BE  = []byte("\xfe\xff")
	utf16LE  = []byte("\xff\xfe")
)

// declaration matches the encoding in an XML declaration.
var declaration = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^<\?xml\s[^>]*?\bencoding\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)')`)
})

// unicodeXML converts an XML document to UTF-8, without a byte order mark. A mark takes precedence over the declared
// encoding.
func unicodeXML(payload []byte) ([]byte, error) {
	switch {
	case bytes.HasPrefix(payload, utf8Mark):
		return payload[len(utf8Mark):], nil
	case bytes.HasPrefix(payload, utf16BE), bytes.HasPrefix(payload, utf16LE):
		return inUnicode(unicode.UTF16(unicode.BigEndian, unicode.UseBOM), payload, "UTF-16")
	}
	m := declaration().FindSubmatch(payload[:min(len(payload), 1<<10)])
	if m == nil {
		return payload, nil
	}
	name := string(m[1]) + string(m[2])
	switch plain := plainCharset(name); plain {
	case "utf8", "":
		return payload, nil
	case "usascii", "ascii":
		if i := bytes.IndexFunc(payload, func(r rune) bool { return r > 0x7f }); i >= 0 {
			return nil, fmt.Errorf("byte %d is not valid %s, the encoding that the document declares", i+1, name)
		}
		return payload, nil
	default:
		if c := charsets()[plain]; c != nil {
			return inUnicode(c, payload, name)
		}
	}
	return nil, fmt.Errorf("the encoding %.40q is not known (convert the document to UTF-8 before, as with "+
		"`exec: [iconv, -f, %.40s, -t, UTF-8]`, and read that with `from`)", name, name)
}

func inUnicode(e encoding.Encoding, payload []byte, name string) ([]byte, error) {
	text, err := e.NewDecoder().Bytes(payload)
	if err != nil || bytes.ContainsRune(text, '\ufffd') {
		return nil, fmt.Errorf("it is not valid %s, the encoding that the document declares", name)
	}
	return text, nil
}

// charsets are the single-byte encodings, by their plain names.
var charsets = sync.OnceValue(func() map[string]encoding.Encoding {
	all := map[string]encoding.Encoding{}
	for _, e := range charmap.All {
		name := plainCharset(fmt.Sprint(e)) // "ISO 8859-1", "Windows 1252", "IBM Code Page 437"
		all[name] = e
		if number, ok := strings.CutPrefix(name, "windows"); ok {
			all["cp"+number] = e
		}
		if number, ok := strings.CutPrefix(name, "ibmcodepage"); ok {
			all["cp"+number], all["ibm"+number] = e, e
		}
	}
	for alias, name := range map[string]string{"latin1": "iso88591", "latin2": "iso88592", "latin9": "iso885915"} {
		all[alias] = all[name]
	}
	return all
})

// plainCharset removes what spellings of a name differ in.
func plainCharset(name string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(name))
}
