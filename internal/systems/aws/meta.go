package aws

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/metadata"
)

// systemAttributes are the attributes that the queue sets itself, and their names as metadata.
var systemAttributes = []struct {
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

// reserved has the names of the metadata that the queue sets.
var reserved = map[string]bool{"queue": true, "message_id": true}

func init() {
	for _, o := range systemAttributes {
		reserved[o.name] = true
	}
}

// names converts the names of message attributes.
var names = metadata.Names{Prefix: "attribute_", Own: func(name string) bool { return reserved[name] }}

// Meta returns the metadata of a received message, added to owner. A sender can't forge the values that the queue sets. A trace
// that only AWSTraceHeader names becomes traceparent, which outputs pass on.
func Meta(owner engine.Meta, w *types.Message) engine.Meta {
	m := owner.With("message_id", aws.ToString(w.MessageId))
	for _, o := range systemAttributes {
		text, ok := w.Attributes[string(o.attribute)]
		if !ok {
			continue
		}
		switch o.name {
		case "sent_at", "first_received_at":
			m = m.With(o.name, time.UnixMilli(int64(toInt(text))).UTC())
		case "receive_count":
			m = m.With(o.name, toInt(text))
		default:
			m = m.With(o.name, text)
		}
	}
	m = m.Own()
	for name, a := range w.MessageAttributes {
		m = m.With(names.In(name), Value(aws.ToString(a.DataType), aws.ToString(a.StringValue), a.BinaryValue))
	}
	if _, ok := w.MessageAttributes["traceparent"]; !ok {
		if text := asW3C(w.Attributes[string(types.MessageSystemAttributeNameAWSTraceHeader)]); text != "" {
			m = m.With("traceparent", text)
		}
	}
	return m
}

// Receives returns how often a message was received, which is approximate.
func Receives(w *types.Message) int {
	return toInt(w.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
}

// toInt returns a number, or 0 if text is not a number.
func toInt(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
