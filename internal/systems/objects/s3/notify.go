package s3

import (
	"context"
	"errors"
	"log/slog"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/aws"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

const (
	// mostNotices is how many bytes the notices of one receive have: ten of the largest, as S3 writes them.
	mostNotices = 16 << 20

	wait   = 20 * time.Second // of a receive
	hidden = 2 * time.Minute  // for which a notice is kept from others, before it is renewed
)

// notices are those in a queue of SQS.
type notices struct {
	queue  aws.Queue
	bucket string
	client *awssqs.Client
	url    string
	log    *slog.Logger
}

var _ objects.Notices = (*notices)(nil)

// Notices finds a queue, with the region and credentials of the store. It has an endpoint of
// its own; "" is that of its region.
func (c *Config) Notices(ctx context.Context, s *Store, queue, endpoint string,
	log *slog.Logger) (objects.Notices, error) {
	q, err := aws.ParseQueue(queue)
	if err != nil {
		return nil, engine.WithClass(engine.Permanent, err)
	}
	n := &notices{queue: q, bucket: c.Bucket, client: s.session.Queues(q.Region, endpoint), log: log}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	n.url, err = q.Find(ctx, n.client, s.session.Region())
	return n, err
}

// Receive waits for up to ten notices.
func (n *notices) Receive(ctx context.Context) (all []*objects.Notice, err error) {
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	out, err := n.client.ReceiveMessage(httpx.Most(ctx, mostNotices), &awssqs.ReceiveMessageInput{QueueUrl: &n.url, MaxNumberOfMessages: 10,
		WaitTimeSeconds: aws.Seconds(wait), VisibilityTimeout: aws.Seconds(hidden)})
	if err != nil {
		return nil, aws.Explain(err, n.queue.String())
	}
	for i := range out.Messages {
		w := &out.Messages[i]
		notice := parse([]byte(awssdk.ToString(w.Body)), n.bucket)
		notice.Handle = w.ReceiptHandle
		all = append(all, notice)
	}
	return all, nil
}

// Done deletes notices. One that another has by now is the other's.
func (n *notices) Done(ctx context.Context, all []*objects.Notice) error {
	return n.each(n.calls().Delete(ctx, n.client, n.url, n.queue.String(), len(all), func(i int) *string {
		return all[i].Handle.(*string)
	}), "these are read again: they were received by another")
}

// Renew hides notices for longer.
func (n *notices) Renew(ctx context.Context, all []*objects.Notice) (time.Duration, error) {
	return hidden / 4, n.hide(ctx, all, aws.Seconds(hidden))
}

// Release makes notices visible.
func (n *notices) Release(ctx context.Context, all []*objects.Notice) error {
	return n.hide(ctx, all, 0)
}

func (n *notices) hide(ctx context.Context, all []*objects.Notice, seconds int32) error {
	return n.each(n.calls().Hide(ctx, n.client, n.url, n.queue.String(), len(all), func(i int) (*string, int32) {
		return all[i].Handle.(*string), seconds
	}), "notices could not be kept from others, who may read their objects as well")
}

func (n *notices) calls() aws.Requests { return aws.Requests{Parallel: 4, Timeout: callTimeout} }

// each is the first error that is not about a notice that the queue does not know any more.
func (n *notices) each(errs []error, lost string) error {
	count := 0
	for _, err := range errs {
		var e *engine.Error
		switch {
		case err == nil:
		case errors.As(err, &e) && e.Class == engine.Rejected:
			count++
		default:
			return err
		}
	}
	if count > 0 {
		n.log.Warn(lost, "queue", n.queue.Name, "notices", count)
	}
	return nil
}
