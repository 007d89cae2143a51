package mqtttest

import (
	"context"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
)

// Client is a client of version 5 that is not flowd's.
type Client struct {
	paho *paho.Client
	came chan *paho.Publish
}

// Client connects a client, which leaves with the test.
func (s *Server) Client(t testing.TB) *Client {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return s.As(t, Name(), u.User)
}

// As connects a client with an id, and with a user if it is not nil.
func (s *Server) As(t testing.TB, id string, user *url.Userinfo) *Client {
	t.Helper()
	raw, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{came: make(chan *paho.Publish, 100_000)}
	c.paho = paho.NewClient(paho.ClientConfig{Conn: packets.NewThreadSafeConn(raw), PacketTimeout: Patience,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			c.came <- p.Packet
			return true, nil
		}}})
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	connect := &paho.Connect{ClientID: id, CleanStart: true, KeepAlive: 60}
	if user != nil {
		connect.Username, connect.UsernameFlag = user.Username(), true
		password, _ := user.Password()
		connect.Password, connect.PasswordFlag = []byte(password), true
	}
	if _, err := c.paho.Connect(ctx, connect); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Leave)
	return c
}

// Leave ends the client.
func (c *Client) Leave() { _ = c.paho.Disconnect(&paho.Disconnect{}) }

// Publish publishes messages with a QoS, one after the other.
func (c *Client) Publish(t testing.TB, topic string, qos byte, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		c.Send(t, &paho.Publish{Topic: topic, QoS: qos, Payload: []byte(p)})
	}
}

// Send publishes a message.
func (c *Client) Send(t testing.TB, p *paho.Publish) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if _, err := c.paho.Publish(ctx, p); err != nil {
		t.Fatal(err)
	}
}

// Subscribe subscribes to a filter.
func (c *Client) Subscribe(t testing.TB, filter string, qos byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	_, err := c.paho.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}})
	if err != nil {
		t.Fatal(err)
	}
}

// Next is the next message that has come.
func (c *Client) Next(t testing.TB) *paho.Publish {
	t.Helper()
	select {
	case p := <-c.came:
		return p
	case <-time.After(Patience):
		t.Fatal("no message has come")
		return nil
	}
}

// Came are messages as they come.
func (c *Client) Came() <-chan *paho.Publish { return c.came }
