package mqtt

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/mqtttest"
	"github.com/google/go-cmp/cmp"
)

var versions = []string{"5", "3.1.1"}

func TestConfig(t *testing.T) {
	tests := []struct{ name, config, want string }{
		{"all there is", `"topic": "a/$(b)", "qos": 2, "retain": "state == 'on'", "content_type": "$(t)",
			"response_topic": "r", "correlation_data": "id", "expiry": "'30s'", "user_properties": {"k": "$(v)"}`, ""},
		{"version 3.1.1", `"topic": "a", "version": "3.1.1", "retain": true`, ""},
		{"no topic", `"qos": 1`, "topic: required"},
		{"a wildcard", `"topic": "a/#"`, "has a wildcard, + or #"},
		{"a wildcard in the topic for answers", `"topic": "a", "response_topic": "+"`, "has a wildcard"},
		{"3.1.1 has no properties", `"topic": "a", "version": "3.1.1", "expiry": "30"`, "version 3.1.1 has no properties"},
		{"QoS 3", `"topic": "a", "qos": 3`, "qos"},
		{"words of others", `"topic": "a", "max_in_flight": 2`, "write `concurrency`"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := enginetest.Problems(t, engine.Outputs, `{"mqtt": {"url": "mqtt://h", `+tt.config+`}}`)
			text := strings.Join(got, "\n")
			if tt.want == "" && text != "" || !strings.Contains(text, tt.want) || tt.want != "" && len(got) != 1 {
				t.Errorf("got %q, want one with %q", got, tt.want)
			}
		})
	}
}

// writer returns an output.
func writer(t *testing.T, url, topic, more string) *output {
	t.Helper()
	return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"mqtt": {"url": %q, "topic": %q%s}}`,
		url, topic, more)).(*output)
}

// opened returns an open output. It is closed when the test ends.
func opened(t *testing.T, o *output) *output {
	t.Helper()
	if err := o.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close(context.Background()) })
	return o
}

// fates returns the error of a write, and the classes of failed messages.
func fates(t *testing.T, o *output, payloads ...string) (all []string, err error) {
	t.Helper()
	b := enginetest.Batch(payloads...)
	err = o.Write(t.Context(), b)
	for m := range b.Ended() {
		if m.Err() != nil {
			all = append(all, string(m.Bytes())+" "+string(m.Err().Class))
		}
	}
	return all, err
}

func TestCompose(t *testing.T) {
	tests := []struct{ name, config, payload, want string }{
		{"a topic from data", `"topic": "a/$(b)"`, `{"b": "c"}`, "a/c 1 false"},
		{"retained", `"topic": "a", "retain": "keep", "qos": 2`, `{"keep": true}`, "a 2 true"},
		{"not retained", `"topic": "a", "retain": "keep"`, `{}`, "a 1 false"},
		{"retain that is neither", `"topic": "a", "retain": "keep"`, `{"keep": 1}`, "rejected"},
		{"an empty topic", `"topic": "$(b)"`, `{"b": ""}`, "rejected"},
		{"a wildcard", `"topic": "$(b)"`, `{"b": "#"}`, "rejected"},
		{"another direction", `"topic": "$(b)"`, `{"b": "a\u202eb"}`, "rejected"},
		{"properties", `"topic": "a", "content_type": "$(b)", "response_topic": "r/$(b)", "correlation_data": "n",
			"expiry": "'1500ms'", "user_properties": {"k": "$(b)"}`, `{"b": "c", "n": 7}`, `a 1 false c r/c "7" 2 [{k c}]`},
		{"nil properties", `"topic": "a", "expiry": "e", "correlation_data": "e"`, `{}`, "a 1 false"},
		{"an expiry that is none", `"topic": "a", "expiry": "e"`, `{"e": "soon"}`, "rejected"},
		{"one that is over", `"topic": "a", "expiry": "e"`, `{"e": -1}`, "rejected"},
		{"an answer to a wildcard", `"topic": "a", "response_topic": "$(b)"`, `{"b": "+"}`, "rejected"},
		{"a property that is too long", `"topic": "a", "user_properties": {"k": "$(b)"}`,
			`{"b": "` + strings.Repeat("x", 1<<16) + `"}`, "rejected"},
		{"no document", `"topic": "$(a)"`, `x`, "decode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := enginetest.New(t, engine.Outputs, `{"mqtt": {"url": "mqtt://h", `+tt.config+`}}`).(*output)
			b := enginetest.Batch(tt.payload)
			var got string
			for _, out := range o.compose(b) {
				got = fmt.Sprintf("%s %d %t", out.Topic, out.QoS, out.Retain)
				if p := out.Properties; p.MessageExpiry != nil {
					got += fmt.Sprintf(" %s %s %q %d %v", p.ContentType, p.ResponseTopic, p.CorrelationData, *p.MessageExpiry, p.User)
				}
			}
			for m := range b.Ended() {
				got = string(m.Err().Class)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWrittenMessagesArrive(t *testing.T) {
	s := mqtttest.Shared(t)
	for _, v := range versions {
		for qos := range 3 {
			t.Run(fmt.Sprintf("version %s QoS %d", v, qos), func(t *testing.T) {
				t.Parallel()
				topic, c := mqtttest.Name(), s.Client(t)
				c.Subscribe(t, topic+"/#", 2)
				o := opened(t, writer(t, s.URL, topic+"/$(t)", fmt.Sprintf(`, "version": %q, "qos": %d, "window": 7`, v, qos)))
				var payloads, got []string
				for i := range 100 {
					payloads = append(payloads, fmt.Sprintf(`{"t":"x%d"}`, i))
				}
				payloads = append(payloads, `{"t":"large","pad":"`+strings.Repeat("x", 1<<20)+`"}`)
				if failed, err := fates(t, o, payloads...); failed != nil || err != nil {
					t.Fatalf("failed: %q, %v", failed, err)
				}
				for range payloads {
					p := c.Next(t)
					got = append(got, string(p.Payload))
					if p.QoS != byte(qos) {
						t.Errorf("QoS %d", p.QoS)
					}
				}
				if !slices.Equal(got, payloads) {
					t.Errorf("got %d messages %.200q", len(got), got)
				}
			})
		}
	}
}

func TestMetadataGoesAlong(t *testing.T) {
	s := mqtttest.Shared(t)
	topic, c := mqtttest.Name(), s.Client(t)
	c.Subscribe(t, topic, 1)
	o := opened(t, writer(t, s.URL, topic, ""))
	b := enginetest.Batch("p")
	for m := range b.All() {
		m.Meta = m.Meta.With("topic", "elsewhere").Own().With("content_type", "text/plain").With("response_topic", "r").
			With("correlation_data", "c").With("list", []any{"1", 2}).With("k", "v").With("none", nil).
			With("error_message", "a\xff\x00\n  ^")
	}
	if err := o.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	p := c.Next(t)
	want := &paho.PublishProperties{ContentType: "text/plain", ResponseTopic: "r", CorrelationData: []byte("c"),
		User: paho.UserProperties{{Key: "list", Value: "1"}, {Key: "list", Value: "2"}, {Key: "k", Value: "v"},
			{Key: "error_message", Value: "a\uFFFD\uFFFD   ^"}}}
	if diff := cmp.Diff(want, p.Properties); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

func TestMetadataThatCanNotGoAlongIsNotChanged(t *testing.T) {
	o := opened(t, writer(t, mqtttest.Shared(t).URL, mqtttest.Name(), ""))
	for _, value := range []any{"v\x00", "\xff", []any{"1", "\xff"}} {
		b := enginetest.Batch("p")
		for m := range b.All() {
			m.Meta = m.Meta.With("k", value)
		}
		err := o.Write(t.Context(), b)
		for m := range b.Ended() {
			if e := m.Err(); e == nil || e.Class != engine.Rejected || !strings.Contains(e.Error(), `to_base64(meta("NAME"))`) {
				t.Errorf("%q: %v", value, e)
			}
			err = m.Err()
		}
		if err == nil {
			t.Errorf("%q went along", value)
		}
	}
}

func TestTheServerRefusesSingleMessages(t *testing.T) {
	reasons := map[string]byte{"no right": 0x87, "quota": 0x97, "bad topic": 0x90, "nobody": 0x10, "too large": 0x95}
	f := mqtttest.StartFake(t, func(_ int, got *packets.ControlPacket) []packets.Packet {
		if p, is := got.Content.(*packets.Publish); is {
			code, props := reasons[string(p.Payload)], &packets.Properties{}
			if p.QoS == 1 {
				return []packets.Packet{&packets.Puback{PacketID: p.PacketID, ReasonCode: code, Properties: props}}
			}
			return []packets.Packet{&packets.Pubrec{PacketID: p.PacketID, ReasonCode: code, Properties: props}}
		}
		return mqtttest.Usual(got)
	})
	for qos := 1; qos <= 2; qos++ {
		o := opened(t, writer(t, f.URL, "a/$(meta('x') ?? 'b')", fmt.Sprintf(`, "qos": %d`, qos)))
		got, err := fates(t, o, "fine", "no right", "quota", "bad topic", "nobody", "too large")
		want := []string{"no right rejected", "quota transient", "bad topic rejected", "too large rejected"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("QoS %d: got %q, %v, want %q", qos, got, err, want)
		}
	}
	o := opened(t, writer(t, f.URL, "constant", ""))
	if got, err := fates(t, o, "no right"); err != nil || !slices.Equal(got, []string{"no right auth"}) {
		t.Errorf("the one topic of all: got %q, %v", got, err)
	}
}

func TestTheServersLimits(t *testing.T) {
	maximum, size, no := uint16(3), uint32(60), byte(0)
	var most atomic.Int64
	var waiting []uint16
	f := mqtttest.StartFake(t, func(_ int, got *packets.ControlPacket) []packets.Packet {
		all := mqtttest.Usual(got)
		switch p := got.Content.(type) {
		case *packets.Connect:
			return []packets.Packet{&packets.Connack{Properties: &packets.Properties{ReceiveMaximum: &maximum,
				MaximumPacketSize: &size, RetainAvailable: &no}}}
		case *packets.Publish:
			waiting = append(waiting, p.PacketID)
			return nil
		case *packets.Pingreq: // by then, everything has arrived that the client sends without an answer
			most.Store(max(most.Load(), int64(len(waiting))))
			for _, id := range waiting {
				all = append(all, &packets.Puback{PacketID: id, Properties: &packets.Properties{}})
			}
			waiting = nil
		}
		return all
	})
	o := opened(t, writer(t, f.URL, "a", `, "keep_alive": "1s", "retain": "raw() == 'kept'"`))
	got, err := fates(t, o, "1", "2", "kept", "3", strings.Repeat("x", 60), "4", "5", "6")
	want := []string{"kept rejected", strings.Repeat("x", 60) + " rejected"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	if most.Load() != int64(maximum) {
		t.Errorf("%d in flight, want %d", most.Load(), maximum)
	}
}

func TestAMessageAtWhichTheServerHangsUpFailsAlone(t *testing.T) {
	for name, end := range map[string][]packets.Packet{
		"rejected":  {&packets.Disconnect{ReasonCode: 0x87, Properties: &packets.Properties{}}, mqtttest.Hangup{}},
		"transient": {mqtttest.Hangup{}},
	} {
		f := mqtttest.StartFake(t, func(_ int, got *packets.ControlPacket) []packets.Packet {
			if p, is := got.Content.(*packets.Publish); is && string(p.Payload) == "poison" {
				return end
			}
			return mqtttest.Usual(got)
		})
		o := opened(t, writer(t, f.URL, "a", ""))
		got, err := fates(t, o, "1", "2", "3", "poison", "4", "5")
		if err != nil || !slices.Equal(got, []string{"poison " + name}) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestAClientIDThatIsTakenOver(t *testing.T) {
	f := mqtttest.StartFake(t, func(_ int, got *packets.ControlPacket) []packets.Packet {
		if got.Type == packets.PUBLISH {
			return []packets.Packet{&packets.Disconnect{ReasonCode: 0x8E, Properties: &packets.Properties{}}, mqtttest.Hangup{}}
		}
		return mqtttest.Usual(got)
	})
	o := opened(t, writer(t, f.URL, "a", ""))
	for range 3 {
		_, err := fates(t, o, "1")
		if e := engine.ErrorOf(err, ""); !e.HoldsOutput() || !strings.Contains(e.Error(), "client_id") {
			t.Errorf("got %v", err)
		}
	}
	if n := f.Dialled(); n != 1 {
		t.Errorf("it has connected %d times", n)
	}
}

func TestARestartHoldsTheOutput(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		s := mqtttest.Own(t, nil, "allow_anonymous true")
		o := opened(t, writer(t, s.URL, "a", fmt.Sprintf(`, "version": %q`, v)))
		if failed, err := fates(t, o, "1"); failed != nil || err != nil {
			t.Errorf("failed: %q, %v", failed, err)
		}
		s.Stop(t)
		if _, err := fates(t, o, "2"); !engine.ErrorOf(err, "").HoldsOutput() {
			t.Errorf("without a server: %v", err)
		}
		if err := o.Probe(t.Context()); err == nil {
			t.Error("the probe succeeds without a server")
		}
		s.Start(t)
		if err := o.Probe(t.Context()); err != nil {
			t.Errorf("the probe fails: %v", err)
		}
		c := s.Client(t)
		c.Subscribe(t, "a", 1)
		if failed, err := fates(t, o, "2"); failed != nil || err != nil || string(c.Next(t).Payload) != "2" {
			t.Errorf("failed: %q, %v", failed, err)
		}
	}
}

func TestRights(t *testing.T) {
	s := mqtttest.Own(t, map[string]string{"users": mqtttest.Passwords(t, map[string]string{"writer": "right"}),
		"rights": "user writer\ntopic write open/#\n"}, "allow_anonymous false", "password_file users", "acl_file rights")
	open := func(user, password, topic, more string) *output {
		return writer(t, s.URL, topic, fmt.Sprintf(`, "user": %q, "password": %q%s`, user, password, more))
	}
	for _, v := range versions {
		err := open("writer", "wrong", "a", fmt.Sprintf(`, "version": %q`, v)).Open(t.Context())
		if e := engine.ErrorOf(err, ""); e.Class != engine.Auth || strings.Contains(e.Error(), "wrong") {
			t.Errorf("version %s: a wrong password: %s %v", v, e.Class, err)
		}
	}
	o := opened(t, open("writer", "right", "$(t)", ""))
	got, err := fates(t, o, `{"t":"open/1"}`, `{"t":"closed"}`, `{"t":"open/2"}`)
	if err != nil || !slices.Equal(got, []string{`{"t":"closed"} rejected`}) {
		t.Errorf("got %q, %v", got, err)
	}
	s.Reload(t, "users", mqtttest.Passwords(t, map[string]string{"writer": "changed"}))
	s.Stop(t)
	s.Start(t)
	if _, err := fates(t, o, `{"t":"open/3"}`); engine.ErrorOf(err, "").Class != engine.Auth {
		t.Errorf("a password that has changed: %v", err)
	}
}

func TestTLS(t *testing.T) {
	files := mqtttest.Certificates(t)
	s := mqtttest.Own(t, files, "allow_anonymous true", "cafile ca.pem", "certfile server.pem", "keyfile server.key",
		"require_certificate true")
	url := "mqtts" + strings.TrimPrefix(s.URL, "mqtt")
	tests := []struct{ name, tls, want string }{
		{"with a certificate", `{"ca": "HOME/ca.pem", "cert": "HOME/client.pem", "key": "HOME/client.key"}`, ""},
		{"without the authority", `{"cert": "HOME/client.pem", "key": "HOME/client.key"}`, "name the authority"},
		{"without a certificate", `{"ca": "HOME/ca.pem"}`, "certificate"},
		{"another name", `{"ca": "HOME/ca.pem", "server_name": "else"}`, "server_name: …"},
	}
	for _, tt := range tests {
		o := writer(t, url, "a", `, "tls": `+strings.ReplaceAll(tt.tls, "HOME", s.Home()))
		_, err := o.connection(t.Context())
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		o.Close(t.Context())
	}
}

func TestWebSocket(t *testing.T) {
	s := mqtttest.Shared(t)
	if s.Web == "" {
		t.Skip("its WebSocket is not known")
	}
	topic, c := mqtttest.Name(), s.Client(t)
	c.Subscribe(t, topic, 1)
	o := opened(t, writer(t, s.Web, topic, ""))
	large := strings.Repeat("x", 1<<20)
	if failed, err := fates(t, o, "1", large); failed != nil || err != nil {
		t.Errorf("failed: %d, %v", len(failed), err)
	}
	if a, b := c.Next(t), c.Next(t); string(a.Payload) != "1" || string(b.Payload) != large {
		t.Error("other messages arrived")
	}
}

func TestAServerThatIsAway(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			s := mqtttest.Shared(t)
			var c *mqtttest.Client
			payloads := []string{"1", "2", "3", "4", "5"}
			var headers func(t *testing.T) map[string]string
			if v != "3.1.1" { // which has no user properties
				headers = func(t *testing.T) map[string]string {
					all := map[string]string{}
					for _, u := range c.Next(t).Properties.User {
						all[u.Key] = u.Value
					}
					return all
				}
			}
			enginetest.Remote{
				Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
					topic := mqtttest.Name()
					c = s.Client(t)
					c.Subscribe(t, topic, 1)
					return func() engine.Output {
						return writer(t, wire.Over(s.URL), topic, fmt.Sprintf(`, "version": %q`, v))
					}
				},
				Arrived: func(t *testing.T) (all []string) {
					for len(all) == 0 || all[len(all)-1] != payloads[len(payloads)-1] {
						all = append(all, string(c.Next(t).Payload))
					}
					return all
				},
				Payloads: payloads,
				Greets:   true,
				Headers:  headers,
			}.Run(t)
		})
	}
}

func TestOutputConforms(t *testing.T) {
	s := mqtttest.Shared(t)
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			enginetest.Output(t, func(t *testing.T) engine.Output {
				return writer(t, s.URL, mqtttest.Name(), fmt.Sprintf(`, "version": %q`, v))
			}, `{"a":1}`, "", strconv.Itoa(7))
		})
	}
}

func TestAWillIsPublishedUnlessItSaysGoodbye(t *testing.T) {
	s := mqtttest.Shared(t)
	for _, v := range versions {
		topic, c := mqtttest.Name(), s.Client(t)
		c.Subscribe(t, topic+"/#", 1)
		will := fmt.Sprintf(`, "version": %q, "will": {"topic": %q, "payload": "gone", "qos": 1}`, v, topic+"/will")
		o := writer(t, s.URL, topic+"/said", will)
		if failed, err := fates(t, opened(t, o), "1"); failed != nil || err != nil {
			t.Fatalf("failed: %q, %v", failed, err)
		}
		if err := o.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		o = opened(t, writer(t, s.URL, topic+"/said", will))
		if failed, err := fates(t, o, "2"); failed != nil || err != nil {
			t.Fatalf("failed: %q, %v", failed, err)
		}
		o.conn.Abort() // without a DISCONNECT
		var got []string
		for range 3 {
			got = append(got, string(c.Next(t).Payload))
		}
		if !slices.Equal(got, []string{"1", "2", "gone"}) {
			t.Errorf("version %s: %q came", v, got)
		}
	}
}

func TestTheNextServerOfAListIsTried(t *testing.T) {
	s := mqtttest.Shared(t)
	dead, err := daemon.Ports(1)
	if err != nil {
		t.Fatal(err)
	}
	o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"mqtt": {"url": ["mqtt://127.0.0.1:%s", %q], "topic": %q}}`, dead[0],
		s.URL, mqtttest.Name())).(*output)
	if failed, err := fates(t, opened(t, o), "1"); failed != nil || err != nil {
		t.Errorf("failed: %q, %v", failed, err)
	}
}

func TestAServerThatConfirmsNothing(t *testing.T) {
	f := mqtttest.StartFake(t, func(_ int, got *packets.ControlPacket) []packets.Packet {
		if got.Type == packets.PUBLISH {
			return nil
		}
		return mqtttest.Usual(got)
	})
	o := opened(t, writer(t, f.URL, "a", ""))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := o.Write(ctx, enginetest.Batch("1", "2"))
	if e := engine.ErrorOf(err, ""); e.Class != engine.Timeout || !strings.Contains(e.Error(), "did not confirm in time") {
		t.Errorf("got %s %v", e.Class, err)
	}
}

func TestPayloadsOfAllKinds(t *testing.T) {
	s := mqtttest.Shared(t)
	for _, v := range versions {
		for _, retain := range []string{"false", "true"} {
			topic, c := mqtttest.Name(), s.Client(t)
			c.Subscribe(t, topic, 1)
			o := writer(t, s.URL, topic, fmt.Sprintf(`, "version": %q, "retain": %s`, v, retain))
			enginetest.Carries(t, o, func(t *testing.T, n int) (all [][]byte) {
				for range n {
					all = append(all, append([]byte{}, c.Next(t).Payload...))
				}
				return all
			})
		}
	}
}

// An empty payload would delete the retained message.
func TestARetainedMessageIsRemovedOnlyByATombstone(t *testing.T) {
	s := mqtttest.Shared(t)
	topic := mqtttest.Name()
	o := opened(t, writer(t, s.URL, topic, `, "retain": true`))
	if failed, err := fates(t, o, "on", ""); len(failed) != 1 ||
		!strings.HasPrefix(failed[0], " rejected") || err != nil {
		t.Errorf("failed: %q, %v", failed, err)
	}
	b := enginetest.Batch("")
	for m := range b.All() {
		m.Meta = m.Meta.With("tombstone", true)
	}
	if err := o.Write(t.Context(), b); err != nil || enginetest.WriteFates(b, err)[0] != "safe" {
		t.Errorf("a tombstone: %v, %v", err, enginetest.WriteFates(b, err))
	}
}
