package kafka

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestWhenNoBrokerCanBeReached distinguishes an outage from a single broker that is down. Connections that are still open may be
// dead, and a failed login ends without a connection.
func TestWhenNoBrokerCanBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Link{log: slog.New(slog.DiscardHandler)}
		broker, refused := kgo.BrokerMetadata{Host: "kafka-1", Port: 9092}, errors.New("refused")
		one, two := net.Pipe()
		wantDown := func(when string, want error) {
			t.Helper()
			if got := l.Down(); !errors.Is(got, want) || (l.Trouble("x") == nil) != (want == nil) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		wantDown("before the first attempt", nil)
		l.OnBrokerConnect(broker, 0, one, nil)
		l.OnBrokerConnect(broker, 0, nil, refused)
		wantDown("one broker of two is down", nil)
		for range 10 {
			time.Sleep(silenceLimit / 2)
			l.OnBrokerRead(broker, 0, 1, 0, 0, nil)
			l.OnBrokerConnect(broker, 0, nil, refused)
		}
		wantDown("the other answers", nil)
		began := time.Now().Add(-5 * silenceLimit)
		l.OnBrokerRead(broker, 0, 0, 0, 0, refused)
		time.Sleep(silenceLimit)
		wantDown("the other is silent", refused)
		if got := l.Trouble("x").Since; !got.Equal(began) {
			t.Errorf("since %v, want %v", got, began)
		}
		l.OnBrokerConnect(broker, 0, two, nil)
		wantDown("it is back", nil)
		l.OnBrokerDisconnect(broker, one)
		l.OnBrokerDisconnect(broker, two)
		wantDown("connections that the broker has closed are no trouble", nil)
		l.OnBrokerDisconnect(broker, nil)
		l.OnBrokerConnect(broker, 0, nil, refused)
		wantDown("a failed login", refused)
		l.OnBrokerConnect(broker, 0, one, nil)
		l.OnBrokerConnect(broker, 0, nil, refused)
		wantDown("one is open", nil)
		l.OnBrokerDisconnect(broker, one)
		wantDown("none is open", refused)
		other := kgo.BrokerMetadata{Host: "kafka-2", Port: 9092}
		l.OnBrokerConnect(broker, 0, one, nil)
		l.OnBrokerConnect(other, 0, two, nil)
		l.OnBrokerConnect(broker, 0, nil, syscall.ECONNREFUSED)
		wantDown("one broker does not run, and the other does", nil)
		l.OnBrokerConnect(other, 0, nil, syscall.ECONNREFUSED)
		wantDown("none runs: the open connections are dead", syscall.ECONNREFUSED)
		l.OnBrokerRead(broker, 0, 1, 0, 0, nil)
		wantDown("one still answers", nil)
	})
}
