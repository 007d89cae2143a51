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

// TestWhenNoBrokerCanBeReached tells an outage from one broker that is away, also where connections that seem to be
// open are not, and where one that can't log in ends without having begun.
func TestWhenNoBrokerCanBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Link{log: slog.New(slog.DiscardHandler)}
		at, refused := kgo.BrokerMetadata{Host: "kafka-1", Port: 9092}, errors.New("refused")
		one, two := net.Pipe()
		is := func(when string, want error) {
			t.Helper()
			if got := l.Down(); !errors.Is(got, want) || (l.Trouble("x") == nil) != (want == nil) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		is("before the first attempt", nil)
		l.OnBrokerConnect(at, 0, one, nil)
		l.OnBrokerConnect(at, 0, nil, refused)
		is("one broker of two is away", nil)
		for range 10 {
			time.Sleep(silent / 2)
			l.OnBrokerRead(at, 0, 1, 0, 0, nil)
			l.OnBrokerConnect(at, 0, nil, refused)
		}
		is("the other answers", nil)
		began := time.Now().Add(-5 * silent)
		l.OnBrokerRead(at, 0, 0, 0, 0, refused)
		time.Sleep(silent)
		is("the other says nothing any more", refused)
		if got := l.Trouble("x").Since; !got.Equal(began) {
			t.Errorf("since %v, want %v", got, began)
		}
		l.OnBrokerConnect(at, 0, two, nil)
		is("it is back", nil)
		l.OnBrokerDisconnect(at, one)
		l.OnBrokerDisconnect(at, two)
		is("what ends by itself is no trouble", nil)
		l.OnBrokerDisconnect(at, nil)
		l.OnBrokerConnect(at, 0, nil, refused)
		is("no login, no connection", refused)
		l.OnBrokerConnect(at, 0, one, nil)
		l.OnBrokerConnect(at, 0, nil, refused)
		is("one is open", nil)
		l.OnBrokerDisconnect(at, one)
		is("none is open", refused)
		other := kgo.BrokerMetadata{Host: "kafka-2", Port: 9092}
		l.OnBrokerConnect(at, 0, one, nil)
		l.OnBrokerConnect(other, 0, two, nil)
		l.OnBrokerConnect(at, 0, nil, syscall.ECONNREFUSED)
		is("a broker does not run, and another does", nil)
		l.OnBrokerConnect(other, 0, nil, syscall.ECONNREFUSED)
		is("none runs: the open connections are dead", syscall.ECONNREFUSED)
		l.OnBrokerRead(at, 0, 1, 0, 0, nil)
		is("one answers still", nil)
	})
}
