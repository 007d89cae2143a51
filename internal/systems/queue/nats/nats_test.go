package nats

import (
	"fmt"
	"testing"
)

func TestPlaceOf(t *testing.T) {
	for reply, want := range map[string]string{
		"$JS.ACK.S.c.2.7.9.1700000000000000001.4":                "S c 2 7 9 4",
		"$JS.ACK._.hash.S.c.2.7.9.1700000000000000001.4.random":  "S c 2 7 9 4",
		"$JS.ACK.hub.hash.S.c.2.7.9.1700000000000000001.4.r.new": "S c 2 7 9 4",
	} {
		p, ok := PlaceOf(reply)
		got := fmt.Sprint(p.Stream, " ", p.Consumer, " ", p.Deliveries, " ", p.Sequence, " ", p.Delivery, " ", p.Pending)
		if !ok || got != want || p.At.UnixNano() != 1700000000000000001 {
			t.Errorf("%s: %v %s at %v", reply, ok, got, p.At)
		}
	}
	for _, reply := range []string{"", "_INBOX.x", "$JS.ACK.S.c.2.7.9.4", "$JS.ACK.S.c.x.7.9.17.4", "$JS.ACK.S.c.-1.7.9.17.4"} {
		if p, ok := PlaceOf(reply); ok {
			t.Errorf("%s is %+v", reply, p)
		}
	}
}

func FuzzPlaceOf(f *testing.F) {
	f.Add("$JS.ACK.S.c.2.7.9.1700000000000000001.4")
	f.Add("$JS.ACK._.hash.S.c.2.7.9.1700000000000000001.4.random")
	f.Fuzz(func(t *testing.T, reply string) {
		if p, ok := PlaceOf(reply); ok && p.Deliveries < 0 {
			t.Errorf("%q: %+v", reply, p)
		}
	})
}

func TestIsPlainAck(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"stream":"S", "seq":1}`: false, `{"stream":"S","seq":1}`: true, `{"stream":"S","seq":1,"duplicate":true}`: false,
		`{"error":{"code":503},"stream":"S","seq":0}`: false, `{"stream":"","seq":1}`: false, `{"stream":"S","seq":}`: false,
		`{"stream":"S","seq":1x}`: false, `{"stream":"S","error":"x","seq":1}`: false, ``: false,
	} {
		if got := isPlainAck([]byte(answer)); got != want {
			t.Errorf("%s: %v", answer, got)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a.*", "a.b", true}, {"a.*", "a", false}, {"a.*", "a.b.c", false},
		{"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a", true}, {"*.b", "a.b", true}, {"a.b", "a.b.c", false},
	} {
		if got := Matches(tt.pattern, tt.subject); got != tt.want {
			t.Errorf("%s matches %s: %v", tt.pattern, tt.subject, got)
		}
	}
}
