package codec_test

import (
	"errors"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/formats/codec"
)

func grok(t testing.TB, pattern string, own map[string]string) *codec.Grok {
	t.Helper()
	c := &codec.Grok{Pattern: codec.GrokPattern{Source: pattern}, Patterns: own}
	if err := c.Compile(); err != nil {
		t.Fatalf("%s: %v", pattern, err)
	}
	return c
}

const combined = `203.0.113.9 - ann@b.example [10/Oct/2026:13:55:36 +0000] "GET /api/orders?id=7 HTTP/1.1" 503 2326 "-" "curl/8 \"x\""`

func TestGrok(t *testing.T) {
	tests := []struct {
		name, pattern string
		own           map[string]string
		in, want      string
	}{
		{"an access log", "%{COMBINEDAPACHELOG}", nil, combined,
			`{"clientip":"203.0.113.9","ident":"-","auth":"ann@b.example","timestamp":"10/Oct/2026:13:55:36 +0000","verb":"GET",` +
				`"request":"/api/orders?id=7",` +
				`"httpversion":"1.1","response":503,"bytes":2326,"referrer":"-","agent":"curl/8 \\\"x\\\""}`},
		{"an access log without bytes, of a broken request", "%{COMMONAPACHELOG}", nil, `::1 - - [10/Oct/2026:13:55:36 +0000] "\x16" 400 -`,
			`{"clientip":"::1","ident":"-","auth":"-","timestamp":"10/Oct/2026:13:55:36 +0000","rawrequest":"\\x16","response":400}`},
		{"a line of syslog", "%{SYSLOGLINE}", nil, "Oct  9 22:33:20 host auditd[1787]: exiting now",
			`{"timestamp":"Oct  9 22:33:20","logsource":"host","program":"auditd","pid":"1787","message":"exiting now"}`},
		{"types", `%{INT:i:int} %{NUMBER:f:float} %{WORD:b:bool} %{WORD:s:string} %{INT:big:long}`, nil,
			"+007 1.50 true 12 123456789012345678901",
			`{"i":7,"f":1.5,"b":true,"s":"12","big":123456789012345678901}`},
		{"objects", `%{IP:source.ip}:%{POSINT:source.port:int} %{WORD:[http][method]}`, nil, "10.0.0.1:80 GET",
			`{"source":{"ip":"10.0.0.1","port":80},"http":{"method":"GET"}}`},
		{"a field that did not take part is left out", `%{INT:a}?(?:x%{INT:b.c})?$`, nil, "7", `{"a":"7"}`},
		{"a field in two places", `(?:a%{INT:n:int}|b%{INT:n})`, nil, "b7", `{"n":7}`},
		{"a field that matches twice is a list", `%{WORD:a} %{INT:n:int} %{WORD:a} (?P<n>\d+)`, nil, "x 1 y 2", `{"a":["x","y"],"n":[1,2]}`},
		{"patterns of one's own, also in place of known ones", "%{PAIR:pair}", map[string]string{"PAIR": "%{WORD:k}=%{INT:v}", "WORD": "[a-z]"},
			"ab=1", `{"pair":"b=1","k":"b","v":"1"}`},
		{"groups as in regular expressions", `(?P<a>\d+) %{WORD:b}`, nil, "7 x", `{"b":"x","a":"7"}`},
		{"levels in any case", `\[%{LOGLEVEL:level}\] %{TIMESTAMP_ISO8601:at} %{GREEDYDATA:rest}`, nil,
			"[Warn] 2026-01-02T15:04:05,123+01:00 x y",
			`{"level":"Warn","at":"2026-01-02T15:04:05,123+01:00","rest":"x y"}`},
		{"URLs", `%{URI:url} %{URIPATHPARAM:path} %{PATH:file}`, nil, `https://u:p@a.example:8080/x?y=z /a/b?c=d C:\x\y`,
			`{"url":"https://u:p@a.example:8080/x?y=z","path":"/a/b?c=d","file":"C:\\x\\y"}`},
	}
	for _, tt := range tests {
		got, err := grok(t, tt.pattern, tt.own).Decode([]byte("kept:"), []byte(tt.in))
		if err != nil || string(got) != "kept:"+tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestGrokFindsAddresses(t *testing.T) {
	c := grok(t, `%{IP:ip}%{GREEDYDATA:rest}`, nil)
	for _, ip := range []string{"1.2.3.4", "192.168.100.255", "0.0.0.0", "::", "::1", "fe80::1", "2001:db8::8a2e:370:7334",
		"2001:0db8:85a3:0000:0000:8a2e:0370:7334",
		"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::8", "::ffff:10.0.0.1", "64:ff9b::192.0.2.33", "1:2:3:4:5:6:1.2.3.4",
		"fe80::1%eth0"} {
		if _, err := netip.ParseAddr(ip); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Decode(nil, []byte(ip)); err != nil || string(got) != `{"ip":"`+ip+`","rest":""}` {
			t.Errorf("%s: %s, %v", ip, got, err)
		}
	}
	whole := grok(t, `^%{IP:ip}$`, nil)
	for _, ip := range []string{"256.1.1.1", "1.2.3", "1:2:3", "g::1", "1:2:3:4:5:6:7:8:9", ""} {
		if got, err := whole.Decode(nil, []byte(ip)); err == nil {
			t.Errorf("%s is taken for an address: %s", ip, got)
		}
	}
}

func TestGrokRefuses(t *testing.T) {
	deep := map[string]string{"A": "%{B}%{B}", "B": "%{C}%{C}", "C": "%{D}%{D}", "D": strings.Repeat("x", 2500)}
	tests := []struct {
		name, pattern string
		own           map[string]string
		want          string
	}{
		{"an unknown name", "%{NOPE:a}", nil, "there is no pattern NOPE"},
		{"an unknown name in one's own", "%{A:a}", map[string]string{"A": "%{NOPE}"}, "in pattern A: there is no pattern NOPE"},
		{"an unknown type", "%{INT:a:number}", nil, "number is not a type"},
		{"an odd form", "%{INT:a:int:x}", nil, "is not valid (write %{NAME:field:int})"},
		{"no field", "%{INT}", nil, "the pattern has no field"},
		{"a pattern of itself", "%{A:a}", map[string]string{"A": "x%{A}"}, "names itself"},
		{"patterns that double", "%{A:a}", deep, "longer than 16 KiB"},
		{"what RE2 does not have", "%{INT:a}(?=x)", nil, "not a valid regular expression"},
		{"a broken one of one's own", "%{A:a}", map[string]string{"A": "(x"}, "in pattern A: not a valid regular expression"},
		{"an object in text", "%{INT:a} %{INT:a.b}", nil, "field a.b is not a name such as a.b, or is within one that is text"},
		{"text in the place of an object", "%{INT:a.b} %{INT:a}", nil, "field a is an object already"},
		{"an empty name", "%{INT:a..b}", nil, "field a..b is not a name"},
	}
	for _, tt := range tests {
		c := &codec.Grok{Pattern: codec.GrokPattern{Source: tt.pattern}, Patterns: tt.own}
		if err := c.Compile(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestWhatGrokCantRead(t *testing.T) {
	tests := []struct{ pattern, in, want string }{
		{"%{INT:a}", "x", "grok: the payload does not match the pattern"},
		{"%{WORD:a.b:int}", "x", `grok: a.b: "x" is not a whole number`},
		{"%{WORD:a:float}", "Inf", `grok: a: "Inf" is not a number`},
		{"%{WORD:a:bool}", "x", `grok: a: "x" is neither true nor false`},
		{"%{GREEDYDATA:a}", "\xff", "grok: a: is not valid UTF-8"},
	}
	for _, tt := range tests {
		if got, err := grok(t, tt.pattern, nil).Decode(nil, []byte(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s of %q: %s and %v, want %q", tt.pattern, tt.in, got, err, tt.want)
		}
	}
	c := grok(t, "(?P<a>%{GREEDYDATA:b})", nil)
	payload := []byte(strings.Repeat("x", 1000))
	if _, err := c.DecodeWithin(nil, payload, 1500); !errors.Is(err, codec.ErrLimit) {
		t.Errorf("two fields of 1000 within 1500: %v", err)
	}
	if _, err := c.DecodeWithin(nil, payload, 3000); err != nil {
		t.Errorf("two fields of 1000 within 3000: %v", err)
	}
	if _, err := c.Encode(nil, []byte("{}")); err == nil {
		t.Error("grok is encoded")
	}
}

// TestEveryGrokPatternIsValid compiles all that are known, and looks for them in the guide.
func TestEveryGrokPatternIsValid(t *testing.T) {
	file, err := os.ReadFile("grok.patterns")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^([A-Z0-9_]+) `).FindAllStringSubmatch(string(file), -1)
	if len(names) < 70 {
		t.Fatalf("%d patterns", len(names))
	}
	documented := regexp.MustCompile(`\w+`).FindAllString(string(guide), -1)
	for _, m := range names {
		grok(t, "%{"+m[1]+":x}", nil)
		if !slices.Contains(documented, m[1]) {
			t.Errorf("docs/formats.md does not name %s", m[1])
		}
	}
}

func FuzzGrok(f *testing.F) {
	for _, s := range []string{combined, "Oct  9 22:33:20 host auditd[1787]: x", "", "\xff", "12 x"} {
		f.Add(s, "%{WORD:a:int}|%{GREEDYDATA:b}")
	}
	f.Add("x", "%{A:a} %{INT:b.c:float}(?P<d>x)")
	lines := []*codec.Grok{grok(f, "%{COMBINEDAPACHELOG}", nil), grok(f, "%{SYSLOGLINE}", nil)}
	f.Fuzz(func(t *testing.T, payload, pattern string) {
		for _, c := range lines {
			decodedIsJSON(t, c, []byte(payload))
		}
		c := &codec.Grok{Pattern: codec.GrokPattern{Source: pattern}, Patterns: map[string]string{"A": "%{WORD:w}"}}
		if err := c.Compile(); err == nil {
			decodedIsJSON(t, c, []byte(payload))
		}
	})
}

func BenchmarkGrok(b *testing.B) {
	c, dst := grok(b, "%{COMBINEDAPACHELOG}", nil), make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Decode(dst, []byte(combined)); err != nil {
			b.Fatal(err)
		}
	}
}
