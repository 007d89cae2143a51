// Package sns publishes messages to topics of Amazon SNS, ten to a request. Start at
// [output.Write]; how requests are packed is in internal/systems/aws.
package sns

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/internal/systems/aws"
)

// Config configures the output.
type Config struct {
	Topic      string `yaml:"topic,main" check:"required,nonempty" doc:"ARN of the topic."`
	aws.Config `yaml:",inline"`
	Subject    expr.Template `yaml:"subject" doc:"Subject, for email subscribers."`
	GroupID    expr.Expr     `yaml:"group_id" doc:"Group of the message; required for a FIFO topic, which keeps the order of each group."`
	DedupeID   expr.Expr     `yaml:"dedupe_id" doc:"Id for deduplication in a FIFO topic: of messages with the same id within 5 minutes, only the first is accepted. Without it, each message has its own id, the same at every attempt, unless the topic deduplicates by content."`
	Parallel   int           `yaml:"parallel" check:"min=1" doc:"Requests of one write that may be in flight at once."`
}

// CheckConfig reports what can't work.
func (c *Config) CheckConfig(report func(path, message, remedy string)) {
	c.Config.CheckConfig(report)
	if c.Topic == "" {
		return
	}
	a, err := arn.Parse(c.Topic)
	if err != nil || a.Service != "sns" || a.Region == "" || a.Resource == "" || strings.Contains(a.Resource, ":") {
		report("topic", "is not a topic ARN", "write arn:aws:sns:REGION:ACCOUNT:NAME")
		return
	}
	if c.Region != "" && c.Region != a.Region {
		report("region", "is "+c.Region+", but the topic is in "+a.Region, "remove `region`, or correct `topic`")
	}
	aws.CheckFIFO(strings.HasSuffix(a.Resource, ".fifo"), "topic", &c.GroupID, &c.DedupeID, report)
}

// Words returns what users of other systems may write, and what to write instead.
func (*Config) Words() map[string]string { return aws.Words() }

const about = `
Publishes messages to an Amazon SNS topic.

A request holds up to ten messages and 256KiB; messages that the topic fails are retried
alone. The payload is the message, which must be text; metadata other than the input's
own is sent as message attributes, as with sqs. Messages of one group in a FIFO topic
never overtake each other.

    outputs:
      events: {sns: "arn:aws:sns:eu-central-1:123456789012:events"}
`

func init() {
	engine.Register(engine.Outputs, "sns", about, Config{Parallel: 8}, newOutput)
}

type output struct {
	cfg   Config
	arn   arn.ARN
	http  *http.Client // carries the requests in tests; nil: the network
	calls aws.Requests

	session *aws.Session
	client  *awssns.Client
	fifo    aws.FIFO
}

var (
	_ engine.Opener  = (*output)(nil)
	_ engine.Closer  = (*output)(nil)
	_ engine.Traited = (*output)(nil)
)

func newOutput(c Config, _ engine.Env) (engine.Output, error) {
	a, err := arn.Parse(c.Topic)
	if err != nil {
		return nil, err
	}
	return &output{cfg: c, arn: a, fifo: aws.FIFO{On: strings.HasSuffix(a.Resource, ".fifo")},
		calls: aws.Requests{Bytes: aws.MaxNotification, Parallel: c.Parallel}}, nil
}

// Traits says that no message after a failed one is published, and that a FIFO topic
// keeps the order of its groups.
func (o *output) Traits() engine.Traits {
	t := engine.Traits{Sequential: true}
	if o.fifo.On {
		t.OrderBy = o.cfg.GroupID.String()
	}
	return t
}

// Open checks that the topic exists.
func (o *output) Open(ctx context.Context) (err error) {
	if o.session, err = o.cfg.Open(ctx, o.arn.Region, o.http); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			o.session.Close()
		}
	}()
	o.client = awssns.NewFromConfig(o.session.Config(), func(to *awssns.Options) {
		to.BaseEndpoint = cmp.Or(o.session.Endpoint(), to.BaseEndpoint)
	})
	out, err := o.client.GetTopicAttributes(ctx, &awssns.GetTopicAttributesInput{TopicArn: &o.cfg.Topic})
	switch {
	case aws.Denied(err): // it may still be published to
		return nil
	case err != nil:
		return aws.Explain(err, o.what())
	}
	o.fifo.Content = out.Attributes["ContentBasedDeduplication"] == "true"
	return nil
}

func (o *output) what() string { return "topic " + o.arn.Resource }

// Close closes idle connections.
func (o *output) Close(context.Context) error {
	o.session.Close()
	return nil
}

// Write publishes the batch, in as few requests as possible.
func (o *output) Write(ctx context.Context, b *engine.Batch) error {
	var msgs []*engine.Message
	var out []aws.Outgoing
	var entries []aws.Entry
	var subjects []string
	for m := range b.All() {
		x := o.fifo.Prepare(m, &o.cfg.GroupID, &o.cfg.DedupeID, aws.MaxNotification)
		subject, err := o.subject(m)
		if x.Err == nil {
			x.Err = err
		}
		msgs, out, entries, subjects = append(msgs, m), append(out, x), append(entries, x.Entry),
			append(subjects, subject)
	}
	errs := o.calls.Do(ctx, entries, func(ctx context.Context, which []int) ([]error, error) {
		in := &awssns.PublishBatchInput{TopicArn: &o.cfg.Topic}
		for n, i := range which {
			in.PublishBatchRequestEntries = append(in.PublishBatchRequestEntries, entry(n, &out[i], subjects[i]))
		}
		return o.publish(ctx, in)
	})
	for i, err := range errs {
		if err != nil {
			msgs[i].Fail(err)
		}
	}
	return nil
}

func (o *output) publish(ctx context.Context, in *awssns.PublishBatchInput) ([]error, error) {
	res, err := o.client.PublishBatch(ctx, in, func(o *awssns.Options) { o.Retryer = awssdk.NopRetryer{} })
	if err != nil {
		return nil, aws.Explain(err, o.what())
	}
	failed := make([]aws.Failure, len(res.Failed))
	for i, f := range res.Failed {
		failed[i] = aws.Failure{Id: f.Id, Code: f.Code, Message: f.Message, SenderFault: f.SenderFault}
	}
	return aws.Failed(len(in.PublishBatchRequestEntries), len(res.Successful), failed, o.what()), nil
}

// subject returns the subject of a mail: one line of up to 99 ASCII characters.
func (o *output) subject(m *engine.Message) (string, error) {
	if o.cfg.Subject.IsZero() {
		return "", nil
	}
	text, err := o.cfg.Subject.Text(m)
	if err != nil {
		return "", err
	}
	if text == "" || len(text) >= 100 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", engine.Errorf(engine.Rejected,
			"subject %.120q is not valid: it may have up to 99 ASCII characters in one line", text)
	}
	return text, nil
}

func entry(n int, x *aws.Outgoing, subject string) types.PublishBatchRequestEntry {
	e := types.PublishBatchRequestEntry{
		Id: awssdk.String(strconv.Itoa(n)), Message: &x.Body, Subject: aws.Optional(subject),
		MessageGroupId: aws.Optional(x.Group), MessageDeduplicationId: aws.Optional(x.Dedupe),
	}
	if len(x.Attributes) > 0 {
		e.MessageAttributes = make(map[string]types.MessageAttributeValue, len(x.Attributes))
	}
	for i := range x.Attributes {
		a := &x.Attributes[i]
		e.MessageAttributes[a.Name] = types.MessageAttributeValue{DataType: &a.Type, BinaryValue: a.Binary,
			StringValue: aws.Optional(a.Text)}
	}
	return e
}
