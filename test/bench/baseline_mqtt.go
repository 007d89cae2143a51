package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
)

// mqttWindow is how many messages may be in flight.
const mqttWindow = 1000

// mqttRelay copies messages from the topic args[1] to args[2] at the URL args[0], over two connections. It reads with the
// session of the client id args[3], publishes many messages at once, and acknowledges each when it is confirmed.
func mqttRelay(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	address, in, out, id := args[0], args[1], args[2], args[3]
	to, err := mqttClient(ctx, address, "", nil)
	if err != nil {
		return err
	}
	room, failed := make(chan struct{}, mqttWindow), make(chan error, 1)
	var sending sync.WaitGroup
	from, err := mqttClient(ctx, address, id, func(from *paho.Client, m *paho.Publish) {
		room <- struct{}{}
		sending.Go(func() {
			if err := mqttForward(ctx, from, to, m, out); err != nil && ctx.Err() == nil {
				select {
				case failed <- err:
				default:
				}
			}
			<-room
		})
	})
	if err != nil {
		return err
	}
	if err := mqttSubscribe(ctx, from, in); err != nil && ctx.Err() == nil { // all messages may have arrived before the SUBACK
		return err
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	sending.Wait()
	return errors.Join(err, from.Disconnect(&paho.Disconnect{}), to.Disconnect(&paho.Disconnect{}))
}

// mqttForward adds a field to a message, publishes it, and acknowledges the original.
func mqttForward(ctx context.Context, from, to *paho.Client, m *paho.Publish, topic string) error {
	var d map[string]any
	if err := json.Unmarshal(m.Payload, &d); err != nil {
		return err
	}
	d["severity"] = "critical"
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if _, err := to.Publish(ctx, &paho.Publish{Topic: topic, QoS: 1, Payload: body}); err != nil {
		return err
	}
	return from.Ack(m)
}

// mqttClient connects to a server. With an id, the client has a persistent session. With an id and got, got must
// acknowledge the messages.
func mqttClient(ctx context.Context, address, id string, got func(*paho.Client, *paho.Publish)) (*paho.Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		return nil, err
	}
	conf := paho.ClientConfig{Conn: packets.NewThreadSafeConn(conn), EnableManualAcknowledgment: id != "" && got != nil}
	if got != nil {
		conf.OnPublishReceived = []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			got(p.Client, p.Packet)
			return true, nil
		}}
	}
	window, keep := uint16(mqttWindow), uint32(3600)
	connect := &paho.Connect{ClientID: id, CleanStart: id == "", KeepAlive: 60,
		Properties: &paho.ConnectProperties{ReceiveMaximum: &window}}
	if id != "" {
		connect.Properties.SessionExpiryInterval = &keep
	}
	c := paho.NewClient(conf)
	_, err = c.Connect(ctx, connect)
	return c, err
}

func mqttSubscribe(ctx context.Context, c *paho.Client, topic string) error {
	_, err := c.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: topic, QoS: 1}}})
	return err
}
