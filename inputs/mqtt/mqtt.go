// Package mqtt reads messages from an MQTT server. Start at [input.Read]. session.go has a connection and its acknowledgements.
package mqtt

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/systems/mqtt"
)

const about = `
Reads from an MQTT 5 or 3.1.1 server.

With QoS 1 and 2, a message is acknowledged (PUBACK, PUBREC) when it is settled, in
order of arrival, as MQTT requires: a slow message holds back the acknowledgements of
those after it, up to prefetch. MQTT has no way to return a message. A message that
fails is dead-lettered, or stops the pipeline; the server then keeps unacknowledged
messages for session_expiry, and redelivers them.

Each client needs its own client_id. If another client connects with the same one, the
server closes this connection, and flowd waits longer each time before it reconnects.
The server keeps the subscriptions of a session: a filter that is removed here stays
active until the session ends (clean_start). With share, several clients, and several
instances (concurrency), share the messages of a filter; instances append -1, -2 and so
on to client_id.

The server keeps the order of a topic's messages, and so does flowd with order_by,
unless the subscription is shared.

A lost connection is re-established, at the next URL of a list if need be.
Unacknowledged messages are redelivered, even with QoS 2: it rules out duplicates
between server and flowd, but flowd's own delivery is at least once. QoS 0 messages that
are in flight when flowd stops are lost.

Metadata: topic, qos, retained, duplicate, message_id (the packet's number); in version
5 also expiry (seconds left), payload_format (text or bytes), content_type,
response_topic, correlation_data, and the user properties by name, several with the same
name as a list. One with a name above becomes property_NAME.

    inputs:
      states: {mqtt: {url: "mqtt://localhost", topics: plant/+/state, client_id: flowd-states}}
    engine: {order_by: 'meta("topic")'}
`

func init() {
	engine.Register(engine.Inputs, "mqtt", about, Config{
		Connect: mqtt.Defaults, QoS: 1, SessionExpiry: 24 * time.Hour, Retained: whenNew, Prefetch: 1000,
	}, newInput)
}

type input struct {
	*source.Session[*session]
	cfg      Config
	log      *slog.Logger
	clientID string
	dialer   *mqtt.Dialer
	maxBytes int // about how many bytes are prefetched at most

	cleaned    bool            // clean_start was applied
	subscribed bool            // the server's session has the subscriptions; sendSubscribe sets it
	inherited  bool            // the server's session is of an earlier process, and may have other subscriptions; a session's lock guards it
	rivals     mqtt.Rivals     // detects other clients with this client id
	settled    map[uint16]bool // packet ids of QoS 2 messages that are settled, without a PUBREL from the server yet
}

var (
	_ engine.Traited = (*input)(nil)
	_ engine.Acker   = (*session)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if env.Instances > 1 && !c.shares() {
		return nil, errors.New("each instance would read all messages (write `share: GROUP`, or remove `concurrency`)")
	}
	in := &input{cfg: c, log: env.Log, maxBytes: max(1<<20, env.MaxBytes/4)}
	in.clientID = cmp.Or(c.ClientID, "flowd-"+strings.ToLower(rand.Text()[:16]))
	if env.Index > 0 {
		in.clientID = fmt.Sprintf("%s-%d", in.clientID, env.Index)
	}
	in.dialer = mqtt.NewDialer(&in.cfg.Connect)
	in.Session = source.NewSession(in.connect)
	return in, nil
}

// Traits returns what the configuration implies.
func (in *input) Traits() engine.Traits { return in.cfg.Traits() }

// connect makes a connection and subscribes. If another client may use the same client id, it waits first.
func (in *input) connect(ctx context.Context) (*session, error) {
	wait, _ := in.rivals.Wait(time.Now())
	if err := timing.Sleep(ctx, wait); err != nil {
		return nil, err
	}
	s, err := in.newSession(ctx)
	if err != nil {
		return nil, err
	}
	in.rivals.Connected(time.Now())
	in.log.Info("subscribed", "to", s.conn.Address, "client_id", in.clientID, "session_present", s.conn.Server.Present)
	return s, nil
}

// Read waits for a message, and adds all that have arrived.
func (in *input) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	s := in.Conn()
	err := s.readQueue(ctx, b)
	if err == nil || ctx.Err() != nil {
		return s, err
	}
	if wait, sure := in.rivals.Lost(err, time.Now()); sure || wait > longWait {
		in.log.Error(mqtt.RivalsText, "client_id", in.clientID, "tries_again_in", wait.Round(time.Second))
	}
	return s, err
}

// longWait is how long a wait before reconnecting must be to be logged.
const longWait = time.Second
