package aws

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
)

// LongestDelay is the longest time by which a queue can delay a message.
const LongestDelay = 15 * time.Minute

// Outgoing is a message on its way to a queue or topic.
type Outgoing struct {
	Body          string
	Attributes    []Attribute
	Group, Dedupe string // "" means none
	Delay         int32  // seconds
	Trace         string // AWSTraceHeader; "" means none
	Entry
}

// FIFO says whether a queue or topic keeps order, and what it needs for that.
type FIFO struct {
	On      bool // this is a FIFO queue or topic
	Content bool // content-based deduplication is enabled
}

// Prepare returns the outgoing message of m. Its Err says why it can't be sent. Its lanes are the order key and the group.
// most is the largest size in bytes.
func (f FIFO) Prepare(m *engine.Message, group, dedupe *expr.Expr, most int) (o Outgoing) {
	var size int
	o.Body, o.Err = Body(m)
	if o.Err == nil {
		o.Attributes, size, o.Err = Attributes(m)
	}
	o.Trace = traceHeader(m.Meta)
	if o.Size = len(o.Body) + size; o.Err == nil {
		o.Err = Fits(o.Size, most)
	}
	var err error
	if o.Group, err = ident("group_id", group, m); err == nil && f.On && o.Group == "" {
		err = engine.Errorf(engine.Rejected, "group_id is nil, but each message of a FIFO queue or topic needs a group")
	}
	o.Err = cmp.Or(o.Err, err)
	o.Dedupe, err = ident("dedupe_id", dedupe, m)
	o.Err = cmp.Or(o.Err, err)
	if f.On && o.Dedupe == "" && !f.Content {
		o.Dedupe = newID(m) // unless configured otherwise, two messages with the same content are no duplicates
	}
	if m.Key != nil {
		o.Lanes[0] = "key " + string(m.Key)
	}
	if f.On && o.Group != "" {
		o.Lanes[1] = "group " + o.Group
	}
	return o
}

// thisProcess is a random prefix of this process's ids.
var thisProcess = sync.OnceValue(rand.Text)

// newID returns a deduplication id that is the same in each attempt of a message. So a queue does not store a message twice
// that is sent again after a timeout.
func newID(m *engine.Message) string {
	if m.Serial() == 0 { // the message does not come from the engine
		return rand.Text()
	}
	return thisProcess() + "-" + strconv.FormatUint(uint64(m.Serial()), 10)
}

// ident evaluates a group or deduplication id; "" means none.
func ident(name string, e *expr.Expr, m *engine.Message) (string, error) {
	if e.IsZero() {
		return "", nil
	}
	v, err := e.Eval(m)
	if err != nil || v == nil {
		return "", err
	}
	text, err := e.AppendBody(nil, m)
	if err != nil {
		return "", err
	}
	if len(text) == 0 || len(text) > 128 {
		return "", engine.Errorf(engine.Rejected,
			"%s has %d characters, but may have only 1 to 128 (write hash(…) around it)", name, len(text))
	}
	for _, c := range text {
		if c <= ' ' || c > '~' {
			return "", engine.Errorf(engine.Rejected,
				"%s has the character %q, but may have only ASCII letters, digits and punctuation (write hash(…) around it)",
				name, c)
		}
	}
	return string(text), nil
}

// WithoutRetries is an option for calls that the engine retries.
func WithoutRetries(o *sqs.Options) { o.Retryer = aws.NopRetryer{} }

// Send sends messages to a queue, and returns their errors. what is the queue's name in errors.
func (r Requests) Send(ctx context.Context, client *sqs.Client, url, what string, all []Outgoing) []error {
	entries := make([]Entry, len(all))
	for i := range all {
		entries[i] = all[i].Entry
	}
	return r.Do(ctx, entries, func(ctx context.Context, which []int) ([]error, error) {
		in := &sqs.SendMessageBatchInput{QueueUrl: &url,
			Entries: make([]types.SendMessageBatchRequestEntry, len(which))}
		for n, i := range which {
			in.Entries[n] = all[i].entry(n)
		}
		out, err := client.SendMessageBatch(ctx, in, WithoutRetries)
		if err != nil {
			return nil, Explain(err, what)
		}
		return Failed(len(which), len(out.Successful), out.Failed, what), nil
	})
}

func (o *Outgoing) entry(n int) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{
		Id: aws.String(strconv.Itoa(n)), MessageBody: &o.Body, DelaySeconds: o.Delay,
		MessageGroupId: Optional(o.Group), MessageDeduplicationId: Optional(o.Dedupe),
	}
	if len(o.Attributes) > 0 {
		e.MessageAttributes = make(map[string]types.MessageAttributeValue, len(o.Attributes))
	}
	for i := range o.Attributes {
		a := &o.Attributes[i]
		e.MessageAttributes[a.Name] = types.MessageAttributeValue{DataType: &a.Type, BinaryValue: a.Binary,
			StringValue: Optional(a.Text)}
	}
	if o.Trace != "" {
		e.MessageSystemAttributes = map[string]types.MessageSystemAttributeValue{
			string(types.MessageSystemAttributeNameAWSTraceHeader): {DataType: aws.String("String"), StringValue: &o.Trace}}
	}
	return e
}

// Optional returns nil for "", and otherwise a pointer to s, as requests expect optional text.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Hide keeps n received messages invisible to other consumers for some time from now on, and returns their errors. handleOf
// returns the receipt handle of message i, and the seconds for which it is to be invisible.
func (r Requests) Hide(ctx context.Context, client *sqs.Client, url, what string, n int,
	handleOf func(i int) (handle *string, seconds int32),
) []error {
	return r.Do(ctx, make([]Entry, n), func(ctx context.Context, which []int) ([]error, error) {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url,
			Entries: make([]types.ChangeMessageVisibilityBatchRequestEntry, len(which))}
		for n, i := range which {
			e := &in.Entries[n]
			e.Id = aws.String(strconv.Itoa(n))
			e.ReceiptHandle, e.VisibilityTimeout = handleOf(i)
		}
		out, err := client.ChangeMessageVisibilityBatch(ctx, in)
		if err != nil {
			return nil, Explain(err, what)
		}
		return Failed(len(which), len(out.Successful), out.Failed, what), nil
	})
}

// Delete deletes n received messages from a queue, and returns their errors. handleOf returns the receipt handle of
// message i.
func (r Requests) Delete(ctx context.Context, client *sqs.Client, url, what string, n int,
	handleOf func(i int) (handle *string),
) []error {
	return r.Do(ctx, make([]Entry, n), func(ctx context.Context, which []int) ([]error, error) {
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &url,
			Entries: make([]types.DeleteMessageBatchRequestEntry, len(which))}
		for n, i := range which {
			in.Entries[n] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(n)), ReceiptHandle: handleOf(i)}
		}
		out, err := client.DeleteMessageBatch(ctx, in)
		if err != nil {
			return nil, Explain(err, what)
		}
		return Failed(len(which), len(out.Successful), out.Failed, what), nil
	})
}

// Failure is the error of one entry. The type of each other service has the same fields.
type Failure = types.BatchResultErrorEntry

// Failed returns the errors of the n entries of a batch call, or nil if all have succeeded. The ids of the entries must count
// from 0.
func Failed(n, succeeded int, failed []Failure, what string) []error {
	if len(failed) == 0 && succeeded == n {
		return nil
	}
	errs := make([]error, n)
	if succeeded+len(failed) != n {
		for i := range errs {
			errs[i] = engine.Errorf(engine.Transient, "%s: the answer does not cover all entries", what)
		}
	}
	for _, f := range failed {
		i, err := strconv.Atoi(aws.ToString(f.Id))
		if err != nil || i < 0 || i >= n {
			continue
		}
		fault := smithy.FaultServer
		if f.SenderFault {
			fault = smithy.FaultClient
		}
		errs[i] = Explain(&smithy.GenericAPIError{Code: aws.ToString(f.Code), Message: aws.ToString(f.Message), Fault: fault}, what)
	}
	return errs
}

// CheckFIFO reports a missing group_id of a FIFO queue or topic, and a dedupe_id of any other. kind is "queue" or "topic".
func CheckFIFO(fifo bool, kind string, group, dedupe *expr.Expr, report func(path, message, remedy string)) {
	switch {
	case fifo && group.IsZero():
		report("group_id", fmt.Sprintf("required: each message of a FIFO %s needs a group", kind),
			`write group_id: meta("message_group_id"), a field, or '"all"' for one group`)
	case !fifo && !dedupe.IsZero():
		report("dedupe_id", fmt.Sprintf("only a FIFO %s removes duplicates", kind),
			"remove it, or use one whose name ends in .fifo")
	}
}
