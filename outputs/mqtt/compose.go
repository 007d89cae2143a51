package mqtt

import (
	"math"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	"github.com/flowd-io/flowd/internal/systems/mqtt"
)

// compose turns the batch into what is published. Messages that can't be composed fail.
func (o *output) compose(b *engine.Batch) []*mqtt.Outgoing {
	room := make([]mqtt.Outgoing, 0, b.Len())
	all := make([]*mqtt.Outgoing, 0, b.Len())
	for m := range b.All() {
		room = append(room, mqtt.Outgoing{M: m})
		out := &room[len(room)-1]
		if err := o.fill(out); err != nil {
			m.Fail(err)
			continue
		}
		all = append(all, out)
	}
	return all
}

func (o *output) fill(out *mqtt.Outgoing) (err error) {
	m := out.M
	if out.Topic, err = o.cfg.Topic.Text(m); err != nil {
		return err
	}
	if problem := mqtt.BadTopic(out.Topic); problem != "" {
		return engine.Errorf(engine.Rejected, "the topic %s", problem)
	}
	out.Payload, out.QoS = m.Bytes(), byte(o.cfg.QoS)
	if !o.cfg.Retain.IsZero() {
		v, err := o.cfg.Retain.Eval(m)
		if err != nil {
			return err
		}
		is, ok := v.(bool)
		if !ok && v != nil {
			return engine.Errorf(engine.Rejected, "retain is %.60v, which is neither true nor false", v)
		}
		if out.Retain = is; is && len(out.Payload) == 0 {
			if v, _ := m.Meta.Get("tombstone"); v != true {
				return engine.Errorf(engine.Rejected, "an empty payload removes the message that the server retains "+
					"(filter it, or write `meta: {tombstone: true}` before it if that is intended)")
			}
		}
	}
	if o.cfg.IsV311() {
		return nil
	}
	out.Properties = &mqtt.Properties{}
	mqtt.SetProperties(out.Properties, m.Meta, m.DeadLetter())
	if err := o.properties(out.Properties, m); err != nil {
		return err
	}
	return mqtt.CheckProperties(out.Properties)
}

// properties sets the properties that the configuration names.
func (o *output) properties(p *mqtt.Properties, m *engine.Message) (err error) {
	c := &o.cfg
	if !c.ContentType.IsZero() {
		if p.ContentType, err = c.ContentType.Text(m); err != nil {
			return err
		}
	}
	if !c.ResponseTopic.IsZero() {
		if p.ResponseTopic, err = c.ResponseTopic.Text(m); err != nil {
			return err
		}
	}
	if !c.CorrelationData.IsZero() {
		v, err := c.CorrelationData.Eval(m)
		if err != nil {
			return err
		}
		p.CorrelationData = []byte(metadata.Text(v))
	}
	if !c.Expiry.IsZero() {
		v, err := c.Expiry.Eval(m)
		if err != nil {
			return err
		}
		if p.MessageExpiry, err = expiry(v); err != nil {
			return err
		}
	}
	if c.UserProperties.Len() == 0 {
		return nil
	}
	p.User = nil
	for name, t := range c.UserProperties.All() {
		value, err := t.Text(m)
		if err != nil {
			return err
		}
		p.User = append(p.User, mqtt.User{Key: name, Value: value})
	}
	return nil
}

// expiry returns a time to live in whole seconds, rounded up.
func expiry(v any) (*uint32, error) {
	seconds := -1.0
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int:
		seconds = float64(v)
	case time.Duration:
		seconds = v.Seconds()
	case string:
		if d, err := time.ParseDuration(v); err == nil {
			seconds = d.Seconds()
		}
	}
	if seconds < 0 || seconds > math.MaxUint32 {
		return nil, engine.Errorf(engine.Rejected, "expiry is %.60v, which is neither a duration nor a number of seconds", v)
	}
	n := uint32(math.Ceil(seconds))
	return &n, nil
}
