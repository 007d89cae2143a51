package aws

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/metadata"
)

// own are the system attributes, in a fixed order, by the names that they have as
// metadata.
var own = []struct {
	attribute types.MessageSystemAttributeName
	name      string
}{
	{types.MessageSystemAttributeNameSenderId, "sender_id"},
	{types.MessageSystemAttributeNameSentTimestamp, "sent_at"},
	{types.MessageSystemAttributeNameApproximateReceiveCount, "receive_count"},
	{types.MessageSystemAttributeNameApproximateFirstReceiveTimestamp, "first_received_at"},
	{types.MessageSystemAttributeNameSequenceNumber, "sequence_number"},
	{types.MessageSystemAttributeNameMessageDeduplicationId, "dedupe_id"},
	{types.MessageSystemAttributeNameMessageGroupId, "message_group_id"},
	{types.MessageSystemAttributeNameAWSTraceHeader, "trace_header"},
	{types.MessageSystemAttributeNameDeadLetterQueueSourceArn, "dead_letter_source"},
}

// reserved says which metadata is the queue's own.
var reserved = map[string]bool{"queue": true, "message_id": true}

func init() {
	for _, o := range own {
		reserved[o.name] = true
	}
}

// names are those of message attributes as metadata.
var names = metadata.Names{Prefix: "attribute_", Own: func(name string) bool { return reserved[name] }}

// Meta is the metadata of a message that was received, after that of its owner. Values that
// a sender has set are never taken for those of the queue.
func Meta(owner engine.Meta, w *types.Message) engine.Meta {
	m := owner.With("message_id", aws.ToString(w.MessageId))
	for _, o := range own {
		text, ok := w.Attributes[string(o.attribute)]
		if !ok {
			continue
		}
		switch o.name {
		case "sent_at", "first_received_at":
			m = m.With(o.name, time.UnixMilli(int64(whole(text))).UTC())
		case "receive_count":
			m = m.With(o.name, whole(text))
		default:
			m = m.With(o.name, text)
		}
	}
	m = m.Own()
	for name, a := range w.MessageAttributes {
		m = m.With(names.In(name), Value(aws.ToString(a.DataType), aws.ToString(a.StringValue), a.BinaryValue))
	}
	return m
}

// Receives is how often a message was received, as far as the queue knows.
func Receives(w *types.Message) int {
	return whole(w.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
}

// whole is a number; 0 if it is not one.
func whole(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
