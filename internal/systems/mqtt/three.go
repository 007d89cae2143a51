package mqtt

import (
	"bytes"
	"fmt"
	"io"

	"github.com/eclipse/paho.golang/packets"
	old "github.com/eclipse/paho.mqtt.golang/packets"
)

// three is version 3.1.1 of the protocol.
type three struct{}

func (three) connect(w io.Writer, h *hello) error {
	c := h.cfg
	p := old.NewControlPacket(old.Connect).(*old.ConnectPacket)
	p.ProtocolName, p.ProtocolVersion, p.ClientIdentifier = "MQTT", 4, h.session.ClientID
	p.CleanSession, p.Keepalive = h.session.Clean || h.session.Expiry == 0, uint16(c.KeepAlive.Seconds())
	p.Username, p.UsernameFlag, p.Password, p.PasswordFlag = h.user, h.user != "", []byte(h.password), h.password != ""
	if will := c.Will; will != nil {
		p.WillFlag, p.WillTopic, p.WillMessage = true, will.Topic, []byte(will.Payload)
		p.WillQos, p.WillRetain = byte(will.QoS), will.Retain
	}
	return p.Write(w)
}

func (three) publish(w io.Writer, m *Message) error {
	head := old.FixedHeader{MessageType: old.Publish, Qos: m.QoS, Retain: m.Retain, Dup: m.Dup}
	p := old.PublishPacket{FixedHeader: head, TopicName: m.Topic, MessageID: m.ID, Payload: m.Payload}
	return p.Write(w)
}

func (three) subscribe(w io.Writer, id uint16, all []Subscription) error {
	p := old.NewControlPacket(old.Subscribe).(*old.SubscribePacket)
	p.MessageID = id
	for _, s := range all {
		p.Topics, p.Qoss = append(p.Topics, s.Filter), append(p.Qoss, s.QoS)
	}
	return p.Write(w)
}

// codes are the reason codes of version 5 for the return codes of a CONNACK, from 1 on.
var codes = [...]byte{badVersion, badClientID, unavailable, badLogin, NotAuthorized}

func (three) decode(head byte, body []byte) (*Packet, error) {
	p, r := &Packet{Kind: head >> 4}, bytes.NewReader(body)
	if need := map[byte]int{packets.CONNACK: 2, packets.SUBACK: 3, packets.PUBACK: 2, packets.PUBREC: 2,
		packets.PUBREL: 2, packets.PUBCOMP: 2}[p.Kind]; len(body) < need {
		return nil, io.ErrUnexpectedEOF // the library would read zeros
	}
	switch p.Kind {
	case packets.PUBLISH:
		return decodePublish(head, body, false)
	case packets.CONNACK:
		ack := old.ConnackPacket{}
		if err := ack.Unpack(r); err != nil {
			return nil, err
		}
		p.Present = ack.SessionPresent
		switch n := int(ack.ReturnCode); {
		case n > len(codes):
			p.Code = refused
		case n > 0:
			p.Code = codes[n-1]
		}
	case packets.SUBACK:
		ack := old.SubackPacket{}
		if err := ack.Unpack(r); err != nil {
			return nil, err
		}
		p.ID, p.Codes = ack.MessageID, ack.ReturnCodes
	case packets.PUBACK, packets.PUBREC, packets.PUBREL, packets.PUBCOMP:
		p.ID = uint16(body[0])<<8 | uint16(body[1])
	case packets.PINGRESP:
	default:
		return nil, fmt.Errorf("the server has sent a packet of type %d, which it may not send", p.Kind)
	}
	return p, nil
}
