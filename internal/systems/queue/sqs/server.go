// Package sqs implements `flowd queue` for Amazon SQS, at sqs://REGION/ or sqs://?endpoint=URL&region=REGION&profile=NAME. Start at
// [open].
package sqs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/flowd-io/flowd/internal/systems/aws"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

func init() {
	queue.Register("sqs", func(ctx context.Context, u *url.URL) (queue.Server, error) { return open(ctx, u, nil) })
}

// callTimeout bounds one call.
const callTimeout = 20 * time.Second

// server is SQS in one region.
type server struct {
	session *aws.Session
	client  *sqs.Client
	sources map[string][]string // cache of sourcesOf, by dead-letter queue
}

var _ queue.Origin = (*server)(nil)

// open connects to an address. A client that is not nil makes the requests, for tests.
func open(ctx context.Context, u *url.URL, client *http.Client) (queue.Server, error) {
	if u.User != nil {
		return nil,
			errors.New("the address contains credentials (set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile)")
	}
	if p := strings.Trim(u.Path, "/"); p != "" {
		return nil, fmt.Errorf("the address has the path %q, but queues are named separately (write sqs://REGION/)", p)
	}
	q := u.Query()
	for name := range q {
		if !slices.Contains([]string{"region", "endpoint", "profile"}, name) {
			return nil, fmt.Errorf("the address has the unknown parameter %q (known are region, endpoint and profile)",
				name)
		}
	}
	c := aws.Config{Region: cmp.Or(u.Host, q.Get("region")), Endpoint: q.Get("endpoint"), Profile: q.Get("profile")}
	var wrong error
	c.CheckConfig(func(path, message, remedy string) { wrong = fmt.Errorf("%s %s (%s)", path, message, remedy) })
	if wrong != nil {
		return nil, wrong
	}
	session, err := c.Open(ctx, "", client)
	if err != nil {
		return nil, err
	}
	return &server{session, session.SQS(), map[string][]string{}}, nil
}

// List returns the queues whose names match. It gets the attributes of each of them.
func (s *server) List(ctx context.Context, pattern string) (all []queue.Info, err error) {
	pattern = cmp.Or(pattern, "*")
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is not a valid pattern: %w", pattern, err)
	}
	for address, err := range aws.Queues(ctx, s.client, pattern) {
		if err != nil {
			return nil, err
		}
		name := path.Base(address)
		info, err := s.info(ctx, name, address)
		if aws.Missing(err) { // the queue was deleted meanwhile
			continue
		}
		if err != nil {
			return nil, aws.Explain(err, "queue "+name)
		}
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b queue.Info) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func (s *server) info(ctx context.Context, name, address string) (queue.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := s.client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &address,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		return queue.Info{}, err
	}
	count := func(name types.QueueAttributeName) int64 {
		n, err := strconv.ParseInt(out.Attributes[string(name)], 10, 64)
		if err != nil {
			return -1
		}
		return n
	}
	i := queue.Info{
		Name: name, Kind: "standard",
		Ready:    count(types.QueueAttributeNameApproximateNumberOfMessages),
		InFlight: count(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible),
		Delayed:  count(types.QueueAttributeNameApproximateNumberOfMessagesDelayed),
	}
	if strings.HasSuffix(name, ".fifo") {
		i.Kind = "fifo"
	}
	var policy struct{ DeadLetterTargetArn string }
	if text := out.Attributes["RedrivePolicy"]; text != "" && json.Unmarshal([]byte(text), &policy) == nil {
		i.DeadLetters = policy.DeadLetterTargetArn[strings.LastIndex(policy.DeadLetterTargetArn, ":")+1:]
	}
	return i, nil
}

// foundQueue is a queue whose URL is known.
type foundQueue struct {
	aws.Queue
	client *sqs.Client
	url    string
}

func (s *server) find(ctx context.Context, name string) (q foundQueue, err error) {
	if q.Queue, err = aws.ParseQueue(name); err != nil {
		return q, err
	}
	q.client = s.client
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	q.url, err = q.Find(ctx, s.client, s.session.Region())
	return q, err
}

// Purge removes all messages. The service takes up to a minute for it.
func (s *server) Purge(ctx context.Context, name string) (int64, error) {
	q, err := s.find(ctx, name)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.client.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &q.url}); err != nil {
		return 0, aws.Explain(err, q.String())
	}
	return -1, nil
}

// Origin returns the queue in the attribute DeadLetterQueueSourceArn of a dead letter, or else the only queue whose dead letters go to
// dlq.
func (s *server) Origin(ctx context.Context, dlq string, m queue.Message) (string, error) {
	if source, ok := m.Meta["dead_letter_source"].(string); ok {
		return source[strings.LastIndex(source, ":")+1:], nil
	}
	names, err := s.sourcesOf(ctx, dlq)
	if err != nil {
		return "", err
	}
	switch len(names) {
	case 0:
		return "", fmt.Errorf("no queue sends its dead letters to %s (write --to QUEUE)", dlq)
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("%s gets the dead letters of several queues: %s (write --to QUEUE)", dlq,
		strings.Join(names, ", "))
}

// sourcesOf returns the queues whose dead letters go to dlq. It asks the service once for each dlq.
func (s *server) sourcesOf(ctx context.Context, dlq string) (names []string, err error) {
	if names, ok := s.sources[dlq]; ok {
		return names, nil
	}
	p, err := s.find(ctx, dlq)
	if err != nil {
		return nil, err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	out, err := s.client.ListDeadLetterSourceQueues(call, &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &p.url})
	if err == nil {
		for _, address := range out.QueueUrls {
			names = append(names, path.Base(address))
		}
	} else { // emulators do not support this call, and users may lack the permission
		all, listErr := s.List(ctx, "")
		if listErr != nil {
			return nil, aws.Explain(err, p.String())
		}
		for _, q := range all {
			if q.DeadLetters == p.Name {
				names = append(names, q.Name)
			}
		}
	}
	s.sources[dlq] = names
	return names, nil
}

// Close closes idle connections.
func (s *server) Close() error {
	s.session.Close()
	return nil
}
