package crypto_test

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

// The vectors are from RFC 1321, RFC 2202, RFC 4231, FIPS 180-4, RFC 3720 and of xxHash itself.
func TestHashesOfKnownVectors(t *testing.T) {
	m := exprtest.NewMessage(`{"abc": "abc", "empty": "", "nine": "123456789", "what": "what do ya want for nothing?"}`)
	for src, want := range map[string]any{
		`to_hex(md5(abc))`:      "900150983cd24fb0d6963f7d28e17f72",
		`to_hex(md5(empty))`:    "d41d8cd98f00b204e9800998ecf8427e",
		`to_hex(sha1(abc))`:     "a9993e364706816aba3e25717850c26c9cd0d89d",
		`to_hex(sha256(abc))`:   "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		`to_hex(sha256(empty))`: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		`to_hex(sha384(abc))`:   "cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7",
		`to_hex(sha512(abc))`: "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d442364" +
			"3ce80e2a9ac94fa54ca49f",
		`crc32(nine)`:             0xcbf43926,
		`crc32c(nine)`:            0xe3069283,
		`to_hex(xxhash64(empty))`: "ef46db3751d8e999",
		`to_hex(xxhash64(abc))`:   "44bc2cf5ad770999",

		`to_hex(hmac("md5", "Jefe", what))`:    "750c783e6ab0b503eaa86e310a5db738",
		`to_hex(hmac("sha1", "Jefe", what))`:   "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
		`to_hex(hmac("sha256", "Jefe", what))`: "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
		`to_hex(hmac("sha384", "Jefe", what))`: "af45d2e376484031617f78d2b58a6b1b9c7ef464f5a01b47" +
			"e42ec3736322445e8e2240ca5e69e2c78b3239ecfab21649",
		`to_hex(hmac("sha512", "Jefe", what))`: "164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd610270cd7ea2505549758bf75c05a994a6d034f65f8f0e" +
			"6fdcaeab1a34d4a6b4b636e070a38bce737",
		`to_hex(hmac("sha256", bytes(repeat("aa", 131)) | from_hex(), ` +
			`"Test Using Larger Than Block-Size Key - Hash Key First"))`: "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
	} {
		got, err := exprtest.EvalBoth(t, src, m)
		if got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", src, got, err, want)
		}
		exprtest.Agree(t, src, m)
	}
}

func TestHashesAreThoseOfOpenSSL(t *testing.T) {
	long := strings.Repeat("héllo \x01\u2028", 9999)
	m := exprtest.NewMessage(fmt.Sprintf(`{"long": %s}`, doc.AppendString(nil, long)))
	for _, alg := range []string{"md5", "sha1", "sha256", "sha384", "sha512"} {
		for src, args := range map[string][]string{
			"to_hex(" + alg + "(long))":                            {"dgst", "-r", "-" + alg},
			"to_hex(hmac(\"" + alg + "\", \"a key\", long))":       {"dgst", "-r", "-" + alg, "-hmac", "a key"},
			"to_hex(hmac(\"" + alg + "\", bytes(long)[:3], long))": {"dgst", "-r", "-" + alg, "-hmac", "h\xc3\xa9"},
		} {
			want, _, _ := strings.Cut(string(exprtest.OpenSSL(t, []byte(long), args...)), " ")
			if got, err := exprtest.EvalBoth(t, src, m); got != want || err != nil {
				t.Errorf("%s: got %v, %v, want %s", src, got, err, want)
			}
		}
	}
}

// Whatever the text is and however it is hashed, the standard library has the same result.
func TestEncodingsAndHashesOfAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
		key := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "key")
		text := strings.ToValidUTF8(string(data), "")
		m := exprtest.NewMessage(fmt.Sprintf(`{"data": "%x", "key": "%x", "text": %s}`, data, key, doc.AppendString(nil, text)))
		name := rapid.SampledFrom([]string{"md5", "sha1", "sha256", "sha384", "sha512"}).Draw(t, "algorithm")
		algorithm := map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha384": sha512.New384,
			"sha512": sha512.New}[name]
		sum := func(data []byte) []byte {
			h := algorithm()
			h.Write(data)
			return h.Sum(nil)
		}
		mac := hmac.New(algorithm, key)
		mac.Write(data)
		for src, want := range map[string][]byte{
			name + "(from_hex(data))": sum(data),
			name + "(text)":           sum([]byte(text)),
			name + "(data)":           sum(fmt.Appendf(nil, "%x", data)),
			fmt.Sprintf(`hmac(%q, from_hex(key), from_hex(data))`, name):       mac.Sum(nil),
			fmt.Sprintf(`hmac(%q, from_hex("%x"), from_hex(data))`, name, key): mac.Sum(nil),
		} {
			for encoder, want := range map[string]string{
				"to_hex":       hex.EncodeToString(want),
				"to_base64":    base64.StdEncoding.EncodeToString(want),
				"to_base64url": base64.RawURLEncoding.EncodeToString(want),
				"to_base32":    base32.StdEncoding.EncodeToString(want),
			} {
				there, back := encoder+"("+src+")", expr.MustCond("from_"+encoder[3:]+"("+encoder+"("+src+")) == "+src)
				e, err := exprtest.Compile(there, false)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := e.Eval(m); got != want || err != nil {
					t.Fatalf("%s: got %v, %v, want %s", there, got, err, want)
				}
				if got := exprtest.Encoded(e, m); got != `"`+want+`"` {
					t.Fatalf("%s, encoded: got %s, want %s", there, got, want)
				}
				if is, err := back.Test(m); !is || err != nil {
					t.Fatalf("%s: got %v, %v", back, is, err)
				}
			}
		}
	})
}

func TestHashesOfWhatTheyDoNotTake(t *testing.T) {
	exprtest.CheckFailures(t, exprtest.NewMessage(exprtest.Sample), exprtest.Failures{
		{`to_hex(sha256(status))`, `sha256() needs text or bytes, not number 503`, `sha256`},
		{`to_hex(sha256(missing))`, `sha256() needs text or bytes, not nothing (?? gives a missing field a default)`,
			`sha256`},
		{`to_hex(status)`, `to_hex() needs text or bytes, not number 503`, `to_hex`},
		{`sha256(name)`,
			`bytes are not a value that a document can contain (write string(x) where they are text, else to_base64(x) or to_hex(x))`, `sha256`},
		{`crc32(user)`, `crc32() needs text or bytes, not an object`, `crc32`},
		{`from_hex(word)`, `from_hex(): text "héllo" is not hexadecimal`, `from_hex`},
		{`from_hex("abc" + empty)`, `from_hex(): text "abc" is not hexadecimal`, `from_hex`},
		{`from_base64url("+/" + empty)`, `from_base64url(): text "+/" is not base64url`, `from_base64url`},
		{`from_base64url("YQ=" + empty)`, `from_base64url(): text "YQ=" is not base64url`, `from_base64url`},
		{`from_base32("MZ1" + empty)`, `from_base32(): text "MZ1" is not base32`, `from_base32`},
		{`from_base32("A" + empty)`, `from_base32(): text "A" is not base32`, `from_base32`},
		{`to_hex(hmac(name, "key", word))`, `hmac() knows md5, sha1, sha256, sha384 and sha512, not text "Ann"`, `hmac`},
		// At load, the caret is at the argument.
		{`hmac("sha-256", "key", word)`, `hmac() knows md5, sha1, sha256, sha384 and sha512, not text "sha-256"`,
			`"sha-256"`},
		{`hmac("sha256", 5, word)`, `hmac() needs text or bytes, not number 5`, `hmac`},
		{`from_hex("0x1f")`, `from_hex(): text "0x1f" is not hexadecimal`, `from_hex`},
	})
}

// A hash of a field goes into the document without an allocation.
func TestHashesOfFieldsAreWrittenAtOnce(t *testing.T) {
	m := exprtest.NewMessage(exprtest.Sample)
	for _, src := range []string{`to_hex(sha256(name))`, `to_base64(md5(name))`, `to_hex(hmac("sha512", "key", name))`,
		`{id: to_base64url(sha1(name)), sum: crc32(word)}`, `to_base32(xxhash64(word))`, `crc32c(name)`} {
		e := expr.MustCompile(src)
		least := math.Inf(1) // with -race, a sync.Pool drops some of its items
		for range 100 {
			least = min(least, testing.AllocsPerRun(1, func() {
				if err := e.Encode(m, func(any) error { return nil }); err != nil {
					t.Error(err)
				}
			}))
		}
		if least > 0 {
			t.Errorf("%s allocates %v times", src, least)
		}
		exprtest.Agree(t, src, m)
	}
	for _, src := range []string{`to_hex(sha256(status))`, `to_hex(sha256(missing))`, `to_hex(md5(esc))`, `crc32(esc)`,
		`crc32(status)`, `to_hex(hmac("md5", "k", items))`, `crc32(none ?? name)`, `to_hex(sha1(ok ? name : word))`,
		`[to_hex(md5(big))]`} {
		exprtest.Agree(t, src, exprtest.NewMessage(strings.Replace(exprtest.Sample, "{", `{"esc": "\u0061\n\ud83d\ude00",`, 1)))
	}
}

func TestHashesAreWithinTheirBudget(t *testing.T) {
	exprtest.Unraced(t)
	const memory, steps = "engine.limits.expression.memory", "engine.limits.expression.steps"
	m := exprtest.NewMessage(fmt.Sprintf(`{"items": [%s0], "long": "%s", "hex": "%s"}`, strings.Repeat("0,", 9999),
		strings.Repeat("x", 1<<20), strings.Repeat("ff", 1<<19)))
	exprtest.CheckBudgets(t, m, exprtest.Budgets{
		{`count(items, sha256(long) == nil)`, steps},
		{`let b = bytes(long); count(items, md5(b) == nil)`, steps},
		{`count(items, hmac("sha1", long, "a") == nil)`, steps},
		{`let b = bytes(long); count(items, hmac("sha1", b, "a") == nil)`, steps},
		{`count(items, crc32(long) == 1)`, steps},
		{`count(items, xxhash64(long) == nil)`, steps},
		{`map(1..9, to_hex(long))`, memory},
		{`map(1..9, from_hex(hex))`, memory},
		{`to_hex(repeat(long, 3))`, memory},
		{`to_base32(repeat(long, 4))`, memory},
		{`map(items, to_hex(sha256(string(#))))`, ""},
	})
}

// FuzzEncodings decodes invalid texts, and texts that other encoders would write differently.
func FuzzEncodings(f *testing.F) {
	for _, s := range []string{"", "00ff", "AbC", "YQ==", "YQ", "YT8-", "MZWG65Y=", "mzwg65y", "A", "=",
		"\r\n", "é", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m := exprtest.NewMessage(fmt.Sprintf(`{"s": %s}`, doc.AppendString(nil, text)))
		text = strings.ToValidUTF8(text, "\ufffd")
		for name, encoder := range map[string]string{"from_hex": "to_hex", "from_base64url": "to_base64url",
			"from_base32": "to_base32"} {
			e := expr.MustCompile(fmt.Sprintf("to_hex(%s(s))", name))
			v, err := e.Eval(m)
			var bad *lang.Error
			if err != nil && (!errors.As(err, &bad) || !strings.Contains(bad.Msg, " is not ")) {
				t.Fatalf("%s of %q: %v", name, text, err)
			}
			if err != nil {
				continue
			}
			again := expr.MustCompile(fmt.Sprintf("to_hex(%s(%s(%s(s))))", name, encoder, name))
			if w, err := again.Eval(m); w != v || err != nil {
				t.Errorf("%s of %q is %v, but after %s %v, %v", name, text, v, encoder, w, err)
			}
		}
	})
}
