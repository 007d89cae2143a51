package fakesqs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// request has the fields of all operations and of their entries.
type request struct {
	ID                     string               `json:"Id,omitempty"`
	QueueURL               string               `json:"QueueUrl,omitempty"`
	QueueName              string               `json:",omitempty"`
	QueueNamePrefix        string               `json:",omitempty"`
	MessageBody            string               `json:",omitempty"`
	MessageAttributes      map[string]Attribute `json:",omitempty"`
	SystemAttributes       map[string]Attribute `json:"MessageSystemAttributes,omitempty"`
	MessageGroupID         string               `json:"MessageGroupId,omitempty"`
	MessageDeduplicationID string               `json:"MessageDeduplicationId,omitempty"`
	ReceiptHandle          string               `json:",omitempty"`
	DelaySeconds           *int                 `json:",omitempty"`
	VisibilityTimeout      *int                 `json:",omitempty"`
	WaitTimeSeconds        int                  `json:",omitempty"`
	MaxNumberOfMessages    int                  `json:",omitempty"`
	MaxResults             int                  `json:",omitempty"`
	NextToken              string               `json:",omitempty"`
	Entries                []request            `json:",omitempty"`
}

// Attribute is a message attribute.
type Attribute struct {
	DataType    string
	StringValue string `json:",omitempty"`
	BinaryValue []byte `json:",omitempty"`
}

type object = map[string]any

// carryOut does what a call asks for.
func (s *Server) carryOut(ctx context.Context, op string, r *request, f Fault) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch op {
	case "ListQueues":
		return s.list(r)
	case "CreateQueue":
		s.queues[r.QueueName] = newQueue(r.QueueName, Queue{})
		return object{"QueueUrl": address(r.QueueName)}, nil
	}
	q := s.queues[cmp.Or(r.QueueName, path.Base(r.QueueURL))]
	if q == nil {
		return nil, failure{code: "QueueDoesNotExist", message: "The specified queue does not exist."}
	}
	defer s.changed()
	now := time.Now()
	switch op {
	case "GetQueueUrl":
		return object{"QueueUrl": address(q.name)}, nil
	case "GetQueueAttributes":
		return object{"Attributes": q.attributes(now)}, nil
	case "ListDeadLetterSourceQueues":
		urls := []string{}
		for _, name := range slices.Sorted(maps.Keys(s.queues)) {
			if s.queues[name].DeadLetters == q.name {
				urls = append(urls, address(name))
			}
		}
		return object{"queueUrls": urls}, nil
	case "DeleteQueue":
		delete(s.queues, q.name)
	case "PurgeQueue":
		q.messages = nil
	case "ReceiveMessage":
		return s.receive(ctx, q, r, f)
	case "SendMessage":
		return q.send(r, now)
	case "DeleteMessage":
		return object{}, q.remove(r.ReceiptHandle, now)
	case "ChangeMessageVisibility":
		return object{}, q.hide(r.ReceiptHandle, r.VisibilityTimeout, now)
	case "SendMessageBatch":
		size := 0
		for i := range r.Entries {
			size += r.Entries[i].size()
		}
		if size > 1<<20 {
			return nil, failure{code: "BatchRequestTooLong",
				message: fmt.Sprintf("Batch requests cannot be longer than 1048576 bytes. You have sent %d bytes.",
					size)}
		}
		return batch(q, r, f, func(e *request) (object, error) { return q.send(e, now) })
	case "DeleteMessageBatch":
		return batch(q, r, f, func(e *request) (object, error) { return object{}, q.remove(e.ReceiptHandle, now) })
	case "ChangeMessageVisibilityBatch":
		return batch(q, r, f, func(e *request) (object, error) {
			return object{}, q.hide(e.ReceiptHandle, e.VisibilityTimeout, now)
		})
	default:
		return nil, failure{code: "InvalidAction", message: op}
	}
	return object{}, nil
}

// batch processes its entries one by one, except those that the fault fails.
func batch(q *queue, r *request, f Fault, do func(*request) (object, error)) (any, error) {
	if len(r.Entries) == 0 || len(r.Entries) > 10 {
		return nil, failure{code: "TooManyEntriesInBatchRequest", message: fmt.Sprintf("%d entries", len(r.Entries))}
	}
	done, failed := []object{}, []object{}
	for i := range r.Entries {
		e := &r.Entries[i]
		body := e.MessageBody
		if m := q.byHandle(e.ReceiptHandle); m != nil {
			body = m.Body
		}
		out, err := object(nil), error(nil)
		if f.Entry != nil && f.Entry(body) {
			err = failure{code: f.Code, message: f.Message}
		} else {
			out, err = do(e)
		}
		if bad, ok := err.(failure); ok { //nolint:errorlint // made here, never wrapped
			sender := f.Sender || bad.code != f.Code
			failed = append(failed, object{"Id": e.ID, "Code": bad.code, "Message": bad.message, "SenderFault": sender})
			continue
		}
		out["Id"] = e.ID
		done = append(done, out)
	}
	return object{"Successful": done, "Failed": failed}, nil
}

// receive waits for messages; s.mu is held except while it waits.
func (s *Server) receive(ctx context.Context, q *queue, r *request, f Fault) (any, error) {
	until := time.Now().Add(time.Duration(r.WaitTimeSeconds) * time.Second)
	for {
		now := time.Now()
		s.redrive(q, now)
		if got := q.take(r, f, now); len(got) > 0 || !now.Before(until) {
			return object{"Messages": got}, nil
		}
		wake := s.wake
		next := until
		if at := q.next(now); !at.IsZero() && at.Before(next) {
			next = at
		}
		s.mu.Unlock()
		t := time.NewTimer(time.Until(next))
		select {
		case <-wake:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		s.mu.Lock()
		switch {
		case ctx.Err() != nil:
			return object{}, nil
		case s.queues[q.name] != q:
			return nil, failure{code: "QueueDoesNotExist", message: "The specified queue does not exist."}
		}
	}
}

// redrive moves what was received too often.
func (s *Server) redrive(q *queue, now time.Time) {
	to := s.queues[q.DeadLetters]
	if to == nil {
		return
	}
	q.messages = slices.DeleteFunc(q.messages, func(m *Message) bool {
		if m.Receives < q.MaxReceives || now.Before(m.Visible) {
			return false
		}
		dead := *m
		dead.Receives, dead.source = 0, "arn:aws:sqs:us-east-1:000000000000:"+q.name
		to.messages = append(to.messages, &dead)
		return true
	})
}

func (s *Server) list(r *request) (any, error) {
	var urls []string
	for _, name := range slices.Sorted(maps.Keys(s.queues)) {
		if strings.HasPrefix(name, r.QueueNamePrefix) && name > r.NextToken {
			urls = append(urls, address(name))
		}
	}
	out := object{}
	if r.MaxResults > 0 && len(urls) > r.MaxResults {
		urls = urls[:r.MaxResults]
		out["NextToken"] = path.Base(urls[len(urls)-1])
	}
	out["QueueUrls"] = urls
	return out, nil
}

func address(queue string) string { return "http://sqs.test/000000000000/" + queue }

func (r *request) size() int {
	n := len(r.MessageBody)
	for name, a := range r.MessageAttributes {
		n += len(name) + len(a.DataType) + len(a.StringValue) + len(a.BinaryValue)
	}
	return n
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
