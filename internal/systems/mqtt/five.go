package mqtt

import (
	"bytes"
	"fmt"
	"io"

	"github.com/eclipse/paho.golang/packets"
)

// five is version 5 of the protocol.
type five struct{}

func (five) connect(w io.Writer, h *hello) error {
	c := h.cfg
	p := packets.Connect{ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: h.session.ClientID,
		CleanStart: h.session.Clean, KeepAlive: uint16(c.KeepAlive.Seconds()),
		Username: h.user, UsernameFlag: h.user != "", Password: []byte(h.password), PasswordFlag: h.password != "",
		Properties: &packets.Properties{}, WillProperties: &packets.Properties{}}
	if s := &h.session; s.Expiry > 0 {
		p.Properties.SessionExpiryInterval = &s.Expiry
	}
	if s := &h.session; s.Receive > 0 {
		p.Properties.ReceiveMaximum = &s.Receive
	}
	if s := &h.session; s.MaxPacket > 0 {
		p.Properties.MaximumPacketSize = &s.MaxPacket
	}
	if will := c.Will; will != nil {
		p.WillFlag, p.WillTopic, p.WillMessage = true, will.Topic, []byte(will.Payload)
		p.WillQOS, p.WillRetain = byte(will.QoS), will.Retain
		if delay := uint32(will.Delay.Seconds()); delay > 0 {
			p.WillProperties.WillDelayInterval = &delay
		}
	}
	_, err := p.WriteTo(w)
	return err
}

func (five) publish(w io.Writer, m *Message) error {
	_, err := (&packets.Publish{Topic: m.Topic, Payload: m.Payload, PacketID: m.ID, QoS: m.QoS, Retain: m.Retain,
		Duplicate: m.Dup, Properties: m.Properties}).WriteTo(w)
	return err
}

func (five) subscribe(w io.Writer, id uint16, all []Subscription) error {
	p := packets.Subscribe{PacketID: id, Properties: &packets.Properties{}}
	for _, s := range all {
		p.Subscriptions = append(p.Subscriptions, packets.SubOptions{Topic: s.Filter, QoS: s.QoS, RetainHandling: s.Retains})
	}
	_, err := p.WriteTo(w)
	return err
}

func (five) decode(head byte, body []byte) (*Packet, error) {
	p, r, props := &Packet{Kind: head >> 4}, bytes.NewBuffer(body), &Properties{}
	var err error
	switch p.Kind {
	case packets.PUBLISH:
		return decodePublish(head, body, true)
	case packets.CONNACK:
		ack := packets.Connack{Properties: props}
		err = ack.Unpack(r)
		p.Code, p.Present = ack.ReasonCode, ack.SessionPresent
	case packets.SUBACK:
		ack := packets.Suback{Properties: props}
		err = ack.Unpack(r)
		p.ID, p.Codes = ack.PacketID, ack.Reasons
	case packets.PUBACK, packets.PUBREC, packets.PUBREL, packets.PUBCOMP:
		ack := packets.Puback{Properties: props} // the four have the same format
		err = ack.Unpack(r)
		p.ID, p.Code = ack.PacketID, ack.ReasonCode
	case packets.DISCONNECT:
		if len(body) > 0 {
			bye := packets.Disconnect{Properties: props}
			err = bye.Unpack(r)
			p.Code = bye.ReasonCode
		}
	case packets.PINGRESP:
	default:
		return nil, fmt.Errorf("the server has sent a packet of type %d, which it may not send", p.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("the server has sent a packet of type %d that can't be read: %w", p.Kind, unexpectedEOF(err))
	}
	p.Said, p.Props = props.ReasonString, props
	return p, nil
}
