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

// Client is a connection to a cluster.
type Client struct {
	*kgo.Client
	Link *Link
}

// Client makes a client, without any I/O but the reading of files; name is the client id where none is configured.
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

// Another is a client with the options of c, and more. Whether brokers can be reached is a matter of both.
func (c *Client) Another(more ...kgo.Opt) (*Client, error) {
	client, err := kgo.NewClient(append(slices.Clone(c.Opts()), more...)...)
	if err != nil {
		return nil, err
	}
	return &Client{Client: client, Link: c.Link}, nil
}

// options are those of every client, and more.
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

// MostInBatch is how many bytes a compressed batch of records may become: more is an attack, or a mistake.
const MostInBatch = 128 << 20

// Reach asks a broker for anything, so that an error says at once what is wrong with addresses or credentials.
func (c *Client) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reaching)
	defer cancel()
	err := c.Ping(ctx)
	if err == nil {
		return nil
	}
	if why := c.Link.Down(); why != nil && errors.Is(err, context.DeadlineExceeded) {
		err = why // that it takes long says less
	}
	return Explain(err, "reach a broker")
}

// reaching is how long all brokers together may take to answer.
const reaching = 15 * time.Second

// Link knows whether brokers can be reached.
type Link struct {
	log *slog.Logger

	mu       sync.Mutex          // guards the fields below
	live     map[net.Conn]string // addresses of brokers
	refused  map[string]bool     // addresses that refuse connections and have not answered since: nothing listens there
	err      error               // of the last attempt to connect, since the last that worked
	since    time.Time           // when the first of those failed
	answered time.Time           // when a broker answered last, since then
}

// OnBrokerConnect notes how an attempt to connect went.
func (l *Link) OnBrokerConnect(at kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		if l.live == nil {
			l.live = map[net.Conn]string{}
		}
		l.live[conn] = address(at)
		clear(l.refused)
		if l.err != nil {
			l.log.Info("a broker is reached again", "broker", address(at))
		}
		l.err, l.since, l.answered = nil, time.Time{}, time.Time{}
		return
	}
	if l.err == nil {
		l.since, l.answered = time.Now(), time.Now()
		l.log.Warn("a broker can't be reached", "broker", address(at), "err", err)
	}
	l.err = err
	if errors.Is(err, syscall.ECONNREFUSED) {
		if l.refused == nil {
			l.refused = map[string]bool{}
		}
		l.refused[address(at)] = true
	}
}

// OnBrokerRead notes that a broker has answered.
func (l *Link) OnBrokerRead(at kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		l.answered = time.Now()
		delete(l.refused, address(at))
	}
}

// OnBrokerDisconnect notes that a connection has ended. There may be none: one that could not log in.
func (l *Link) OnBrokerDisconnect(_ kgo.BrokerMetadata, conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, conn)
}

// silent is how long brokers whose connections seem to be open may say nothing while others can't be reached. The end
// of a connection is noticed only when it is used.
const silent = 10 * time.Second

// Down is why no broker can be reached now, or nil.
func (l *Link) Down() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down()
}

// down is Down; l.mu is held.
func (l *Link) down() error {
	if time.Since(l.answered) < silent {
		for _, address := range l.live {
			if !l.refused[address] {
				return nil
			}
		}
	}
	return l.err
}

// Trouble reports that no broker can be reached.
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

func address(at kgo.BrokerMetadata) string {
	return net.JoinHostPort(at.Host, strconv.Itoa(int(at.Port)))
}

// logger passes on what the client says. It gets only what flowd does not say in better words.
type logger struct{ log *slog.Logger }

// Level is what is worth making a line for.
func (l logger) Level() kgo.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelError
}

// Log logs everything for those who debug: what matters is reported elsewhere.
func (l logger) Log(_ kgo.LogLevel, msg string, keyvals ...any) {
	l.log.Debug("client: "+strings.TrimSuffix(msg, "."), keyvals...)
}
