// Package crypto has the functions for hashes (hash.go), and for encryption and UUIDs of names (cipher.go).
package crypto

import (
	"crypto/hmac"
	"crypto/md5"  // #nosec G501 -- for systems that require it, as its function says
	"crypto/sha1" // #nosec G505 -- as md5
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/engine/expr/internal/value"
)

// Declare declares hashes and encryption.
func Declare() {
	ciphers.Declare("hashes and encryption", true)
	randomly.Declare("hashes and encryption", false)
	hashes.Declare("hashes and encryption", true)
	for name, d := range digests {
		lang.Lookup(name).Shortcuts = hashShortcuts(d.sum)
	}
	lang.Lookup("xxhash64").Shortcuts = hashShortcuts(appendXXHash)
	lang.Lookup("crc32").Shortcuts = checksumShortcuts(crc32.IEEETable)
	lang.Lookup("crc32c").Shortcuts = checksumShortcuts(castagnoli)
	lang.Lookup("hmac").Shortcuts = hmacShortcuts
}

var hashes = lang.Builtins{
	{"md5(text|bytes) bytes",
		"The MD5 of a text or bytes, for systems that require it: it does not protect against forgery.",
		`to_hex(md5("flow")) → "cff5497121104c2b8e0cb41ed2083a9b"`,
		sumOf(digests["md5"].sum)},
	{"sha1(text|bytes) bytes",
		"The SHA-1 of a text or bytes, for systems that require it: it does not protect against forgery.",
		`to_hex(sha1("flow")) → "d8f7e9c783be82328ffc2f348b0f257b671c1107"`,
		sumOf(digests["sha1"].sum)},
	{"sha256(text|bytes) bytes",
		"The SHA-256 of a text or bytes; to_hex(sha256(x)) is its usual form.",
		`to_hex(sha256("flow")) → "3b21278178ed3463f3bde3a35f088caf6d99ff1b2f647d9a0c2b8de599ec3dc6"`,
		sumOf(digests["sha256"].sum)},
	{"sha384(text|bytes) bytes",
		"The SHA-384 of a text or bytes.",
		`to_base64(sha384("flow")) → "lYO1OXVqsUrpu2yZxIBiLTslPmDHxmLaEI566dt86YQc5hYZ7xHGtDx9Tsde0hmK"`,
		sumOf(digests["sha384"].sum)},
	{"sha512(text|bytes) bytes",
		"The SHA-512 of a text or bytes.",
		`to_base64(sha512("flow")) → "jwrjF6i00Mc4vcBjaAvGZFMlhdEzrZ1cBe211jMvVTY0dYMB7jEIFM9AJlcoQQmQBj0T8CWprVffTgrgLAOw4g=="`,
		sumOf(digests["sha512"].sum)},
	{"xxhash64(text|bytes) bytes",
		"The 64-bit xxHash of a text or bytes, seed 0, as eight bytes, big-endian: fast, and not for secrets.",
		`to_hex(xxhash64("abc")) → "44bc2cf5ad770999"`,
		sumOf(appendXXHash)},
	{"crc32(text|bytes) int",
		"The CRC-32 of a text or bytes, as used in gzip and PNG.",
		`crc32("123456789") → 3421780262`,
		checksum(crc32.IEEETable)},
	{"crc32c(text|bytes) int",
		"The CRC-32 with Castagnoli's polynomial, as used in iSCSI and Kafka.",
		`crc32c("123456789") → 3808858755`,
		checksum(castagnoli)},
	{"hmac(algorithm, text|bytes, text|bytes) bytes",
		"The HMAC of a text or bytes, the third argument, with a key, the second; the algorithm is md5, sha1, sha256, sha384 or sha512. " +
			"Compare with constant_time_equal.",
		`to_hex(hmac("sha256", "key", "flow")) → "4fd418d5bb6b198ded1fd573d6c07e2aea732a2e637f6c609a044a8d3f3fd10f"`,
		func(f *lang.Frame, s *lang.Site, args []any) any {
			data := f.ChargedBytes(s, args[2])
			if p, ok := s.Prepared(1).(*macPool); ok {
				return p.sum(nil, data)
			}
			d, ok := s.Prepared(0).(digest)
			if !ok {
				d = digestOf(s, args[0])
			}
			f.Step(s.Offset, 10+len(value.TextOf(args[1]))>>5)
			mac := hmac.New(d.new, value.ViewBytes(args[1]))
			mac.Write(data)
			return mac.Sum(nil)
		}},
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digest is a hash function.
type digest struct {
	new func() hash.Hash
	sum sumFunc
}

// sumFunc appends the hash of data to dst, without another allocation.
type sumFunc func(dst, data []byte) []byte

var digests = map[string]digest{
	"md5":    {md5.New, sumMD5},
	"sha1":   {sha1.New, sumSHA1},
	"sha256": {sha256.New, func(dst, data []byte) []byte { h := sha256.Sum256(data); return append(dst, h[:]...) }},
	"sha384": {sha512.New384, func(dst, data []byte) []byte { h := sha512.Sum384(data); return append(dst, h[:]...) }},
	"sha512": {sha512.New, func(dst, data []byte) []byte { h := sha512.Sum512(data); return append(dst, h[:]...) }},
}

func sumMD5(dst, data []byte) []byte {
	h := md5.Sum(data) // #nosec G401 -- see its import
	return append(dst, h[:]...)
}

func sumSHA1(dst, data []byte) []byte {
	h := sha1.Sum(data) // #nosec G401 -- see its import
	return append(dst, h[:]...)
}

func appendXXHash(dst, data []byte) []byte {
	return binary.BigEndian.AppendUint64(dst, xxhash.Sum64(data))
}

// The role of the name of a hash function.
var _ = lang.Role("algorithm", value.Text, func(s *lang.Site, v any) any { return digestOf(s, v) })

func digestOf(s *lang.Site, name any) digest {
	d, ok := digests[name.(string)]
	if !ok {
		s.Fail("%s() knows md5, sha1, sha256, sha384 and sha512, not %s", s.Name, s.Show(name))
	}
	return d
}

func sumOf(sum sumFunc) func(*lang.Frame, *lang.Site, []any) any {
	return func(f *lang.Frame, s *lang.Site, args []any) any { return sum(nil, f.ChargedBytes(s, args[0])) }
}

func checksum(table *crc32.Table) func(*lang.Frame, *lang.Site, []any) any {
	return func(f *lang.Frame, s *lang.Site, args []any) any {
		return int(crc32.Checksum(f.ChargedBytes(s, args[0]), table))
	}
}

// hashShortcuts lets the hash of a field be written without decoding the field.
func hashShortcuts(sum sumFunc) func(s *lang.Site, call *lang.Node, args []lang.Node) {
	return func(s *lang.Site, call *lang.Node, args []lang.Node) { call.Raw = rawSum(s, args[0].Scalar, sum) }
}

func rawSum(s *lang.Site, of lang.ScalarFunc, sum sumFunc) lang.WriteFunc {
	if of == nil {
		return nil
	}
	return func(f *lang.Frame, dst []byte) ([]byte, bool) {
		v, ok := of(f.Source().Document())
		if !ok || v.Kind != value.Text {
			return dst, false
		}
		f.Step(s.Offset, 1+len(v.Text)>>4)
		return sum(dst, value.ViewText(v.Text)), true
	}
}

func checksumShortcuts(table *crc32.Table) func(s *lang.Site, call *lang.Node, args []lang.Node) {
	return func(_ *lang.Site, call *lang.Node, args []lang.Node) {
		call.Scalar = args[0].Scalar.Then(func(s lang.Scalar) (lang.Scalar, bool) {
			if s.Kind != value.Text || len(s.Text) > lang.FreeMatch {
				return s, false
			}
			return lang.IntScalar(int(crc32.Checksum(value.ViewText(s.Text), table))), true
		})
	}
}

// macPool keeps HMACs that have been set up with a key.
type macPool struct{ pool sync.Pool }

func (p *macPool) sum(dst, data []byte) []byte {
	mac := p.pool.Get().(hash.Hash)
	mac.Reset()
	mac.Write(data)
	dst = mac.Sum(dst)
	p.pool.Put(mac)
	return dst
}

// hmacShortcuts sets up the HMAC once if the key is constant.
func hmacShortcuts(s *lang.Site, call *lang.Node, args []lang.Node) {
	d, ok := s.Prepared(0).(digest)
	if !ok || !args[1].Const {
		return
	}
	key := value.ViewBytes(args[1].Value)
	p := &macPool{sync.Pool{New: func() any { return hmac.New(d.new, key) }}}
	s.SetPrepared(1, len(args), p)
	call.Raw = rawSum(s, args[2].Scalar, p.sum)
}
