package mqtt

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/eclipse/paho.golang/packets"
)

// Properties are the properties of a packet of version 5.
type Properties = packets.Properties

// User is a user property, whose name and value the sender has chosen.
type User = packets.User

// Message is a PUBLISH packet.
type Message struct {
	Topic      string
	Payload    []byte
	Properties *Properties // nil: none
	ID         uint16      // of the packet, with QoS 1 and 2
	QoS        byte
	Retain     bool
	Dup        bool
}

// Packet is a packet from the server, in either version.
type Packet struct {
	Kind    byte // such as packets.PUBACK
	ID      uint16
	Code    byte        // a reason code of version 5
	Said    string      // the server's explanation of Code; "": none
	Codes   []byte      // of a SUBACK: the reason code of each subscription
	Present bool        // of a CONNACK: the server has kept the session
	Message *Message    // of a PUBLISH
	Props   *Properties // nil with version 3.1.1
}

// Refusal returns the error that the packet's reason code means, or nil if the code is not an error.
func (p *Packet) Refusal() *Refusal {
	if p.Code < refused {
		return nil
	}
	return &Refusal{Code: p.Code, said: p.Said}
}

// Subscription subscribes to the topics that a filter matches.
type Subscription struct {
	Filter  string
	QoS     byte
	Retains byte // the retain handling option of version 5
}

// hello has the content of a CONNECT packet.
type hello struct {
	cfg            *Connect
	user, password string
	session        Session
}

// protocol encodes and decodes the packets of one version. The formats come from the paho libraries. Their clients are not
// used, since they resend, acknowledge and queue messages on their own, which is the task of the engine.
type protocol interface {
	connect(w io.Writer, h *hello) error
	publish(w io.Writer, m *Message) error
	subscribe(w io.Writer, id uint16, all []Subscription) error
	decode(head byte, body []byte) (*Packet, error)
}

// Packets that are the same in both versions.
var (
	pingRequest = []byte{packets.PINGREQ << 4, 0}
	disconnect  = []byte{packets.DISCONNECT << 4, 0}
)

// reply writes a PUBACK, PUBREC, PUBREL or PUBCOMP that reports success, which is the same in both versions.
func reply(w io.Writer, kind byte, id uint16) error {
	flags := byte(0)
	if kind == packets.PUBREL {
		flags = 2
	}
	_, err := w.Write([]byte{kind<<4 | flags, 2, byte(id >> 8), byte(id)})
	return err
}

// frameLimit is the protocol's limit for the size of a packet, in bytes.
const frameLimit = 1<<28 - 1

var errTooLong = errors.New("the server has sent a packet above the agreed size")

// readFrame reads a packet of up to most bytes: its first byte, and what follows its length.
func readFrame(r *bufio.Reader, most int) (head byte, body []byte, err error) {
	if head, err = r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n := 0
	for shift := 0; ; shift += 7 {
		if shift > 21 {
			return 0, nil, errors.New("the server has sent a length that is not valid (check that it is an MQTT server)")
		}
		b, err := r.ReadByte()
		if err != nil {
			return 0, nil, unexpectedEOF(err)
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
	default: // allocate for what arrives, not for what is announced
		var buf bytes.Buffer
		_, err = io.CopyN(&buf, r, int64(n))
		body = buf.Bytes()
	}
	return head, body, unexpectedEOF(err)
}

// unexpectedEOF returns the error of reading in the middle of a packet.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// decodePublish decodes a PUBLISH. Its payload is part of body, which the libraries would copy.
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
			return nil, errors.New("the server has sent a message with QoS 1 or 2, but without a packet id")
		}
		body = body[2:]
	}
	if properties {
		if len(body) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		if body[0] == 0 { // no properties
			body = body[1:]
		} else {
			m.Properties = &Properties{}
			rest := bytes.NewBuffer(body)
			if err := m.Properties.Unpack(rest, packets.PUBLISH); err != nil {
				return nil, unexpectedEOF(err)
			}
			body = rest.Bytes()
		}
	}
	m.Payload = body
	return &Packet{Kind: packets.PUBLISH, ID: m.ID, Message: m}, nil
}
