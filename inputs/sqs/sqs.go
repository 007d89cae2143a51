// Package sqs reads queues of Amazon SQS. Start at [input]. lease.go renews leases, and ends them.
package sqs

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/source"
	"github.com/flowd-io/flowd/internal/systems/attempts"
	"github.com/flowd-io/flowd/internal/systems/aws"
	_ "github.com/flowd-io/flowd/internal/systems/queue/sqs" // sqs:// of flowd queue
)

// Config configures the input.
type Config struct {
	Queue      string `yaml:"queue,main" check:"required,nonempty" doc:"Queue, by name, URL or ARN; in a poll input also a pattern of names, such as orders-*."`
	aws.Config `yaml:",inline"`
	Wait       time.Duration `yaml:"wait" check:"min=0s,max=20s" doc:"How long a receive waits for messages (long polling)."`
	Max        int           `yaml:"max" check:"min=1,max=10" doc:"Maximum number of messages in one receive."`
	Visibility time.Duration `yaml:"visibility" check:"min=1s,max=12h" doc:"How long a message is hidden from others before its lease is renewed or it is redelivered; by default as the queue specifies."`
	Lease      Lease         `yaml:"lease" doc:"How leases (the time for which messages are hidden) are renewed."`
	Delete     bool          `yaml:"delete" doc:"Delete settled messages. With false, they are redelivered until something else deletes them."`
}

// Lease says how long messages stay hidden from others.
type Lease struct {
	Renew bool          `yaml:"renew" doc:"Extend the visibility timeout while a message is in flight."`
	Max   time.Duration `yaml:"max" check:"min=1s,max=12h" doc:"Longest time that a message is hidden in total. After that, the message is given up and redelivered."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	if !aws.IsPattern(c.Queue) {
		aws.CheckQueue(c.Queue, &c.Config, report)
	} else if message, remedy := aws.CheckPattern(c.Queue); message != "" {
		report("queue", message, remedy)
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"wait", c.Wait}, {"visibility", c.Visibility}, {"lease.max", c.Lease.Max}} {
		if f.d%time.Second != 0 {
			report(f.name, "has a fraction of a second", "write whole seconds: SQS counts in seconds")
		}
	}
	if c.Lease.Renew && c.Visibility > c.Lease.Max {
		report("lease.max", "is less than visibility: nothing would be renewed",
			"raise it, or write `lease: {renew: false}`")
	}
	c.Config.CheckConfig(report)
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string { return aws.Words() }

const about = `
Reads an Amazon SQS queue.

Messages that were delivered, filtered or dead-lettered are deleted. A returned message
becomes visible again: at once when the pipeline stops, after the interval of a retry,
otherwise after 1s, 2s, 4s and so on, according to its receive count, so that the
queue's own redrive policy can end it. Retries that wait longer than 10s are left to the
queue, up to 12h; the attempt is the receive count plus the attempts made without a new
receive.

In a FIFO queue, with order_by: meta("message_group_id"), when a message is returned,
the messages after it in its group are also returned, so that it is first again.

Leases are renewed while messages are in flight. If a lease is lost, its message stops
before the next step or write. With concurrency, several instances receive at once.

In a poll input, queue may be a pattern, with * for any text, ? for one character and
[a-z] for one of these: all matching queues of the region are read. It must not match
the queues to which the pipeline sends messages that it could not process.

Metadata: queue, message_id, receive_count, sent_at, first_received_at, sender_id;
message_group_id, dedupe_id and sequence_number of a FIFO queue; dead_letter_source;
trace_header (AWSTraceHeader); and the message attributes by name: a Number as a number, a
Binary as the text of its bytes. An attribute with one of the names above becomes
attribute_NAME. If there is no attribute traceparent, one is made from trace_header.

    inputs:
      orders: {sqs: {queue: orders, region: eu-central-1}}
`

func init() {
	engine.Register(engine.Inputs, "sqs", about, Config{
		Wait: 20 * time.Second, Max: 10, Delete: true, Lease: Lease{Renew: true, Max: longest},
	}, newInput)
}

// longest is how long SQS can hide a message in total, counted from the receive.
const longest = 12 * time.Hour

// callTimeout is the deadline of a call that does not wait for messages.
const callTimeout = 10 * time.Second

type input struct {
	*source.Session[*conn]
	cfg   Config
	queue aws.Queue
	log   *slog.Logger
	tries *attempts.Book
	http  *http.Client // carries the requests in tests; nil: the network

	owner engine.Meta // that all messages have

	most     int           // messages that a receive asks for; used by Read
	empty    time.Time     // when the last receive ended, if it found nothing and did not wait; used by Read
	changing chan struct{} // a lock with a deadline, for renewing leases and recording ends

	mu     sync.Mutex // guards the fields below
	next   uint64
	held   map[uint64]*lease    // messages that were read and not settled, by Ref
	hidden map[string]time.Time // groups with a returned message, and until when that is hidden
	poll   *poll                // the last one; nil: there was none
	gave   bool                 // messages were handed back since Stop
}

// conn is one connection of the input.
type conn struct {
	in         *input
	session    *aws.Session
	client     *awssqs.Client
	url        string
	visibility time.Duration
}

var (
	_ engine.Traited = (*input)(nil)
	_ engine.Acker   = (*input)(nil)
	_ engine.Leaser  = (*input)(nil)
)

func newInput(c Config, env engine.Env) (engine.Input, error) {
	if aws.IsPattern(c.Queue) {
		return &pattern{cfg: c, env: env}, nil
	}
	q, err := aws.ParseQueue(c.Queue)
	if err != nil {
		return nil, err
	}
	in := &input{cfg: c, most: c.Max, queue: q, log: env.Log, tries: attempts.ForInput(env), held: map[uint64]*lease{},
		hidden: map[string]time.Time{}, changing: make(chan struct{}, 1), owner: engine.Meta{}.With("queue", q.Name)}
	in.Session = source.NewSession(in.connect)
	return in, nil
}

// Traits returns what the queue supports.
func (in *input) Traits() engine.Traits { return traitsOf(in.queue.Name) }

// traitsOf says that each message is deleted, or made visible, individually. A FIFO queue keeps the order of a group, and withholds
// its messages while one is in flight.
func traitsOf(queue string) engine.Traits {
	t := engine.Traits{TakesBack: engine.TakesOne, Delays: longest}
	if (aws.Queue{Name: queue}).FIFO() {
		t.OrderBy, t.Withholds = `meta("message_group_id")`, true
	}
	return t
}

// connect finds the queue, and how long the queue hides messages.
func (in *input) connect(ctx context.Context) (*conn, error) {
	session, err := in.cfg.Open(ctx, in.queue.Region, in.http)
	if err != nil {
		return nil, err
	}
	c := &conn{in: in, session: session, client: session.SQS()}
	if c.url, err = in.queue.Find(ctx, c.client, session.Region()); err == nil {
		c.visibility, err = in.visibilityOf(ctx, c)
	}
	if err != nil {
		session.Close()
		return nil, err
	}
	in.mu.Lock()
	in.gave = false
	in.mu.Unlock()
	return c, nil
}

// Close closes the connection. The last one makes messages visible that were read and not settled.
func (c *conn) Close(ctx context.Context, last bool) error {
	defer c.session.Close()
	defer c.in.endPoll(ctx)
	if !last {
		return nil
	}
	return c.in.releaseAll(ctx, c)
}
