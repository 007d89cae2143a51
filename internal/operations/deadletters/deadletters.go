// Package deadletters is what `flowd dlq` does with dead letters, wherever they are: it groups them by cause, replays,
// edits and drops them. Start at [Source], which [Open] opens, and [Letter]. [Summary] groups letters. [Feed] is the input
// that replays them.
package deadletters

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/metadata"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

// Source has dead letters. It is not safe for concurrent use.
type Source interface {
	// Read returns up to most letters that this source has not returned before. It returns [engine.ErrEnd] after the last.
	Read(ctx context.Context, most int) ([]Letter, error)
	// Done removes letters for good. It returns when this would survive a crash.
	Done(ctx context.Context, refs []uint64) error
	// Replace puts letters with these payloads and metadata in the place of others, which have the same Refs. It returns when
	// this would survive a crash. Read does not return the new letters.
	Replace(ctx context.Context, with []queue.Message) error
	// Total returns about how many letters there are, or -1 if that is unknown.
	Total(ctx context.Context) int64
	// Close gives back all letters that are neither done nor replaced.
	Close() error
}

// Letter is a dead letter.
type Letter struct {
	queue.Message // as it is in its source, with error_* in its metadata
	Cause         Cause
	Where         string // the place of the letter in its source, such as "line 12"; "": unknown
	Broken        error  // why this is not a message, if it is not
}

// Cause says why a message became a dead letter, as far as its metadata records it.
type Cause struct {
	Class       string
	Message     string
	Step        string
	Output      string
	Attempt     int
	Part        int       // which part of a message that was split, from 1; 0: all of it
	FirstFailed time.Time // zero: unknown
}

// Place is "output NAME" or "step NAME", or "" if it is unknown.
func (c *Cause) Place() string {
	return (&engine.Error{Step: c.Step, Output: c.Output}).Place()
}

// Reason is the first line of the message.
func (c *Cause) Reason() string {
	line, _, _ := strings.Cut(c.Message, "\n")
	return line
}

// NewLetter makes a letter of a message.
func NewLetter(m queue.Message) Letter {
	return Letter{Message: m, Cause: causeOf(m.Meta), Where: idOf(m.Meta)}
}

// causeOf reads the metadata that the engine adds to dead letters. Headers of queues have turned its values into text, and
// a message that has failed several times may have several of them.
func causeOf(meta map[string]any) (c Cause) {
	value := func(name string) any {
		if all, several := meta[name].([]any); several && len(all) > 0 {
			return all[len(all)-1] // the newest
		}
		return meta[name]
	}
	text := func(name string) string { return metadata.Text(value(name)) }
	number := func(name string) int {
		n, _ := strconv.Atoi(text(name))
		return n
	}
	c = Cause{Class: text("error_class"), Message: text("error_message"), Step: text("error_step"),
		Output: text("error_output"), Attempt: number("error_attempt"), Part: number("error_part")}
	if t, is := value("error_first_failed").(time.Time); is {
		c.FirstFailed = t
	} else {
		c.FirstFailed, _ = time.Parse(time.RFC3339Nano, text("error_first_failed"))
	}
	if c.Class == "" && c.Message == "" {
		if why := text("x-first-death-reason"); why != "" { // a queue of RabbitMQ has dead-lettered it
			c.Message = fmt.Sprintf("dead-lettered by RabbitMQ: %s", why)
			if from := text("x-first-death-queue"); from != "" {
				c.Message += fmt.Sprintf(" in queue %q", from)
			}
		}
	}
	return c
}

// idOf names a message by the metadata in which brokers keep its place or id.
func idOf(meta map[string]any) string {
	if offset, ok := meta["offset"].(int); ok {
		return fmt.Sprintf("partition %v, offset %d", meta["partition"], offset)
	}
	for _, name := range []string{"message_id", "id", "sequence"} {
		if id := metadata.Text(meta[name]); id != "" {
			return name + " " + id
		}
	}
	return ""
}

// failure has the metadata that the engine adds when it makes a dead letter of a message.
var failure = []string{"error_class", "error_message", "error_step", "error_output", "error_attempt", "error_first_failed",
	"error_part", "error_detail", replayName}

// original begins the names of metadata by which outputs keep where a dead letter was read, since the metadata of where the
// dead letter is read takes the name.
const original = "original_"

// origins has the names of metadata by which inputs say where a message came from, by system. The first names are always
// there, and tell which system it was. Outputs must not send them as headers, as they do not when the message is read for the
// first time.
var origins = []struct{ always, some []string }{
	{strings.Fields("path line"), nil},
	{strings.Fields(objectMark), strings.Fields("key etag content_type content_encoding")},
	{strings.Fields("bucket key"), strings.Fields("etag size last_modified content_type content_encoding line")},
	{strings.Fields("topic partition offset"), strings.Fields("timestamp key tombstone headers")}, // Kafka
	{strings.Fields("exchange routing_key"), strings.Fields("queue redelivered deaths content_type content_encoding " +
		"correlation_id reply_to expiration message_id type user_id app_id priority persistent timestamp x-death x-delivery-count " +
		"x-acquired-count x-first-death-exchange x-first-death-queue x-first-death-reason x-last-death-exchange x-last-death-queue " +
		"x-last-death-reason")},
	{strings.Fields("subject stream sequence"), strings.Fields("reply consumer delivery deliveries pending timestamp")}, // NATS
	{strings.Fields("stream id"), strings.Fields("timestamp delivery_count redelivered field")},                         // Redis
	{strings.Fields("message_id sent_at receive_count"), strings.Fields("queue first_received_at sender_id message_group_id " +
		"dedupe_id sequence_number dead_letter_source trace_header")},
}

// ownOf returns the names in metadata that say where its message came from.
func ownOf(meta map[string]any) (own []string) {
	for _, o := range origins {
		missing := func(name string) bool { _, is := meta[name]; return !is }
		if !slices.ContainsFunc(o.always, missing) {
			own = append(append(own, o.always...), o.some...)
		}
	}
	return own
}

// moved has the names of metadata that outputs keep under another one, with the prefix original.
var moved = strings.Fields("topic partition offset timestamp subject stream sequence id")

// Original returns the metadata of the message before it became a dead letter. A message that is replayed has not failed
// yet, so it must not carry error_* to an output.
func (l *Letter) Original() engine.Meta {
	meta := map[string]any{}
	for name, v := range l.Meta {
		switch before, is := strings.CutPrefix(name, original); {
		case slices.Contains(failure, name), name == "headers", name == objectMark: // headers contain error_*
		case is && slices.Contains(moved, before):
			meta[before] = restored(before, v)
		default:
			if _, set := l.Meta[original+name]; !set {
				meta[name] = v
			}
		}
	}
	return metaOf(meta, ownOf(meta))
}

// restored returns a value of metadata that a header has kept as text. A message that has failed several times has several
// values.
func restored(name string, v any) any {
	if all, several := v.([]any); several && len(all) > 0 {
		v = all[len(all)-1]
	}
	text, is := v.(string)
	switch {
	case !is:
	case name == "partition" || name == "offset" || name == "sequence":
		if n, err := strconv.Atoi(text); err == nil {
			return n
		}
	case name == "timestamp":
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t
		}
	}
	return v
}

// Metadata returns all metadata of the letter.
func (l *Letter) Metadata() engine.Meta { return metaOf(l.Meta, nil) }

// metaOf returns metadata sorted by name. Names that are in own come first, and are the input's own.
func metaOf(meta map[string]any, own []string) engine.Meta {
	if len(meta) == 0 {
		return engine.Meta{}
	}
	rank := func(name string) int {
		if slices.Contains(own, name) {
			return 0
		}
		return 1
	}
	names := slices.SortedFunc(maps.Keys(meta), func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
	})
	values := make([]any, len(names))
	n := 0
	for i, name := range names {
		values[i] = meta[name]
		n += 1 - rank(name)
	}
	return engine.MetaOf(names, values, n)
}
