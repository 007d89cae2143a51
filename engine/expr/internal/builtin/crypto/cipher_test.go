package crypto_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/expr/internal/codetext"
	"github.com/flowd-io/flowd/engine/expr/internal/exprtest"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
	"github.com/flowd-io/flowd/schema"
)

// Test case 4 of the specification of GCM by McGrew and Viega: nonce, ciphertext and tag in a row.
const (
	gcmKey   = "feffe9928665731c6d6a8f9467308308"
	gcmData  = "feedfacedeadbeeffeedfacedeadbeefabaddad2"
	gcmPlain = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
	gcmBytes = "cafebabefacedbaddecaf888" +
		"42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091" +
		"5bc94fbc3221a5db94fae95ae7121a47"
)

func TestDecryptReadsTheVectorOfGCM(t *testing.T) {
	m := exprtest.NewMessage(fmt.Sprintf(`{"key": %q, "data": %q, "sealed": %q}`, gcmKey, gcmData, gcmBytes))
	for _, src := range []string{
		`to_hex(decrypt_aes_gcm(from_hex(sealed), from_hex(key), from_hex(data)))`,
		`to_hex(decrypt_aes_gcm(from_hex(sealed), from_hex("` + gcmKey + `"), from_hex(data)))`,
		`to_hex(decrypt_aes_gcm(from_hex("` + gcmBytes + `"), from_hex("` + gcmKey + `"), from_hex("` + gcmData + `")))`,
	} {
		if got, err := exprtest.EvalBoth(t, src, m); got != gcmPlain || err != nil {
			t.Errorf("%s: got %v, %v, want %s", src, got, err, gcmPlain)
		}
	}
}

func TestEncryptedTextsAreDecrypted(t *testing.T) {
	there := expr.MustCond(`decrypt_aes_gcm(encrypt_aes_gcm(from_hex(x), from_hex(key)), from_hex(key)) == from_hex(x) and
		decrypt_aes_gcm(encrypt_aes_gcm(from_hex(x), from_hex(key), more), from_hex(key), more) == from_hex(x)`)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{16, 24, 32}).Draw(t, "size")
		key := rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "key")
		x := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "x")
		m := exprtest.NewMessage(fmt.Sprintf(`{"x": "%x", "key": "%x", "more": %s}`, x, key,
			doc.AppendString(nil, rapid.String().Draw(t, "more"))))
		if is, err := there.Test(m); !is || err != nil {
			t.Fatalf("got %v, %v", is, err)
		}
	})
}

// Equal texts have different ciphertexts, which are as long as the docs say.
func TestNoncesDiffer(t *testing.T) {
	e := expr.MustCompile(`to_hex(encrypt_aes_gcm("the same", "0123456789abcdef"))`)
	seen := map[any]bool{}
	for range 1000 {
		v, err := e.Eval(exprtest.NewMessage(`{}`))
		if err != nil || len(v.(string)) != 2*(12+8+16) || seen[v.(string)[:24]] {
			t.Fatalf("got %v, %v", v, err)
		}
		seen[v.(string)[:24]] = true
	}
}

// If a bit of the ciphertext, the key or the additional data changes, decryption fails.
func TestChangedCiphertextsCannotBeDecrypted(t *testing.T) {
	e := expr.MustCompile(`to_hex(decrypt_aes_gcm(from_hex(sealed), from_hex(key), from_hex(data)))`)
	all := map[string]string{"sealed": gcmBytes, "key": gcmKey, "data": gcmData}
	for name, good := range all {
		for i := range good {
			changed := []byte(good)
			changed[i] ^= 1 // another digit
			if changed[i] > '9' && changed[i] < 'a' || changed[i] == '`' || changed[i] > 'f' {
				changed[i] = '0'
			}
			fields := map[string]any{"sealed": all["sealed"], "key": all["key"], "data": all["data"]}
			fields[name] = string(changed)
			payload, _ := doc.Append(nil, fields)
			if v, err := e.Eval(exprtest.NewMessage(string(payload))); err == nil || !strings.Contains(exprtest.Short(err), "can't decrypt this") {
				t.Fatalf("digit %d of %s changed: got %v, %v", i, name, v, err)
			}
		}
	}
}

func TestEncryptionOfWhatItDoesNotTake(t *testing.T) {
	const remedy = " (from_hex(x) and from_base64(x) give the bytes of an encoded key)"
	exprtest.CheckFailures(t, exprtest.NewMessage(exprtest.Sample), exprtest.Failures{
		{`to_hex(encrypt_aes_gcm(name, word))`, `encrypt_aes_gcm() needs a key of 16, 24 or 32 bytes, not 6` + remedy,
			`encrypt`},
		{`to_hex(encrypt_aes_gcm(name, missing))`,
			`encrypt_aes_gcm() needs text or bytes, not nothing (?? gives a missing field a default)`, `encrypt`},
		{`to_hex(encrypt_aes_gcm(status, "0123456789abcdef"))`, `encrypt_aes_gcm() needs text or bytes, not number 503`,
			`encrypt`},
		// At load, the caret is at the argument.
		{`to_hex(encrypt_aes_gcm(name, "too short"))`,
			`encrypt_aes_gcm() needs a key of 16, 24 or 32 bytes, not 9` + remedy, `"too short"`},
		{`name | decrypt_aes_gcm("` + gcmKey + `0")`,
			`decrypt_aes_gcm() needs a key of 16, 24 or 32 bytes, not 33` + remedy, `"feff`},
		{`uuid_v5("dsn", name)`, `uuid_v5() needs a UUID as namespace, or "dns", "url", "oid" or "x500", not text "dsn"`,
			`"dsn"`},
		{`uuid_v5("2ed6657de927568b95e12665a8aea6a2", name)`,
			`uuid_v5() needs a UUID as namespace, or "dns", "url", "oid" or "x500", not text "2ed6657de927568b95e12665a8aea6a2"`, `"2ed`},
		{`uuid_v5(name, name)`, `uuid_v5() needs a UUID as namespace, or "dns", "url", "oid" or "x500", not text "Ann"`,
			`uuid_v5`},
		{`constant_time_equal(name, 5)`, `constant_time_equal() needs text or bytes, not number 5`, `constant`},
	})
	// Within try(), even an invalid constant is a failure of the message.
	v, err := exprtest.EvalBoth(t, `try(decrypt_aes_gcm("x", bytes("short")), "no")`, exprtest.NewMessage(exprtest.Sample))
	if v != "no" || err != nil {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestUUIDsOfNames(t *testing.T) {
	for src, want := range map[string]any{
		`uuid_v5("dns", "www.example.com")`:                                         "2ed6657d-e927-568b-95e1-2665a8aea6a2", // RFC 9562, A.4
		`uuid_v5("6BA7B810-9DAD-11D1-80B4-00C04FD430C8", bytes("www.example.com"))`: "2ed6657d-e927-568b-95e1-2665a8aea6a2",
		`uuid_v5("dns", "python.org")`:                                              "886313e1-3b8a-5372-9b90-0c9aee199e5d", // in Python's docs
		`uuid_v5("url", name) == uuid_v5("url", word)`:                              false,
		`constant_time_equal(name, bytes("Ann"))`:                                   true,
		`constant_time_equal(name, "Anna")`:                                         false,
		`constant_time_equal(name, "Ana")`:                                          false,
		`constant_time_equal(empty, "")`:                                            true,
	} {
		if got, err := exprtest.EvalBoth(t, src, exprtest.NewMessage(exprtest.Sample)); got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", src, got, err, want)
		}
	}
}

// No error contains a key from a placeholder.
func TestKeysOfPlaceholdersAreNotShown(t *testing.T) {
	const key = "s3cr3t-of-more-than-32-bytes-here"
	tests := []string{
		`to_hex(encrypt_aes_gcm(name, "${KEY}"))`, `decrypt_aes_gcm(name, "${KEY}")`,
		`decrypt_aes_gcm(word, bytes("${KEY}")[:16])`,
		`to_hex(hmac("${KEY}", "k", name))`, `to_hex(hmac("md5", "${KEY}", status))`, `sha256("${KEY}" + status)`,
		`to_hex(hmac(name, "${KEY}", word))`, `from_hex("${KEY}")`, `from_base32("${KEY}" + name)`,
		`from_base64url(name + "${KEY}!")`,
		`uuid_v5("${KEY}", name)`, `uuid_v5("${KEY}" + name, name)`, `constant_time_equal("${KEY}", status)`,
		`jwt_verify(name, "${KEY}", "RS256")`, `jwt_verify(name, "${KEY}", "HS256")`, `jwt_verify(status, "${KEY}", "HS256")`,
		`jwt_verify(name, key, "${KEY}")`, `jwt_sign(user, "${KEY}", "ES256")`, `jwt_sign(user, name, "${KEY}")`,
		`jwt_sign({exp: "${KEY}"}, "${KEY}", "HS256")`, `jwt_verify(name, key, "HS256", {issuer: ["${KEY}", 5]})`,
		`jwt_verify(name, key, "HS256", {leeway: "${KEY}"})`, `jwt_header("${KEY}")`,
	}
	for _, src := range tests {
		c := &codetext.Coder{}
		at := 0
		for i, part := range strings.Split(src, "${KEY}") {
			if i > 0 {
				c.AddPlaceholder(schema.Piece{Text: key, Offset: at, Placeholder: true})
				at += len("${KEY}")
			}
			c.Add(part, at)
			at += len(part)
		}
		p, err := lang.Compile(string(c.Code), &codetext.Origin{Text: src, Runs: c.Runs}, nil)
		if err == nil {
			_, err = p.Eval(exprtest.NewMessage(exprtest.Sample))
		}
		var e *lang.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %v, want an error", src, err)
			continue
		}
		for n := 6; n <= len(key); n++ { // not even a part of it
			if text := e.Error(); strings.Contains(text, key[:n]) || strings.Contains(text, key[len(key)-n:]) {
				t.Errorf("%s: the error shows the key: %v", src, e)
				break
			}
		}
	}
}

func TestEncryptionIsWithinItsBudget(t *testing.T) {
	const memory, steps = "engine.limits.expression.memory", "engine.limits.expression.steps"
	m := exprtest.NewMessage(fmt.Sprintf(`{"items": [%s0], "long": "%s", "key": "0123456789abcdef"}`, strings.Repeat("0,", 9999),
		strings.Repeat("x", 1<<20)))
	exprtest.CheckBudgets(t, m, exprtest.Budgets{
		{`map(1..20, to_hex(encrypt_aes_gcm(long, key)))`, memory},
		{`let b = bytes(long); map(items, encrypt_aes_gcm("", key, b) == nil)`, steps},
		{`map(items, uuid_v5("dns", long))`, steps},
		{`let b = bytes(long); count(items, constant_time_equal(b, b))`, steps},
		{`let b = encrypt_aes_gcm(long, key); map(1..9, decrypt_aes_gcm(b, key))`, memory},
		{`map(1..1000, decrypt_aes_gcm(encrypt_aes_gcm("a", key), key))`, ""},
	})
}
