package aws

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// Queue is a queue as it is configured: by name, URL or ARN.
type Queue struct {
	Name    string
	Account string // of its owner; "" is the caller's account
	Region  string // "" is unknown
	URL     string // "" is unknown; see [Queue.Find]
}

// inNames are the characters that the name of a queue may have. An attribute's name may have dots, too.
const inNames = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// consistsOf reports whether text has 1 to most characters, all of them from allowed.
func consistsOf(text, allowed string, most int) bool {
	return text != "" && len(text) <= most && strings.TrimLeft(text, allowed) == ""
}

// regionInHost matches Amazon's hosts and finds the region in their names.
var regionInHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com(?:\.cn)?$`)
})

// ParseQueue parses a name, URL or ARN.
func ParseQueue(text string) (q Queue, err error) {
	switch {
	case strings.HasPrefix(text, "arn:"):
		a, err := arn.Parse(text)
		if err != nil || a.Service != "sqs" || a.Region == "" || len(a.AccountID) != 12 ||
			!consistsOf(a.AccountID, "0123456789", 12) {
			return q, fmt.Errorf("%q is not a queue ARN (write arn:aws:sqs:REGION:ACCOUNT:NAME)", text)
		}
		q = Queue{Name: a.Resource, Account: a.AccountID, Region: a.Region}
	case strings.Contains(text, "://"):
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
			u.RawQuery != "" || u.ForceQuery {
			return q, fmt.Errorf("%q is not a queue URL (write https://sqs.REGION.amazonaws.com/ACCOUNT/NAME)",
				redact(text))
		}
		q = Queue{Name: path.Base(u.Path), URL: text}
		if m := regionInHost().FindStringSubmatch(u.Hostname()); m != nil {
			q.Region = m[1] + m[2]
		}
	default:
		q = Queue{Name: text}
	}
	if strings.ContainsAny(q.Name, special) && q.Name != text {
		return q, fmt.Errorf("an ARN or URL can't contain a pattern such as %q (write only the pattern, and `region`)",
			q.Name)
	}
	if len(q.Name) > 80 || !consistsOf(strings.TrimSuffix(q.Name, ".fifo"), inNames, 80) {
		return q,
			fmt.Errorf("%q is not a valid queue name (write up to 80 letters, digits, - and _; the name of a FIFO queue ends in .fifo)", q.Name)
	}
	return q, nil
}

// redact removes the credentials from a URL that is shown.
func redact(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// FIFO reports whether this is a FIFO queue, which keeps the order within each group. Its name shows that.
func (q Queue) FIFO() bool { return strings.HasSuffix(q.Name, ".fifo") }

// String returns the queue as errors and logs show it.
func (q Queue) String() string { return "queue " + q.Name }

// CheckQueue parses the field `queue` of a configuration, for CheckConfig. ok is false if the queue is missing or not valid.
func CheckQueue(queue string, c *Config, report func(path, message, remedy string)) (q Queue, ok bool) {
	if queue == "" {
		return q, false
	}
	q, err := ParseQueue(queue)
	if err != nil {
		message, remedy, _ := strings.Cut(strings.TrimSuffix(err.Error(), ")"), " (")
		report("queue", message, remedy)
		return q, false
	}
	if c.Region != "" && q.Region != "" && c.Region != q.Region {
		report("region", fmt.Sprintf("is %s, but the queue is in %s", c.Region, q.Region),
			"remove `region`, or correct `queue`")
	}
	return q, true
}

// Find returns the queue's URL. It asks the service if the URL is unknown.
func (q Queue) Find(ctx context.Context, client *sqs.Client, region string) (address string, err error) {
	if q.URL != "" {
		return q.URL, nil
	}
	out, err := client.GetQueueUrl(ctx,
		&sqs.GetQueueUrlInput{QueueName: &q.Name, QueueOwnerAWSAccountId: Optional(q.Account)})
	if err != nil {
		return "", Explain(err, fmt.Sprintf("%s in %s", q, region))
	}
	return aws.ToString(out.QueueUrl), nil
}
