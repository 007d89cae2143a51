package fakesqs

import (
	"crypto/md5" // #nosec G501 -- the protocol's checksum
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Queue is how a queue is set up.
type Queue struct {
	Visibility    time.Duration // 0: 30s; less: none
	DeadLetters   string        // a queue that takes what was received MaxReceives times
	MaxReceives   int
	ContentDedupe bool
	Unlocked      bool // of a FIFO queue: a group continues while messages are in flight, as with some emulators
}

// queue is FIFO if its name says so. The server's lock guards it.
type queue struct {
	Queue
	name     string
	fifo     bool
	messages []*Message
	sent     int
	deduped  map[string]time.Time
}

// Message is a message in a queue.
type Message struct {
	ID, Body, Group, Dedupe string
	Attributes              map[string]Attribute
	Trace                   string // AWSTraceHeader
	Sent                    time.Time
	Visible                 time.Time // from then on
	Receives                int
	Delay                   time.Duration // with which it was sent

	number   int
	source   string
	handle   string // of the last receive
	received time.Time
	first    time.Time
}

func newQueue(name string, c Queue) *queue {
	if c.Visibility == 0 {
		c.Visibility = 30 * time.Second
	}
	return &queue{Queue: c, name: name, fifo: strings.HasSuffix(name, ".fifo"), deduped: map[string]time.Time{}}
}

// Create makes a queue.
func (s *Server) Create(name string, c Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[name] = newQueue(name, c)
	s.changed()
}

// Delete removes a queue.
func (s *Server) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queues, name)
	s.changed()
}

// Put sends messages; in a FIFO queue those with bodies such as "a:1" are of group a.
func (s *Server) Put(name string, bodies ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bodies {
		s.put(name, &request{MessageBody: b})
	}
}

// PutTraced sends one message with the system attribute AWSTraceHeader.
func (s *Server) PutTraced(name, body, header string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(name, &request{MessageBody: body, SystemAttributes: map[string]Attribute{"AWSTraceHeader": {StringValue: header}}})
}

// PutWith sends one message with attributes.
func (s *Server) PutWith(name, body string, attributes map[string]Attribute) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(name, &request{MessageBody: body, MessageAttributes: attributes})
}

func (s *Server) put(name string, r *request) {
	q := s.queues[name]
	if q.fifo {
		group, _, _ := strings.Cut(r.MessageBody, ":")
		r.MessageGroupID, r.MessageDeduplicationID = group, strconv.Itoa(q.sent)
	}
	if _, err := q.send(r, time.Now()); err != nil {
		panic(err)
	}
	s.changed()
}

// Messages are those in a queue, in the order in which they were sent.
func (s *Server) Messages(name string) (all []Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.queues[name].messages {
		all = append(all, *m)
	}
	return all
}

// Bodies are those of Messages.
func (s *Server) Bodies(name string) (all []string) {
	for _, m := range s.Messages(name) {
		all = append(all, m.Body)
	}
	return all
}

// Expire ends the leases of all messages in flight, as if they had expired.
func (s *Server) Expire(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.queues[name].messages {
		m.Visible = time.Now()
	}
	s.changed()
}

func (q *queue) send(r *request, now time.Time) (object, error) {
	switch {
	case r.MessageBody == "" || strings.ContainsAny(r.MessageBody, "\x00\x01\x02"):
		return nil, failure{code: "InvalidMessageContents",
			message: "The message contains characters outside the allowed set."}
	case r.size() > 1<<20:
		return nil, failure{code: "InvalidParameterValue",
			message: "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes."}
	case len(r.MessageAttributes) > 10:
		return nil, failure{code: "InvalidParameterValue",
			message: "Number of message attributes exceeds the allowed maximum [10]."}
	case r.DelaySeconds != nil && (*r.DelaySeconds < 0 || *r.DelaySeconds > 900 || q.fifo):
		return nil, failure{code: "InvalidParameterValue",
			message: fmt.Sprintf("Value %d for parameter DelaySeconds is invalid.", *r.DelaySeconds)}
	case q.fifo && r.MessageGroupID == "":
		return nil, failure{code: "MissingParameter", message: "The request must contain the parameter MessageGroupId."}
	}
	if q.fifo && r.MessageDeduplicationID == "" {
		if !q.ContentDedupe {
			return nil, failure{code: "InvalidParameterValue",
				message: "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"}
		}
		r.MessageDeduplicationID = sum(r.MessageBody)
	}
	q.sent++
	m := &Message{
		ID: fmt.Sprintf("%s-%d", q.name, q.sent), Body: r.MessageBody, Group: r.MessageGroupID,
		Dedupe:     r.MessageDeduplicationID,
		Attributes: r.MessageAttributes, Trace: r.SystemAttributes["AWSTraceHeader"].StringValue, Sent: now, Visible: now, number: q.sent,
	}
	if r.DelaySeconds != nil {
		m.Delay = time.Duration(*r.DelaySeconds) * time.Second
		m.Visible = now.Add(m.Delay)
	}
	out := object{"MessageId": m.ID, "MD5OfMessageBody": sum(m.Body)}
	if q.fifo {
		out["SequenceNumber"] = strconv.Itoa(m.number)
		if at, known := q.deduped[m.Dedupe]; known && now.Sub(at) < 5*time.Minute {
			return out, nil
		}
		q.deduped[m.Dedupe] = now
	}
	q.messages = append(q.messages, m)
	return out, nil
}

// take receives messages: of a group in flight none, of another as many as there are.
func (q *queue) take(r *request, f Fault, now time.Time) (all []object) {
	visibility := max(0, q.Visibility)
	if r.VisibilityTimeout != nil {
		visibility = time.Duration(*r.VisibilityTimeout) * time.Second
	}
	shut := map[string]bool{}
	for _, m := range q.messages {
		if q.fifo && !q.Unlocked && now.Before(m.Visible) {
			shut[m.Group] = true
		}
	}
	for _, m := range q.messages {
		if now.Before(m.Visible) || q.fifo && shut[m.Group] || len(all) == max(1, r.MaxNumberOfMessages) {
			continue
		}
		m.Receives++
		m.received = now
		if m.first.IsZero() {
			m.first = now
		}
		m.handle = fmt.Sprintf("%s#%d", m.ID, m.Receives)
		if !f.Duplicate {
			m.Visible = now.Add(visibility)
		}
		all = append(all, m.wire())
	}
	return all
}

// wire is a message as an answer has it.
func (m *Message) wire() object {
	system := map[string]string{
		"ApproximateReceiveCount": strconv.Itoa(m.Receives), "SentTimestamp": millis(m.Sent),
		"ApproximateFirstReceiveTimestamp": millis(m.first), "SenderId": "AIDAEXAMPLE",
	}
	if m.Group != "" {
		system["MessageGroupId"], system["MessageDeduplicationId"], system["SequenceNumber"] = m.Group, m.Dedupe,
			strconv.Itoa(m.number)
	}
	if m.Trace != "" {
		system["AWSTraceHeader"] = m.Trace
	}
	if m.source != "" {
		system["DeadLetterQueueSourceArn"] = m.source
	}
	return object{"MessageId": m.ID, "Body": m.Body, "MD5OfBody": sum(m.Body), "ReceiptHandle": m.handle,
		"Attributes": system, "MessageAttributes": m.Attributes}
}

// next is when a hidden message becomes visible; zero: none will.
func (q *queue) next(now time.Time) (at time.Time) {
	for _, m := range q.messages {
		if m.Visible.After(now) && (at.IsZero() || m.Visible.Before(at)) {
			at = m.Visible
		}
	}
	return at
}

// byHandle is the message that a handle once named, or nil.
func (q *queue) byHandle(handle string) *Message {
	id, _, _ := strings.Cut(handle, "#")
	if i := slices.IndexFunc(q.messages, func(m *Message) bool { return m.ID == id }); i >= 0 {
		return q.messages[i]
	}
	return nil
}

func (q *queue) remove(handle string, now time.Time) error {
	m := q.byHandle(handle)
	switch {
	case m == nil && !strings.Contains(handle, "#"):
		return failure{code: "ReceiptHandleIsInvalid", message: "The input receipt handle is invalid."}
	case m == nil:
		return nil // it was deleted before
	case m.handle != handle || q.fifo && !now.Before(m.Visible):
		return failure{code: "InvalidParameterValue", message: "The receipt handle has expired"}
	}
	q.messages = slices.DeleteFunc(q.messages, func(x *Message) bool { return x == m })
	return nil
}

func (q *queue) hide(handle string, seconds *int, now time.Time) error {
	m := q.byHandle(handle)
	switch {
	case m == nil || m.handle != handle || !now.Before(m.Visible):
		return failure{code: "MessageNotInflight", message: "The message referred to isn't in flight."}
	case seconds == nil || *seconds < 0 || *seconds > 43200 ||
		now.Add(time.Duration(*seconds)*time.Second).Sub(m.received) > 12*time.Hour:
		return failure{code: "InvalidParameterValue",
			message: "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"}
	}
	m.Visible = now.Add(time.Duration(*seconds) * time.Second)
	return nil
}

func (q *queue) attributes(now time.Time) map[string]string {
	ready, flying, delayed := 0, 0, 0
	for _, m := range q.messages {
		switch {
		case !now.Before(m.Visible):
			ready++
		case m.Receives > 0:
			flying++
		default:
			delayed++
		}
	}
	all := map[string]string{
		"VisibilityTimeout":                     strconv.Itoa(int(max(0, q.Visibility) / time.Second)),
		"QueueArn":                              "arn:aws:sqs:us-east-1:000000000000:" + q.name,
		"ApproximateNumberOfMessages":           strconv.Itoa(ready),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(flying),
		"ApproximateNumberOfMessagesDelayed":    strconv.Itoa(delayed),
	}
	if q.fifo {
		all["FifoQueue"], all["ContentBasedDeduplication"] = "true", strconv.FormatBool(q.ContentDedupe)
	}
	if q.DeadLetters != "" {
		all["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:%s","maxReceiveCount":%d}`, q.DeadLetters,
			q.MaxReceives)
	}
	return all
}

func sum(text string) string {
	h := md5.Sum([]byte(text)) // #nosec G401 -- the protocol's checksum
	return hex.EncodeToString(h[:])
}
