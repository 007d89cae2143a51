package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue"
	client "github.com/nats-io/nats.go"
)

// Writer publishes into a stream.
func (s *server) Writer(ctx context.Context, name string) (queue.Writer, error) {
	st, consumer, err := s.stream(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case consumer != "":
		return nil, fmt.Errorf("%s is a consumer, but messages are sent to a stream (name its stream)", name)
	}
	subjects := st.CachedInfo().Config.Subjects
	if len(subjects) == 0 {
		return nil, fmt.Errorf("stream %s has no subjects, so nothing can be sent to it (if it copies another stream, send to that)",
			name)
	}
	p, err := NewPublisher(s.conn)
	if err != nil {
		return nil, err
	}
	return &writer{s, p, name, subjects}, nil
}

type writer struct {
	*server
	publisher *Publisher
	stream    string
	subjects  []string
}

// Write publishes messages, and waits until the stream has confirmed them.
func (w *writer) Write(ctx context.Context, ms []queue.Message) []error {
	ctx, cancel := w.within(ctx)
	defer cancel()
	errs := make([]error, len(ms))
	out, all, index := make([]Outgoing, len(ms)), make([]*Outgoing, 0, len(ms)), make([]int, 0, len(ms))
	for i := range ms {
		if out[i].Msg, errs[i] = w.message(&ms[i]); errs[i] == nil {
			all, index = append(all, &out[i]), append(index, i)
		}
	}
	w.publisher.Publish(ctx, all)
	for i, o := range all {
		errs[index[i]] = o.Err
	}
	if errors.Join(errs...) == nil {
		return nil
	}
	return errs
}

// message returns a message with its original subject and headers. A dead letter that returns to its stream becomes the message
// that it was. Headers that the server interprets are left out: because of the message id, the stream could discard the message as
// a duplicate of itself.
func (w *writer) message(m *queue.Message) (*client.Msg, error) {
	subject, err := w.subject(m)
	if err != nil {
		return nil, err
	}
	out := &client.Msg{Subject: subject, Data: m.Payload, Header: client.Header{}}
	if raw, ok := m.Raw.(client.Header); ok {
		for name, values := range raw {
			if !isServerHeader(name) {
				out.Header[name] = values
			}
		}
	} else {
		meta := engine.Meta{}
		for name, v := range m.Meta {
			if !slices.Contains(reserved, name) {
				meta = meta.With(name, v)
			}
		}
		for name, values := range Headers(meta) {
			out.Header[name] = values
		}
	}
	if m.Meta["original_stream"] == w.stream {
		for name := range out.Header {
			if isFailureHeader(name) {
				delete(out.Header, name)
			}
		}
	}
	out.Header["Nats-Expected-Stream"] = []string{w.stream}
	return out, nil
}

// isFailureHeader reports whether flowd has added a header to a dead letter.
func isFailureHeader(name string) bool {
	rest, original := strings.CutPrefix(name, "original_")
	return original && slices.Contains(origins[:], rest) || slices.Contains(failureHeaders, name)
}

var failureHeaders = strings.Fields("error_class error_message error_step error_output error_attempt error_first_failed " +
	"error_part error_detail")

// subject returns the original subject of a message if the stream has it, or else the only subject of the stream.
func (w *writer) subject(m *queue.Message) (string, error) {
	original, _ := m.Meta["subject"].(string)
	if m.Meta["original_stream"] == w.stream {
		if before, ok := m.Meta["original_subject"].(string); ok {
			original = before
		}
	}
	if original != "" && CheckSubject(original, false) == "" &&
		slices.ContainsFunc(w.subjects, func(s string) bool { return Matches(s, original) }) {
		return original, nil
	}
	if len(w.subjects) == 1 && CheckSubject(w.subjects[0], false) == "" {
		return w.subjects[0], nil
	}
	return "", fmt.Errorf("stream %s does not have the subject %q (it has %s)", w.stream, original,
		strings.Join(w.subjects, ", "))
}

// Matches reports whether a subject matches a pattern with wildcards.
func Matches(pattern, subject string) bool {
	ps, ss := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, p := range ps {
		switch {
		case p == ">":
			return len(ss) > i
		case i >= len(ss) || p != "*" && p != ss[i]:
			return false
		}
	}
	return len(ps) == len(ss)
}

// Close ends listening for confirmations.
func (w *writer) Close() error {
	w.publisher.Close()
	return nil
}
