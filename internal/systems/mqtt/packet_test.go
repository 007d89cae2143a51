package mqtt

import (
	"bufio"
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/eclipse/paho.golang/packets"
)

func protocols() map[string]protocol { return map[string]protocol{v5: five{}, v311: three{}} }

func TestMessagesAreReadAsTheyWereWritten(t *testing.T) {
	expiry := uint32(7)
	for version, p := range protocols() {
		for qos := range byte(3) {
			m := &Message{Topic: "a/b", Payload: []byte("p"), QoS: qos, Retain: true, Dup: qos > 0}
			if qos > 0 {
				m.ID = 300
			}
			if version == v5 {
				m.Properties = &Properties{ContentType: "t", MessageExpiry: &expiry, User: []User{{Key: "k", Value: "v"}}}
			}
			var wire bytes.Buffer
			if err := p.publish(&wire, m); err != nil {
				t.Fatal(err)
			}
			head, body, err := readFrame(bufio.NewReader(&wire), frameLimit)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.decode(head, body)
			if err != nil || !reflect.DeepEqual(got.Message, m) {
				t.Errorf("version %s QoS %d: got %+v, %v", version, qos, got, err)
			}
		}
	}
}

func TestFramesAreBounded(t *testing.T) {
	tests := []struct {
		name string
		wire string
		most int
		ok   bool
	}{
		{"empty", "\xd0\x00", 100, true},
		{"as large as agreed", "\x30\x02ab", 2, true},
		{"larger than agreed", "\x30\x03abc", 2, false},
		{"announced and not sent", "\x30\xff\xff\xff\x7f", frameLimit, false},
		{"a length that does not end", "\x30\xff\xff\xff\xff\x01", frameLimit, false},
	}
	for _, tt := range tests {
		_, _, err := readFrame(bufio.NewReader(bytes.NewBufferString(tt.wire)), tt.most)
		if ok := err == nil; ok != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestRefusalsOfBothVersionsMeanTheSame(t *testing.T) {
	for code, want := range map[byte]byte{0: 0, 1: badVersion, 2: badClientID, 3: unavailable, 4: badLogin,
		5: NotAuthorized, 9: refused} {
		p, err := three{}.decode(packets.CONNACK<<4, []byte{1, code})
		if err != nil || p.Code != want || !p.Present {
			t.Errorf("code %d: %+v, %v", code, p, err)
		}
	}
}

// FuzzDecode decodes arbitrary bytes from a server.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x20\x03\x00\x00\x00"))
	f.Add([]byte("\x20\x02\x01\x05"))
	f.Add([]byte("\x32\x0c\x00\x03a/b\x01\x2c\x03\x03\x00\x00p"))
	f.Add([]byte("\x90\x04\x00\x01\x00\x87"))
	f.Add([]byte("\x40\x02\x00\x01\xe0\x00"))
	f.Add([]byte("\xe0\x0a\x8e\x08\x1f\x00\x05other"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		for version, p := range protocols() {
			r := bufio.NewReader(bytes.NewReader(wire))
			for {
				head, body, err := readFrame(r, 1<<16)
				if err != nil {
					break
				}
				got, err := p.decode(head, body)
				if err != nil {
					continue
				}
				if m := got.Message; m != nil {
					if m.QoS > 2 || (m.QoS == 0) != (m.ID == 0) || BadTopic(m.Topic) != "" {
						t.Errorf("version %s: %+v", version, m)
					}
					meta := (&Records{RecordOf(m)}).Meta(0)
					if topic, _ := meta.Get(topicName); topic != m.Topic {
						t.Errorf("the topic is %v", topic)
					}
				}
				if r := got.Refusal(); r != nil && r.Error() == "" {
					t.Error("a refusal says nothing")
				}
			}
		}
	})
}

func TestReasonCodesAreErrorsFrom0x80On(t *testing.T) {
	for code := 0; code < 256; code++ {
		if r := (&Packet{Code: byte(code)}).Refusal(); (r != nil) != (code >= refused) {
			t.Errorf("code %x: %v", code, r)
		}
	}
	if err := Explain(&Refusal{Code: takenOver}, "read"); !TakenOver(err) || TakenOver(errors.New("x")) {
		t.Errorf("%v is not recognized as a takeover by another client", err)
	}
}
