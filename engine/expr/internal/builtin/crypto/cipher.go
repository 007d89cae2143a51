package crypto

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1" // #nosec G505 -- RFC 9562 wants it for version 5 of UUIDs
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

var ciphers = lang.Builtins{
	{"decrypt_aes_gcm(text|bytes, aes_key, [text|bytes]) text|bytes",
		"What encrypt_aes_gcm encrypted, with the same key and additional data: text, or bytes if it is not text. Fails if any of them has " +
			"changed.",
		`decrypt_aes_gcm(encrypt_aes_gcm("flow", "0123456789abcdef"), "0123456789abcdef") → "flow"
decrypt_aes_gcm("flow", "0123456789abcdef") → error: decrypt_aes_gcm() needs a nonce of 12 bytes and a tag of 16, but this has 4 bytes in all (from_hex(x) and from_base64(x) give the bytes of an encoded text)`,
		decryptGCM},
	{"constant_time_equal(text|bytes, text|bytes) bool",
		"Whether two texts or bytes are equal, compared in a time that does not reveal how much of them matches: for signatures and tokens.",
		`constant_time_equal(to_hex(md5("a")), "0cc175b9c0f1b6a831c399e269772661") → true`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			return subtle.ConstantTimeCompare(f.ChargedBytes(s, args[0]), f.ChargedBytes(s, args[1])) == 1
		}},
	{"uuid_v5(namespace, text|bytes) text",
		`The UUID of a name, version 5: equal names have equal UUIDs. The namespace is a UUID, or "dns", "url", "oid" or "x500".`,
		`uuid_v5("dns", "www.example.com") → "2ed6657d-e927-568b-95e1-2665a8aea6a2"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			ns, ok := s.Prepared(0).([]byte)
			if !ok {
				ns = namespaceOf(s, args[0])
			}
			h := sha1.New() // #nosec G401 -- see its import
			h.Write(ns)
			h.Write(f.ChargedBytes(s, args[1]))
			u := h.Sum(nil)[:16]
			u[6] = u[6]&0x0f | 0x50
			u[8] = u[8]&0x3f | 0x80
			return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:])
		}},
}

var randomly = lang.Builtins{
	{"encrypt_aes_gcm(text|bytes, aes_key, [text|bytes]) bytes",
		"The text or bytes encrypted with AES-GCM: a random nonce of 12 bytes, the ciphertext, a tag of 16 bytes. The key has 16, 24 or 32 " +
			"bytes, and is good for four billion messages. Additional data, the third argument, is not part of the result, and must be the same " +
			"for decryption.",
		`len(encrypt_aes_gcm("flow", "0123456789abcdef")) → 32`,
		encryptGCM},
}

// The role of a key of AES.
var _ = lang.Role("aes_key", value.Text|value.Bytes, func(s *lang.Site, v any) any { return gcmOf(s, v) })

func gcmOf(s *lang.Site, key any) cipher.AEAD {
	block, err := aes.NewCipher(value.ViewBytes(key))
	if err != nil {
		s.FailWith("from_hex(x) and from_base64(x) give the bytes of an encoded key",
			"%s() needs a key of 16, 24 or 32 bytes, not %d", s.Name, len(value.ViewBytes(key)))
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		s.Fail("%s(): %s", s.Name, err)
	}
	return gcm
}

// cipherAt is the cipher of a call, and the additional data in its arguments.
func cipherAt(f *lang.Frame, s *lang.Site, args []any) (gcm cipher.AEAD, additional []byte) {
	gcm, ok := s.Prepared(1).(cipher.AEAD)
	if !ok {
		f.Step(s.Offset, 20)
		gcm = gcmOf(s, args[1])
	}
	if len(args) == 3 {
		additional = f.ChargedBytes(s, args[2])
	}
	return gcm, additional
}

func encryptGCM(f *lang.Frame, s *lang.Site, args []any) any {
	gcm, additional := cipherAt(f, s, args)
	text := f.ChargedBytes(s, args[0])
	f.CheckRoom(s.Offset, len(text)+gcm.Overhead())
	return gcm.Seal(nil, nil, text, additional)
}

func decryptGCM(f *lang.Frame, s *lang.Site, args []any) any {
	gcm, additional := cipherAt(f, s, args)
	sealed := f.ChargedBytes(s, args[0])
	if len(sealed) < gcm.Overhead() {
		s.FailWith(ifEncoded, "%s() needs a nonce of 12 bytes and a tag of 16, but this has %d bytes in all",
			s.Name, len(sealed))
	}
	f.CheckRoom(s.Offset, 2*len(sealed))
	text, err := gcm.Open(nil, nil, sealed, additional)
	if err != nil {
		s.FailWith(ifEncoded,
			"%s() can't decrypt this: the key or the additional data differs, or the bytes have been changed", s.Name)
	}
	return value.TextOrBytes(text)
}

const ifEncoded = "from_hex(x) and from_base64(x) give the bytes of an encoded text"

// The role of the namespace of a UUID.
var _ = lang.Role("namespace", value.Text, func(s *lang.Site, v any) any { return namespaceOf(s, v) })

// namespaces are the digits in which the namespaces of RFC 9562 differ.
var namespaces = map[string]string{"dns": "0", "url": "1", "oid": "2", "x500": "4"}

func namespaceOf(s *lang.Site, v any) []byte {
	text := v.(string)
	if digit := namespaces[text]; digit != "" {
		text = "6ba7b81" + digit + "-9dad-11d1-80b4-00c04fd430c8"
	}
	ns, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	dashed := len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-'
	if err != nil || len(ns) != 16 || !dashed {
		s.Fail(`%s() needs a UUID as namespace, or "dns", "url", "oid" or "x500", not %s`, s.Name, s.Show(v))
	}
	return ns
}
