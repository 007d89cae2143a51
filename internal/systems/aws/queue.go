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
	Account string // that owns it; "" is the caller's
	Region  string // that it is in; "" is not said
	URL     string // "" must be asked for
}

// inNames are the characters of names of queues and, with dots, of attributes.
const inNames = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

// only reports whether text has 1 to most characters, of these only.
func only(text, these string, most int) bool {
	return text != "" && len(text) <= most && strings.TrimLeft(text, these) == ""
}

// inHost finds the region in the name of a host.
var inHost = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:sqs\.([a-z0-9-]+)|([a-z0-9-]+)\.queue)\.amazonaws\.com(?:\.cn)?$`)
})

// ParseQueue reads a name, URL or ARN; the error says what is wrong with it.
func ParseQueue(text string) (q Queue, err error) {
	switch {
	case strings.HasPrefix(text, "arn:"):
		a, err := arn.Parse(text)
		if err != nil || a.Service != "sqs" || a.Region == "" || len(a.AccountID) != 12 ||
			!only(a.AccountID, "0123456789", 12) {
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
		if m := inHost().FindStringSubmatch(u.Hostname()); m != nil {
			q.Region = m[1] + m[2]
		}
	default:
		q = Queue{Name: text}
	}
	if strings.ContainsAny(q.Name, special) && q.Name != text {
		return q, fmt.Errorf("%q is a pattern in an ARN or URL (write only the pattern of the names, and `region`)",
			q.Name)
	}
	if len(q.Name) > 80 || !only(strings.TrimSuffix(q.Name, ".fifo"), inNames, 80) {
		return q,
			fmt.Errorf("%q is not a valid queue name (write up to 80 letters, digits, - and _; the name of a FIFO queue ends in .fifo)", q.Name)
	}
	return q, nil
}

// redact keeps a password in a URL out of messages.
func redact(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// FIFO reports whether the queue keeps the order of its groups: its name shows that.
func (q Queue) FIFO() bool { return strings.HasSuffix(q.Name, ".fifo") }

// String is what messages call it.
func (q Queue) String() string { return "queue " + q.Name }

// Check reports what is wrong with a queue's place, for CheckConfig.
func Check(queue string, c *Config, report func(path, message, remedy string)) (q Queue, ok bool) {
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

// Find asks for the queue's URL where it is not known.
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
