package schema_test

import (
	"encoding/base64"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/flowd-io/flowd/schema"
)

func TestSecretsAreMasked(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	tests := []struct {
		name    string
		secrets []string
		in      string
		want    string
	}{
		{"as they are", []string{"s3cret"}, "a s3cret, as3cretb", "a ***, a***b"},
		{"one that begins another", []string{"s3cret", "s3cret-long"}, "s3cret-long s3cret", "*** ***"},
		{"percent-encoded, whole or in part", []string{"s3/c ret"}, "s3%2fc%20ret s3%2Fc+ret s3/c%20ret s3%2Fc ret",
			"*** *** *** ***"},
		{"as in a query", []string{"s3 cret"}, "?x=s3+cret", "?x=***"},
		{"escaped", []string{`s"3\cret` + "\n1"}, `"s\"3\\cret\n1" "s\u0022\u0033\\cret\n1"`, `"***" "***"`},
		{"escaped and percent-encoded", []string{`s"3cret`}, `"\u00732233cret" s%223cret \u0073%223cret`,
			`"\u00732233cret" *** ***`},
		{"as HTML", []string{`s<3&cret`}, "s&lt;3&amp;cret", "***"},
		{"as HTML, in any way", []string{`s'3"<cret`}, `s&apos;3&quot;&lt;cret s&#39;3&#34;&#60;cret s&#x27;3&#X22;&#x3C;cret ` +
			`s&#039;3&#0000034;&#x03c;cret &#115;'&#51"<cret s'3&quot&ltcret &s'3"<cret; s&s;'3"<cret`,
			`*** *** *** *** *** *** &***; s&s;'3"<cret`},
		{"as HTML, twice", []string{`s"3cret`}, "s&amp;quot;3cret s&amp;#34;3cret", "*** ***"},
		{"as HTML with the escapes of JSON and URLs", []string{`s"3cret`},
			`s\u0026quot;3cret s\u0026\u0023x22;3cret s%26quot%3B3cret s\u0026amp;quot;3cret s&#37;223cret s&#92;"3cret`,
			"*** *** *** *** *** ***"},
		{"as JSON, twice", []string{`s"3cret`}, `"\"s\\\"3cret\"" "s\\u00223cret"`, `"\"***\"" "***"`},
		{"as Go quotes it", []string{"s\a3\vcret"}, `"s\a3\vcret" "s\x073\x0Bcret"`, `"***" "***"`},
		{"in base64", []string{"s3cret"}, b64([]byte("s3cret")) + " " + b64([]byte("xs3cret")) + " " +
			b64([]byte("xys3cretz")), "*** *** ***"},
		{"the password of a URL", []string{"amqp://u:p%40ssw@h/"}, "p@ssw p%40ssw " + b64([]byte("u:p@ssw")),
			"*** *** ***"},
		{"a password that a URL can't have", []string{"http://u:to p?se@cret@h/"}, "u:to p?se@cret@h to p?se@cret",
			"***@h ***"},
		{"behind a scheme", []string{"Bearer s3cret"}, "got s3cret", "got ***"},
		{"lines of a longer one", []string{"-----BEGIN KEY-----\nabcdefghij\nklmnopqrst\n-----END KEY-----"},
			"bad: klmnopqrst", "bad: ***"},
		{"a short one, as a value", []string{"a"}, `token=a&x "a" pw: a, a cat said a`,
			`token=***&x "***" pw: ***, a cat said a`},
		{"a short one, behind a word for credentials", []string{"a1"}, "wrong password a1 for a1b",
			"wrong password *** for a1b"},
		{"short and not a value", []string{"a", "in"}, "line 3: a cat in a hat", "line 3: a cat in a hat"},
		{"what everybody knows", []string{"guest", "***", ""}, "user guest ***", "user guest ***"},
		{"none", nil, "text", "text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := (*schema.Secrets)(nil).With(tt.secrets...).Mask(tt.in); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestAPairIsMaskedHoweverShort(t *testing.T) {
	s := &schema.Secrets{}
	s.AddPair("ada", "q")
	in := "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:q")) + " http://ada:q@host/ ada said q"
	if got, want := s.Mask(in), "Basic *** http://***@host/ ada said q"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSecretsAreAddedWhileOthersMask(t *testing.T) {
	s := &schema.Secrets{}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 50 {
				s.Add(strings.Repeat("secret", i+2) + string(rune('a'+n%26)))
				_ = s.With("more").Mask("secretsecreta")
			}
		})
	}
	all.Wait()
	if got := s.Mask("x secretsecreta"); got != "x ***" {
		t.Errorf("got %s", got)
	}
}

func FuzzMask(f *testing.F) {
	f.Add("s3cret", `a s3cret \u0073 %73 "`)
	f.Add("\xff", "\xff")
	f.Add(`a"b'cdefgh`, `&quot &#34;&#x22 &amp;#39; &#0; &nGt; &semi;`)
	f.Add("a", `x=a \ud800\udc00 %`)
	f.Add("http://u:p@h", "\\U00110000 \xff%zz")
	f.Fuzz(func(t *testing.T, secret, text string) {
		s := (*schema.Secrets)(nil).With(secret)
		if masked := s.Mask(text); masked == text && len(strings.TrimSpace(secret)) >= 8 && strings.Contains(text,
			strings.TrimSpace(secret)) && strings.Trim(secret, " *x.…\t\n") == secret && utf8.ValidString(secret) {
			t.Errorf("%q shows in %q", secret, masked)
		}
	})
}
