package codec_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/leodido/go-syslog/v4/rfc5424"
	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/internal/formats/codec"
)

// in2026 reads timestamps without a year.
var in2026 = codec.Syslog{Year: 2026}

func zone(t testing.TB, name string) codec.Zone {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return codec.Zone{Location: z}
}

const pri30 = `{"priority":30,"facility":3,"severity":6,`

var syslogs = []struct{ name, in, want string }{
	{"the example of RFC 3164", "<34>Oct 11 22:14:15 mymachine su: 'su root' failed for lonvick on /dev/pts/8",
		`{"priority":34,"facility":4,"severity":2,"timestamp":"2026-10-11T22:14:15Z","hostname":"mymachine","appname":"su","message":"'su ` +
			`root' failed for lonvick on /dev/pts/8"}`},
	{"a process and an end of line", "<30>Oct  9 22:33:20 host auditd[1787]: The audit daemon is exiting.\r\n",
		pri30 + `"timestamp":"2026-10-09T22:33:20Z","hostname":"host","appname":"auditd","procid":"1787","message":"The audit daemon is ` +
			`exiting."}`},
	{"a line of a file, without a priority", "Oct  9 22:33:20 host postfix/smtpd[17]: x",
		`{"timestamp":"2026-10-09T22:33:20Z","hostname":"host","appname":"postfix/smtpd","procid":"17","message":"x"}`},
	{"a day of one digit, a fraction and IPv6", "<30>Oct 9 22:33:20.125 fe80::1 app: x",
		pri30 + `"timestamp":"2026-10-09T22:33:20.125Z","hostname":"fe80::1","appname":"app","message":"x"}`},
	{"a timestamp of RFC 3339", "<30>2026-01-02T15:04:05.123456+01:00 host app[12]: x",
		pri30 + `"timestamp":"2026-01-02T15:04:05.123456+01:00","hostname":"host","appname":"app","procid":"12","message":"x"}`},
	{"a timestamp with a year", "<30>Oct  9 2019 22:33:20 host app: x", pri30 +
		`"timestamp":"2019-10-09T22:33:20Z","hostname":"host","appname":"app","message":"x"}`},
	{"no program", "<30>Oct  9 22:33:20 host see http://x: it is down", pri30 +
		`"timestamp":"2026-10-09T22:33:20Z","hostname":"host","message":"see http://x: it is down"}`},
	{"a URL is not a program", "<30>Oct  9 22:33:20 host http://x", pri30 +
		`"timestamp":"2026-10-09T22:33:20Z","hostname":"host","message":"http://x"}`},
	{"CEF is not a program", "<30>Oct  9 22:33:20 host CEF:0|a|b", pri30 +
		`"timestamp":"2026-10-09T22:33:20Z","hostname":"host","message":"CEF:0|a|b"}`},
	{"no host", "<30>Oct  9 22:33:20 app[12]: x y", pri30 +
		`"timestamp":"2026-10-09T22:33:20Z","appname":"app","procid":"12","message":"x y"}`},
	{"no space after the process", "<30>Oct  9 22:33:20 host app[12]:x", pri30 +
		`"timestamp":"2026-10-09T22:33:20Z","hostname":"host","appname":"app","procid":"12","message":"x"}`},
	{"lines in a message", "<30>Oct  9 22:33:20 host app: a\nb", pri30 +
		`"timestamp":"2026-10-09T22:33:20Z","hostname":"host","appname":"app","message":"a\nb"}`},
	{"brackets in a message", "<30>Oct  9 22:33:20 host kernel: [1.5] up", pri30 +
		`"timestamp":"2026-10-09T22:33:20Z","hostname":"host","appname":"kernel","message":"[1.5] up"}`},

	{"the example of RFC 5424", "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - \ufeff'su root' failed",
		`{"priority":34,"facility":4,"severity":2,"version":1,"timestamp":"2003-10-11T22:14:15.003Z","hostname":"mymachine.example.com",` +
			`"appname":"su","msgid":"ID47","message":"'su root' failed"}`},
	{"structured data", `<30>1 - - app 12 - [a@1 x="1" y="\"\\\]\n"][b@1 ip="1" ip="2"][c] it  works`,
		pri30 + `"version":1,"appname":"app","procid":"12","structured_data":{"a@1":{"x":"1","y":"\"\\]\\n"},"b@1":{"ip":["1","2"]},"c":{}},` +
			`"message":"it  works"}`},
	{"structured data alone", `<30>1 - - - - - [a x=""]`, pri30 + `"version":1,"structured_data":{"a":{"x":""}}}`},
	{"nothing but a priority", `<0>1 - - - - - -`, `{"priority":0,"facility":0,"severity":0,"version":1}`},
	{"no priority", "1 2026-01-02T15:04:05Z h a p m - x",
		`{"version":1,"timestamp":"2026-01-02T15:04:05Z","hostname":"h","appname":"a","procid":"p","msgid":"m","message":"x"}`},
}

func TestSyslog(t *testing.T) {
	for _, tt := range syslogs {
		got, err := in2026.Decode([]byte("kept:"), []byte(tt.in))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff("kept:"+tt.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestSyslogOptions(t *testing.T) {
	tests := []struct {
		name     string
		codec    codec.Syslog
		in, want string
	}{
		{"words", codec.Syslog{Names: true}, "<191>1 - - - - - -", `{"priority":191,"facility":"local7","severity":"debug","version":1}`},
		{"a zone", codec.Syslog{Year: 2026, Zone: zone(t, "Europe/Zurich")}, "Jul  1 12:00:00 h x",
			`{"timestamp":"2026-07-01T12:00:00+02:00","hostname":"h","message":"x"}`},
		{"only RFC 3164", codec.Syslog{Year: 2026, RFC: "3164", BestEffort: true}, "<30>1 - - - - - -", pri30 + `"message":"1 - - - - - -"}`},
		{"best effort without a timestamp", codec.Syslog{BestEffort: true}, "<30>kernel: up", pri30 + `"message":"kernel: up"}`},
		{"best effort without anything", codec.Syslog{BestEffort: true}, "hello", `{"message":"hello"}`},
		{"best effort with a bad priority", codec.Syslog{BestEffort: true}, "<999>hello", `{"message":"<999>hello"}`},
		{"best effort with a bad time", codec.Syslog{BestEffort: true}, "<30>1 today h a p m - x", pri30 +
			`"version":1,"message":"today h a p m - x"}`},
		{"best effort with bad structured data", codec.Syslog{BestEffort: true}, "<30>1 - h - - - [a b=c] x", pri30 +
			`"version":1,"hostname":"h","message":"[a b=c] x"}`},
		{"best effort with a header that ends", codec.Syslog{BestEffort: true}, "<30>1 - h", pri30 + `"version":1,"hostname":"h"}`},
	}
	for _, tt := range tests {
		got, err := tt.codec.Decode(nil, []byte(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

// TestTheYearOfSyslogIsTheClosest has the clock of a bubble, at the start of the year 2000.
func TestTheYearOfSyslogIsTheClosest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		year := func(in, want string) {
			t.Helper()
			got, err := new(codec.Syslog).Decode(nil, []byte(in))
			if err != nil || !strings.Contains(string(got), `"timestamp":"`+want) {
				t.Errorf("%s at %s: %s, %v, want %s", in, time.Now().UTC(), got, err, want)
			}
		}
		year("Dec 31 23:59:59 h x", "1999-12-31")
		year("Jan  1 00:00:05 h x", "2000-01-01")
		year("Feb 29 00:00:00 h x", "2000-02-29")
		time.Sleep(366*24*time.Hour - time.Second) // of a clock that is not real
		year("Jan  1 00:00:05 h x", "2001-01-01")
		year("Dec 31 23:59:00 h x", "2000-12-31")
		year("Feb 29 00:00:00 h x", "2000-02-29")
	})
}

func TestWhatIsNotSyslog(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "there is no timestamp"},
		{"hello", "there is no timestamp such as Oct 11 22:14:15 (with best_effort, none is needed)"},
		{"<30>Oct 32 22:14:15 h x", "there is no timestamp"},
		{"<30>Feb 29 22:14:15 h x", "there is no timestamp"}, // in 2026
		{"<192>1 - - - - - -", `"<192>1 - -" does not begin with a priority from <0> to <191>`},
		{"<+1>1 - - - - - -", "does not begin with a priority"},
		{"<1", "does not begin with a priority"},
		{"<30>1 2026-13-01T00:00:00Z h a p m - x", `"2026-13-01T00:00:00Z" is not a valid RFC 3339 timestamp`},
		{"<30>1 2026-12-01T00:00:00,5Z h a p m - x", "is not a valid RFC 3339 timestamp"},
		{"<30>1 - h", "the message ends before its appname"},
		{"<30>1 - h a p m", "the structured data is neither"},
		{"<30>1 - h a p m x", "the structured data is neither"},
		{"<30>1 - h a p m -x", "the structured data is neither"},
		{`<30>1 - h a p m [a b="c"`, "the structured data is neither"},
		{`<30>1 - h a p m [a b="c]`, `the value of "b" in structured data has no end`},
		{`<30>1 - h a p m [a b="c"]x`, "the structured data is neither"},
		{`<30>1 - h a p m [a][a]`, `structured data has "a" twice`},
		{`<30>1 - h a p m []`, "the structured data is neither"},
		{"<30>1 - h a p m - \xff", "the message is not valid UTF-8"},
	}
	for _, tt := range tests {
		got, err := in2026.Decode(nil, []byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %s and %v, want an error with %q", tt.in, got, err, tt.want)
		}
	}
	if _, err := (&codec.Syslog{RFC: "5424"}).Decode(nil, []byte("<30>Oct  9 22:33:20 host app: x")); err == nil ||
		!strings.Contains(err.Error(), "is not a version") {
		t.Errorf("RFC 3164 where 5424 is asked for: %v", err)
	}
	if _, err := (&codec.Syslog{BestEffort: true}).Decode(nil, []byte("<30>\xff")); err == nil {
		t.Error("best effort takes what is not UTF-8")
	}
}

func TestSyslogIsWritten(t *testing.T) {
	tests := []struct {
		codec    codec.Syslog
		in, want string
	}{
		{codec.Syslog{}, `{"message":"x"}`, "<13>1 - - - - - - x"},
		{codec.Syslog{}, `{"facility":"local7","severity":"err","version":1,"timestamp":"2026-01-02T15:04:05.1234567Z","hostname":"h",` +
			`"appname":"a","procid":12,"msgid":null}`,
			"<187>1 2026-01-02T15:04:05.123456Z h a 12 - -"},
		{codec.Syslog{}, `{"priority":34,"facility":1,"structured_data":{"a@1":{"x":"\"\\]","y":[1,2],"z":null},"b":{}},"message":"m"}`,
			`<34>1 - - - - - [a@1 x="\"\\\]" y="1" y="2" z=""][b] m`},
		{codec.Syslog{RFC: "3164"}, `{"severity":0,"timestamp":"2026-01-02T15:04:05Z","hostname":"h","appname":"a","procid":"1","message":"m"}`,
			"<8>Jan  2 15:04:05 h a[1]: m"},
		{codec.Syslog{RFC: "3164", Zone: zone(t, "Europe/Zurich")}, `{"timestamp":"2026-07-02T15:04:05Z","message":"m"}`,
			"<13>Jul  2 17:04:05 - m"},
	}
	for _, tt := range tests {
		got, err := tt.codec.Encode([]byte("kept:"), []byte(tt.in))
		if err != nil || string(got) != "kept:"+tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

func TestWhatSyslogCantSay(t *testing.T) {
	tests := []struct{ rfc, in, want string }{
		{"", `[]`, "syslog: a list is not an object"},
		{"", `{"host":"x"}`, "syslog: host: is not a field of syslog"},
		{"", `{"priority":192}`, "syslog: priority: 192 is not a number from 0 to 191"},
		{"", `{"facility":"local8"}`, `syslog: facility: "local8" is not a number from 0 to 23`},
		{"", `{"severity":-1}`, "syslog: severity: -1 is not"},
		{"", `{"timestamp":"today"}`, "syslog: timestamp: is not an RFC 3339 time"},
		{"", `{"hostname":"a b"}`, "syslog: hostname: is empty, or contains spaces"},
		{"", `{"appname":"` + strings.Repeat("x", 49) + `"}`, "syslog: appname: is longer than 48 bytes"},
		{"", `{"structured_data":1}`, "syslog: structured_data: a number is not an object"},
		{"", `{"structured_data":{"a":1}}`, "syslog: structured_data.a: a number is not an object"},
		{"", `{"structured_data":{"a]":{}}}`, `syslog: structured_data: "a]" can't be a name`},
		{"", `{"structured_data":{"a":{"b=":1}}}`, `syslog: structured_data: "b=" can't be a name`},
		{"3164", `{"message":"x"}`, "syslog: timestamp is missing, and RFC 3164 requires it"},
		{"3164", `{"timestamp":"2026-07-02T15:04:05Z","appname":"a:b"}`, "syslog: hostname, appname or procid has a : or a bracket"},
	}
	for _, tt := range tests {
		got, err := (&codec.Syslog{RFC: tt.rfc}).Encode([]byte("kept"), []byte(tt.in))
		if err == nil || !strings.Contains(err.Error(), tt.want) || string(got) != "kept" {
			t.Errorf("%s: %q and %v, want an error with %q", tt.in, got, err, tt.want)
		}
	}
}

// TestSyslogReadsBack writes messages that another implementation and this one read.
func TestSyslogReadsBack(t *testing.T) {
	word := rapid.StringMatching(`[a-z][a-z0-9]{0,9}`)
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "at"), 0).UTC()
		priority := rapid.Uint8Range(0, 191).Draw(t, "priority")
		host, app, pid, id := word.Draw(t, "host"), word.Draw(t, "app"), word.Draw(t, "pid"), word.Draw(t, "id")
		message := "x" + rapid.StringMatching(`[ -~]{0,20}`).Draw(t, "message")
		data := map[string]map[string]string{word.Draw(t, "element"): rapid.MapOf(word, rapid.StringMatching(`[ -~ü\n]{0,10}`)).Draw(t,
			"parameters")}
		all := map[string]any{"priority": priority, "facility": priority / 8, "severity": priority % 8, "timestamp": at, "hostname": host,
			"appname": app,
			"procid":  pid, "message": message}
		for _, rfc := range []string{"3164", "5424"} {
			if rfc == "5424" {
				all["msgid"], all["structured_data"], all["version"] = id, data, 1
			}
			want, err := doc.Append(nil, all)
			if err != nil {
				t.Fatal(err)
			}
			payload, err := (&codec.Syslog{RFC: rfc}).Encode(nil, want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := (&codec.Syslog{Year: at.Year()}).Decode(nil, payload)
			if err != nil || canonical(t, string(got)) != string(want) {
				t.Fatalf("%s: %q is read as %s, %v, want %s", rfc, payload, got, err, want)
			}
			if rfc == "5424" {
				if theirs := theirs(t, payload); theirs != string(want) {
					t.Fatalf("%q is read by the other as %s, want %s", payload, theirs, want)
				}
			}
		}
	})
}

// theirs is what the other implementation reads of RFC 5424. Its reader of RFC 3164 takes longer to compile than all tests here.
func theirs(t *rapid.T, payload []byte) string {
	m, err := rfc5424.NewMachine().Parse(payload)
	if err != nil {
		t.Fatalf("%q: the other says %v", payload, err)
	}
	b := m.(*rfc5424.SyslogMessage)
	all := map[string]any{"priority": b.Priority, "facility": b.Facility, "severity": b.Severity, "timestamp": b.Timestamp,
		"hostname": b.Hostname, "appname": b.Appname, "procid": b.ProcID, "message": b.Message, "msgid": b.MsgID,
		"structured_data": b.StructuredData, "version": b.Version}
	out, err := doc.Append(nil, all)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func FuzzSyslog(f *testing.F) {
	for _, tt := range syslogs {
		f.Add([]byte(tt.in))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		decodedIsJSON(t, &in2026, payload)
		got, err := (&codec.Syslog{BestEffort: true}).Decode(nil, payload)
		if err == nil && !json.Valid(got) {
			t.Fatalf("best effort reads %q as %q", payload, got)
		}
	})
}

func BenchmarkSyslog(b *testing.B) {
	for _, tt := range []struct{ name, in, want string }{syslogs[1], syslogs[14]} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			dst, payload := make([]byte, 0, 4096), []byte(tt.in)
			for b.Loop() {
				if _, err := in2026.Decode(dst, payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
