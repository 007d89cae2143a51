package mqtt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/eclipse/paho.golang/packets"
)

// Properties are what a message of version 5 says about itself; nil: nothing.
type Properties = packets.Properties

// User is a property that its sender has named.
type User = packets.User

// Message is what is published.
type Message struct {
	Topic      string
	Payload    []byte
	Properties *Properties
	ID         uint16 // of the packet, with QoS 1 and 2
	QoS        byte
	Retain     bool
	Dup        bool
}

// Packet is what the server sends, whatever the version.
type Packet struct {
	Kind    byte // as packets has them
	ID      uint16
	Code    byte     // a reason code of version 5
	Said    string   // the server's own words
	Codes   []byte   // of a SUBACK
	Present bool     // of a CONNACK: the session
	Message *Message // of a PUBLISH
	Props   *Properties
}

// Refusal is the packet's reason code if that says no, or nil.
func (p *Packet) Refusal() *Refusal {
	if p.Code < refused {
		return nil
	}
	return &Refusal{Code: p.Code, said: p.Said}
}

// Subscription is one filter.
type Subscription struct {
	Filter  string
	QoS     byte
	Retains byte // the handling of retained messages; only in version 5
}

// hello is what a CONNECT says.
type hello struct {
	cfg            *Connect
	user, password string
	session        Session
}

// protocol is how a version writes and reads packets. The paho libraries have the formats; their clients are not used,
// as they send again, acknowledge and queue when they see fit, which is the engine's business here.
type protocol interface {
	connect(w io.Writer, h *hello) error
	publish(w io.Writer, m *Message) error
	subscribe(w io.Writer, id uint16, all []Subscription) error
	decode(head byte, body []byte) (*Packet, error)
}

// The same bytes in both versions.
var (
	pingRequest = []byte{packets.PINGREQ << 4, 0}
	farewell    = []byte{packets.DISCONNECT << 4, 0}
)

// reply writes a PUBACK, PUBREC, PUBREL or PUBCOMP that says yes: four bytes in both versions.
func reply(w io.Writer, kind byte, id uint16) error {
	flags := byte(0)
	if kind == packets.PUBREL {
		flags = 2
	}
	_, err := w.Write([]byte{kind<<4 | flags, 2, byte(id >> 8), byte(id)})
	return err
}

// frameLimit is the most bytes that the protocol lets a packet have.
const frameLimit = 1<<28 - 1

var errTooLong = errors.New("the server has sent a packet that is larger than agreed")

// readFrame reads the first byte of a packet and what follows its length.
func readFrame(r *bufio.Reader, most int) (head byte, body []byte, err error) {
	if head, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n := 0
	for shift := 0; ; shift += 7 {
		if shift > 21 {
			return 0, nil, errors.New("the server has sent a length that is not valid: it may not speak MQTT")
		}
		b, err := r.ReadByte()
		if err != nil {
			return 0, nil, midway(err)
		}
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	const atOnce = 64 << 10
	switch {
	case n > most:
		return 0, nil, errTooLong
	case n <= atOnce:
		body = make([]byte, n)
		_, err = io.ReadFull(r, body)
	default: // room is made for what comes, not for what is announced
		var grows bytes.Buffer
		_, err = io.CopyN(&grows, r, int64(n))
		body = grows.Bytes()
	}
	return head, body, midway(err)
}

// midway is the error of a packet that ended too early.
func midway(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// decodePublish reads a PUBLISH up to its payload, which the libraries would copy.
func decodePublish(head byte, body []byte, properties bool) (*Packet, error) {
	m := &Message{QoS: head >> 1 & 3, Retain: head&1 != 0, Dup: head&8 != 0}
	if m.QoS > 2 {
		return nil, errors.New("the server has sent a message with QoS 3")
	}
	if len(body) < 2 {
		return nil, io.ErrUnexpectedEOF
	}
	n := int(body[0])<<8 | int(body[1])
	if body = body[2:]; len(body) < n {
		return nil, io.ErrUnexpectedEOF
	}
	m.Topic, body = string(body[:n]), body[n:]
	if problem := BadTopic(m.Topic); problem != "" {
		return nil, fmt.Errorf("the server has sent a message whose topic %s", problem)
	}
	if m.QoS > 0 {
		if len(body) < 2 {
			return nil, io.ErrUnexpectedEOF
		}
		if m.ID = uint16(body[0])<<8 | uint16(body[1]); m.ID == 0 {
			return nil, errors.New("the server has sent a message with QoS and without a number")
		}
		body = body[2:]
	}
	if properties {
		if len(body) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		if body[0] == 0 { // as most have it
			body = body[1:]
		} else {
			m.Properties = &Properties{}
			rest := bytes.NewBuffer(body)
			if err := m.Properties.Unpack(rest, packets.PUBLISH); err != nil {
				return nil, midway(err)
			}
			body = rest.Bytes()
		}
	}
	m.Payload = body
	return &Packet{Kind: packets.PUBLISH, ID: m.ID, Message: m}, nil
}
