package kafka

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Client is a client of a cluster.
type Client struct {
	*kgo.Client
	Link *Link
}

// Client returns a client that connects when it is used. It reads files of the configuration, such as certificates. name is the
// client id unless one is configured.
func (c *Connect) Client(log *slog.Logger, name string, more ...kgo.Opt) (*Client, error) {
	opts, link, err := c.options(log, name, more)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	return &Client{Client: client, Link: link}, nil
}

// WithOptions returns another client with the options of c and further ones. Both clients share the Link.
func (c *Client) WithOptions(more ...kgo.Opt) (*Client, error) {
	client, err := kgo.NewClient(append(slices.Clone(c.Opts()), more...)...)
	if err != nil {
		return nil, err
	}
	return &Client{Client: client, Link: c.Link}, nil
}

// options returns the options of every client, followed by more.
func (c *Connect) options(log *slog.Logger, name string, more []kgo.Opt) ([]kgo.Opt, *Link, error) {
	link := &Link{log: log}
	opts := append([]kgo.Opt{
		kgo.SeedBrokers(c.seeds()...), kgo.ClientID(cmp.Or(c.ClientID, name)), kgo.SoftwareNameAndVersion("flowd", "1"),
		kgo.DialTimeout(c.Timeout), kgo.RequestTimeoutOverhead(c.Timeout),
		kgo.WithLogger(logger{log}), kgo.WithHooks(link), kgo.DisableClientMetrics(),
		kgo.MaxDecompressBatchBytes(MostInBatch),
	}, more...)
	if c.TLS != nil {
		conf, err := c.TLS.Config()
		if err != nil {
			return nil, nil, engine.WithClass(engine.Permanent, err)
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if c.SASL != nil {
		m, err := c.mechanism()
		if err != nil {
			return nil, nil, engine.WithClass(engine.Permanent, err)
		}
		opts = append(opts, kgo.SASL(m))
	}
	return opts, link, nil
}

// MostInBatch limits the size of a decompressed batch of records, in bytes. A larger one is an attack or a mistake.
const MostInBatch = 128 << 20

// Reach makes a request, so that wrong addresses or credentials are an error at once.
func (c *Client) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := c.Ping(ctx)
	if err == nil {
		return nil
	}
	if down := c.Link.Down(); down != nil && errors.Is(err, context.DeadlineExceeded) {
		err = down // the cause of the timeout
	}
	return Explain(err, "reach a broker")
}

// reachTimeout is how long all brokers together may take to answer.
const reachTimeout = 15 * time.Second

// Link records whether brokers can be reached, as a hook of the client. Its methods may be called from any goroutine.
type Link struct {
	log *slog.Logger

	mu       sync.Mutex          // guards the fields below
	live     map[net.Conn]string // open connections, with the addresses of their brokers
	refused  map[string]bool     // addresses that have refused a connection and not answered since
	err      error               // of the last attempt to connect; nil: it was successful
	since    time.Time           // when attempts began to fail
	answered time.Time           // when a broker answered last, after since
}

// OnBrokerConnect records the result of an attempt to connect.
func (l *Link) OnBrokerConnect(broker kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		if l.live == nil {
			l.live = map[net.Conn]string{}
		}
		l.live[conn] = address(broker)
		clear(l.refused)
		if l.err != nil {
			l.log.Info("a broker is reached again", "broker", address(broker))
		}
		l.err, l.since, l.answered = nil, time.Time{}, time.Time{}
		return
	}
	if l.err == nil {
		l.since, l.answered = time.Now(), time.Now()
		l.log.Warn("a broker can't be reached", "broker", address(broker), "err", err)
	}
	l.err = err
	if errors.Is(err, syscall.ECONNREFUSED) {
		if l.refused == nil {
			l.refused = map[string]bool{}
		}
		l.refused[address(broker)] = true
	}
}

// OnBrokerRead records that a broker has answered.
func (l *Link) OnBrokerRead(broker kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		l.answered = time.Now()
		delete(l.refused, address(broker))
	}
}

// OnBrokerDisconnect records that a connection has ended. conn is nil if the login failed.
func (l *Link) OnBrokerDisconnect(_ kgo.BrokerMetadata, conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, conn)
}

// silenceLimit is how long the brokers of open connections may be silent while others can't be reached. Open connections may be
// dead, since the client notices that only when it uses them.
const silenceLimit = 10 * time.Second

// Down returns why no broker can be reached at present, or nil.
func (l *Link) Down() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down()
}

// down is Down. l.mu must be held.
func (l *Link) down() error {
	if time.Since(l.answered) < silenceLimit {
		for _, address := range l.live {
			if !l.refused[address] {
				return nil
			}
		}
	}
	return l.err
}

// Trouble returns the trouble that no broker can be reached, or nil.
func (l *Link) Trouble(impact string) *engine.Trouble {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.down()
	if err == nil {
		return nil
	}
	return &engine.Trouble{Indicator: "kafka_unreachable", Impact: impact,
		Cause:  "no broker can be reached: " + err.Error(),
		Action: "check that the brokers run, their addresses (advertised.listeners), and the credentials",
		Since:  l.since}
}

func address(broker kgo.BrokerMetadata) string {
	return net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
}

// logger writes the client's log lines to the debug log, since flowd itself logs what matters.
type logger struct{ log *slog.Logger }

// Level returns the level from which the client makes log lines. The client makes few lines if they are not logged.
func (l logger) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelError
}

// Log logs any line at level debug.
func (l logger) Log(_ kgo.LogLevel, msg string, keyvals ...any) {
	l.log.Debug("client: "+strings.TrimSuffix(msg, "."), keyvals...)
}
