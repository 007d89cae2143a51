package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/mqtt"
	"github.com/flowd-io/flowd/internal/testing/mqtttest"
	"github.com/google/go-cmp/cmp"
)

var versions = []string{"5", "3.1.1"}

// reader returns an input.
func reader(t *testing.T, url, topics, id, more string) *input {
	t.Helper()
	return enginetest.New(t, engine.Inputs, fmt.Sprintf(`{"mqtt": {"url": %q, "topics": %q, "client_id": %q%s}}`,
		url, topics, id, more)).(*input)
}

// open opens an input. It is closed when the test ends.
func open(t *testing.T, in *input) *input {
	t.Helper()
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(context.Background()) })
	return in
}

func reopen(t *testing.T, in *input) {
	t.Helper()
	if err := in.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// got is a message as it was read.
type got struct {
	body  string
	meta  map[string]any
	ref   uint64
	acker engine.Acker
}

// read reads n messages.
func read(t *testing.T, in engine.Input, n int) (all []got) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), mqtttest.Patience)
	defer cancel()
	for len(all) < n {
		b := engine.NewBatch(n - len(all))
		acker, err := in.Read(ctx, b)
		if err != nil {
			t.Fatalf("%d of %d messages: %v", len(all), n, err)
		}
		for m := range b.All() {
			all = append(all, got{string(m.Bytes()), m.Meta.Map(), m.Ref, acker})
		}
	}
	return all
}

func bodies(all []got) (texts []string) {
	for _, g := range all {
		texts = append(texts, g.body)
	}
	return texts
}

// settle reports that messages were delivered.
func settle(t *testing.T, all ...got) {
	t.Helper()
	for _, g := range all {
		again, err := g.acker.Ack(t.Context(), []engine.Result{{Ref: g.ref, Fate: engine.Delivered}})
		if len(again) > 0 || err != nil {
			t.Errorf("ack: %v, %v again", err, again)
		}
	}
}

func numbered(n int) (all []string) {
	for i := range n {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

// atEach runs a test with each version and QoS.
func atEach(t *testing.T, test func(t *testing.T, topic string, qos byte, in func(more string) *input)) {
	s := mqtttest.Shared(t)
	for _, v := range versions {
		for qos := byte(1); qos <= 2; qos++ {
			t.Run(fmt.Sprintf("version %s QoS %d", v, qos), func(t *testing.T) {
				t.Parallel()
				topic, id := mqtttest.Name(), mqtttest.Name()
				test(t, topic, qos, func(more string) *input {
					return reader(t, s.URL, topic+"/#", id, fmt.Sprintf(`, "version": %q, "qos": %d%s`, v, qos, more))
				})
			})
		}
	}
}

func TestUnsettledMessagesAreRedelivered(t *testing.T) {
	atEach(t, func(t *testing.T, topic string, qos byte, make func(string) *input) {
		in := open(t, make(""))
		mqtttest.Shared(t).Client(t).Publish(t, topic+"/a", qos, numbered(5)...)
		all := read(t, in, 5)
		settle(t, all[3], all[1], all[0])
		reopen(t, in)
		if got := bodies(read(t, in, 3)); !slices.Equal(got, []string{"2", "3", "4"}) {
			t.Errorf("%q come again, want 2 and what follows: acknowledgements have an order", got)
		}
		mqtttest.Shared(t).Client(t).Publish(t, topic+"/a", qos, "5")
		again := read(t, in, 1)
		if again[0].body != "5" {
			t.Errorf("%q came twice on one connection", again[0].body)
		}
	})
}

func TestTheServerKeepsMessagesOfASession(t *testing.T) {
	atEach(t, func(t *testing.T, topic string, qos byte, make func(string) *input) {
		in := open(t, make(""))
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		mqtttest.Shared(t).Client(t).Publish(t, topic, qos, "while it was away")
		other := open(t, make("")) // as after a restart of flowd
		all := read(t, other, 1)
		if all[0].body != "while it was away" {
			t.Errorf("got %q", all[0].body)
		}
		settle(t, all...)
		if err := other.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		mqtttest.Shared(t).Client(t).Publish(t, topic, qos, "old")
		clean := open(t, make(`, "clean_start": true`))
		mqtttest.Shared(t).Client(t).Publish(t, topic, qos, "new")
		if all := read(t, clean, 1); all[0].body != "new" {
			t.Errorf("a clean start reads %q", all[0].body)
		}
		reopen(t, clean)
		if all := read(t, clean, 1); all[0].body != "new" {
			t.Errorf("a lost connection is a clean start: %q", all[0].body)
		}
	})
}

func TestAFilterThatWasRemovedIsReportedOnce(t *testing.T) {
	atEach(t, func(t *testing.T, topic string, qos byte, make func(string) *input) {
		if err := open(t, make("")).Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		in, log := make(""), &enginetest.Transcript{}
		in.cfg.Topics[0].Filter, in.log = topic+"/kept", slog.New(slog.NewTextHandler(log, nil))
		open(t, in)
		mqtttest.Shared(t).Client(t).Publish(t, topic+"/removed", qos, "1", "2")
		settle(t, read(t, in, 2)...)
		n := strings.Count(log.String(), "a filter that is not in topics any more")
		if n != 1 || !strings.Contains(log.String(), topic+"/removed") {
			t.Errorf("%d warnings:\n%s", n, log)
		}
	})
}

func TestPrefetchLimitsUnsettledMessages(t *testing.T) {
	atEach(t, func(t *testing.T, topic string, qos byte, make func(string) *input) {
		in := open(t, make(`, "prefetch": 3`))
		mqtttest.Shared(t).Client(t).Publish(t, topic, qos, numbered(10)...)
		first := read(t, in, 3)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b := engine.NewBatch(10)
		if _, err := in.Read(ctx, b); err == nil {
			t.Errorf("%d messages are read beyond prefetch", b.Len())
		}
		settle(t, first...)
		all := bodies(first)
		for len(all) < 10 {
			next := read(t, in, 1)
			all = append(all, bodies(next)...)
			settle(t, next...)
		}
		if !slices.Equal(all, numbered(10)) {
			t.Errorf("read %q", all)
		}
	})
}

func TestMetadata(t *testing.T) {
	s := mqtttest.Shared(t)
	expiry, text := uint32(3600), byte(1)
	sent := func(topic string) *paho.Publish {
		return &paho.Publish{Topic: topic + "/x", QoS: 1, Payload: []byte("p"), Properties: &paho.PublishProperties{
			ContentType: "text/plain", ResponseTopic: "answers", CorrelationData: []byte("c1"), MessageExpiry: &expiry,
			PayloadFormat: &text,
			User: paho.UserProperties{{Key: "k", Value: "v"}, {Key: "l", Value: "1"}, {Key: "l", Value: "2"},
				{Key: "qos", Value: "no"}}}}
	}
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			topic := mqtttest.Name()
			in := open(t, reader(t, s.URL, topic+"/#", mqtttest.Name(), fmt.Sprintf(`, "version": %q`, v)))
			s.Client(t).Send(t, sent(topic))
			want := map[string]any{"topic": topic + "/x", "qos": 1, "retained": false, "duplicate": false, "message_id": 1}
			if v == "5" {
				maps.Copy(want, map[string]any{"content_type": "text/plain", "response_topic": "answers",
					"correlation_data": "c1", "expiry": 3600, "payload_format": "text", "k": "v", "l": []any{"1", "2"},
					"property_qos": "no"})
			}
			got := read(t, in, 1)[0].meta
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetained(t *testing.T) {
	s := mqtttest.Shared(t)
	tests := []struct {
		retained string
		first    []string // what is read when the subscription is new
		then     []string // and after a lost connection
	}{
		{"new", []string{"kept", "live"}, []string{"later"}},
		{"always", []string{"kept", "live"}, []string{"kept", "later"}},
		{"never", []string{"live"}, []string{"later"}},
	}
	for _, v := range versions {
		for _, tt := range tests {
			t.Run(v+" "+tt.retained, func(t *testing.T) {
				t.Parallel()
				topic, c := mqtttest.Name(), s.Client(t)
				c.Send(t, &paho.Publish{Topic: topic + "/kept", QoS: 1, Retain: true, Payload: []byte("kept")})
				in := open(t, reader(t, s.URL, topic+"/#", mqtttest.Name(),
					fmt.Sprintf(`, "version": %q, "prefetch": %d, "retained": %q`, v, len(tt.first), tt.retained)))
				c.Publish(t, topic+"/live", 1, "live")
				all := read(t, in, len(tt.first))
				if got := bodies(all); !slices.Equal(got, tt.first) {
					t.Errorf("read %q, want %q", got, tt.first)
				}
				settle(t, all...)
				reopen(t, in)
				c.Publish(t, topic+"/live", 1, "later")
				if got := bodies(read(t, in, len(tt.then))); !slices.Equal(got, tt.then) {
					t.Errorf("read %q, want %q", got, tt.then)
				}
				c.Send(t, &paho.Publish{Topic: topic + "/kept", QoS: 1, Retain: true})
			})
		}
	}
}

func TestLargeMessages(t *testing.T) {
	atEach(t, func(t *testing.T, topic string, qos byte, make func(string) *input) {
		in := open(t, make(""))
		want := []string{strings.Repeat("x", 5<<20), "", "small", strings.Repeat("y", 64<<10)}
		mqtttest.Shared(t).Client(t).Publish(t, topic, qos, want...)
		if got := bodies(read(t, in, len(want))); !slices.Equal(got, want) {
			t.Errorf("%d messages differ from what was sent", len(got))
		}
	})
}

func TestSharedSubscriptions(t *testing.T) {
	s := mqtttest.Shared(t)
	topic := mqtttest.Name()
	a := open(t, reader(t, s.URL, topic, mqtttest.Name(), `, "share": "g"`))
	b := open(t, reader(t, s.URL, "$share/g/"+topic, mqtttest.Name(), `, "version": "3.1.1"`))
	s.Client(t).Publish(t, topic, 1, numbered(10)...)
	all := append(bodies(read(t, a, 5)), bodies(read(t, b, 5))...)
	slices.Sort(all)
	if !slices.Equal(all, numbered(10)) {
		t.Errorf("read %q", all)
	}
}

func TestInstancesShareOrAreRefused(t *testing.T) {
	env := enginetest.Env()
	env.Instances, env.Index = 2, 1
	c := Config{Connect: mqtt.Connect{ClientID: "c"}, Topics: Topics{{"a", unset}}}
	if _, err := newInput(c, env); err == nil {
		t.Error("two instances may read all messages each")
	}
	c.Share = "g"
	in, err := newInput(c, env)
	if err != nil || in.(*input).clientID != "c-1" {
		t.Errorf("the second instance has client id %q, %v", in.(*input).clientID, err)
	}
}

func TestAClientIDThatIsTakenOver(t *testing.T) {
	tells := mqtttest.StartFake(t, func(_ int, got *packets.ControlPacket) []packets.Packet {
		if got.Type == packets.SUBSCRIBE {
			return append(mqtttest.Usual(got), &packets.Disconnect{ReasonCode: 0x8E, Properties: &packets.Properties{}},
				mqtttest.Hangup{})
		}
		return mqtttest.Usual(got)
	})
	hangsUp := mqtttest.StartFake(t, func(_ int, got *packets.ControlPacket) []packets.Packet {
		if got.Type == packets.SUBSCRIBE {
			return append(mqtttest.Usual(got), mqtttest.Hangup{})
		}
		return mqtttest.Usual(got)
	})
	for _, tt := range []struct {
		url   string
		times int // that it is lost before it waits
		want  string
	}{
		{tells.URL, 1, "another client has connected with the same client_id"},
		{hangsUp.URL, 4, "closed the connection without a reason"},
	} {
		in := reader(t, tt.url, "a", "c", "")
		for range tt.times {
			open(t, in)
			_, err := in.Read(t.Context(), engine.NewBatch(1))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q, and not the end of the input", err, tt.want)
			}
			in.Close(t.Context())
		}
		ended, end := context.WithCancel(t.Context())
		end()
		err := in.Open(ended)
		if _, connected := in.Connected(); !errors.Is(err, context.Canceled) || connected {
			t.Errorf("it connects again at once: %v", err)
		}
	}
}

func TestASubscriptionThatIsRefused(t *testing.T) {
	f := mqtttest.StartFake(t, func(_ int, got *packets.ControlPacket) []packets.Packet {
		if p, is := got.Content.(*packets.Subscribe); is {
			return []packets.Packet{&packets.Suback{PacketID: p.PacketID, Reasons: []byte{0x87},
				Properties: &packets.Properties{}}}
		}
		return mqtttest.Usual(got)
	})
	err := reader(t, f.URL, "secret/#", "c", "").Open(t.Context())
	e := engine.ErrorOf(err, engine.Transient)
	if e.Class != engine.Auth || !strings.Contains(e.Error(), "subscribe to secret/#") ||
		!strings.Contains(e.Error(), "permit") {
		t.Errorf("got %s %v", e.Class, err)
	}
}

// The session's messages arrive before the answer to SUBSCRIBE.
func TestMoreMessagesThanThereIsRoomForArriveBeforeTheAnswer(t *testing.T) {
	const kept = 7
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("refused %v", refused), func(t *testing.T) {
			f := mqtttest.StartFake(t, func(_ int, got *packets.ControlPacket) (all []packets.Packet) {
				switch p := got.Content.(type) {
				case *packets.Connect:
					return []packets.Packet{&packets.Connack{SessionPresent: true, Properties: &packets.Properties{}}}
				case *packets.Subscribe:
					for i := range kept {
						all = append(all, &packets.Publish{Topic: "a", PacketID: uint16(i + 1), QoS: 1, Properties: &packets.Properties{},
							Payload: []byte(strconv.Itoa(i))})
					}
					if refused {
						return append(all, &packets.Suback{PacketID: p.PacketID, Reasons: []byte{0x87},
							Properties: &packets.Properties{}})
					}
					return append(append(all, mqtttest.Usual(got)...), &packets.Publish{Topic: "a", PacketID: kept + 1, QoS: 1,
						Properties: &packets.Properties{}, Payload: []byte(strconv.Itoa(kept))})
				}
				return mqtttest.Usual(got)
			})
			in := open(t, reader(t, f.URL, "a", "c", `, "prefetch": 2`))
			if !refused {
				for i := range kept + 1 {
					one := read(t, in, 1)
					if one[0].body != strconv.Itoa(i) {
						t.Fatalf("read %q, want %d", one[0].body, i)
					}
					settle(t, one...)
				}
				return
			}
			var err error
			for err == nil {
				b := engine.NewBatch(1)
				var acker engine.Acker
				acker, err = in.Read(t.Context(), b)
				for m := range b.All() {
					settle(t, got{ref: m.Ref, acker: acker})
				}
			}
			if e := engine.ErrorOf(err, engine.Transient); e.Class != engine.Auth || !strings.Contains(e.Error(), "permit") {
				t.Errorf("got %s %v, want that the subscription is refused", e.Class, err)
			}
		})
	}
}

func TestADuplicateOfQoS2IsAcknowledgedOnly(t *testing.T) {
	acks := make(chan byte, 10)
	message := func(id uint16, dup bool) packets.Packet {
		return &packets.Publish{Topic: "a", PacketID: id, QoS: 2, Duplicate: dup, Payload: []byte(strconv.Itoa(int(id))),
			Properties: &packets.Properties{}}
	}
	f := mqtttest.StartFake(t, func(n int, got *packets.ControlPacket) []packets.Packet {
		switch got.Type {
		case packets.CONNECT:
			all := []packets.Packet{&packets.Connack{SessionPresent: n > 1, Properties: &packets.Properties{}}}
			if n == 2 { // it has not seen the PUBREC
				all = append(all, message(1, true), message(2, false))
			}
			return all
		case packets.SUBSCRIBE:
			return append(mqtttest.Usual(got), message(1, false))
		case packets.PUBREC:
			acks <- byte(got.PacketID())
			if n == 1 {
				return []packets.Packet{mqtttest.Hangup{}}
			}
			return []packets.Packet{&packets.Pubrel{PacketID: got.PacketID(), Properties: &packets.Properties{}}}
		case packets.PUBCOMP:
			acks <- 100 + byte(got.PacketID())
		}
		return mqtttest.Usual(got)
	})
	in := open(t, reader(t, f.URL, "a", "c", `, "qos": 2`))
	settle(t, read(t, in, 1)...)
	if _, err := in.Read(t.Context(), engine.NewBatch(1)); err == nil {
		t.Error("the connection is not lost")
	}
	reopen(t, in)
	all := read(t, in, 1)
	if all[0].body != "2" {
		t.Errorf("read %q, which was settled", all[0].body)
	}
	settle(t, all...)
	var seen []byte
	for range 5 {
		seen = append(seen, <-acks)
	}
	if !slices.Equal(slices.Sorted(slices.Values(seen)), []byte{1, 1, 2, 101, 102}) {
		t.Errorf("acknowledged %v", seen)
	}
}

// finite is an input that ends.
type finite struct {
	*input
	left int
}

func (f *finite) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if f.left == 0 {
		return nil, engine.ErrEnd
	}
	a, err := f.input.Read(ctx, b)
	f.left -= b.Len()
	return a, err
}

func TestInputConforms(t *testing.T) {
	s := mqtttest.Shared(t)
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			enginetest.Input(t, func(t *testing.T) engine.Input {
				topic, id := mqtttest.Name(), mqtttest.Name()
				in := reader(t, s.URL, topic, id, fmt.Sprintf(`, "version": %q`, v))
				open(t, in) // makes the session
				if err := in.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				c := s.Client(t)
				c.Publish(t, topic, 1, enginetest.Awkward()...)
				c.Leave()
				return &finite{reader(t, s.URL, topic, id, fmt.Sprintf(`, "version": %q`, v)), len(enginetest.Awkward())}
			}, enginetest.Awkward()...)
		})
	}
}

func TestConnectionsThatBreak(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			t.Parallel()
			s := mqtttest.Shared(t)
			topic := ""
			var sendHeaders func(t *testing.T, payload string, headers map[string]string)
			if v != "3.1.1" { // which has no user properties
				sendHeaders = func(t *testing.T, payload string, headers map[string]string) {
					p := &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(payload), Properties: &paho.PublishProperties{}}
					for name, value := range headers {
						p.Properties.User.Add(name, value)
					}
					c := s.Client(t)
					c.Send(t, p)
					c.Leave()
				}
			}
			enginetest.RemoteInput{
				Reach: func(t *testing.T, wire *enginetest.Wire) string {
					topic = mqtttest.Name()
					return fmt.Sprintf(`{"mqtt": {"url": %q, "topics": %q, "client_id": %q, "version": %q, "timeout": "1s"}}`,
						wire.Over(s.URL), topic, mqtttest.Name(), v)
				},
				Send: func(t *testing.T, payloads ...string) {
					c := s.Client(t)
					c.Publish(t, topic, 1, payloads...)
					c.Leave()
				},
				SendHeaders: sendHeaders,
				Answers:     5,
			}.Run(t)
		})
	}
}
