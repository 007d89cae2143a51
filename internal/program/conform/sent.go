package conform

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/flowd-io/flowd/internal/program/frame"
)

// next reads a frame. At the end of the pipe it returns io.EOF.
func (p *player) next(r *bufio.Reader) (f frame.Frame, err error) {
	lengths, err := r.Peek(8)
	if len(lengths) == 8 {
		header, body := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])
		begin := fmt.Sprintf("sent the lengths %d and %d (% x)", header, body, lengths)
		switch {
		case header > frame.MaxHeader:
			return f, fmt.Errorf("%s: a header has at most %d bytes", begin, frame.MaxHeader)
		case int64(body) > int64(p.body):
			return f, fmt.Errorf("%s: limits.body is %d", begin, p.body)
		}
		f, err = frame.Read(r, p.body)
	}
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, io.ErrUnexpectedEOF), len(lengths) > 0 && err == io.EOF:
		return f, errors.New("closed descriptor 4 within a frame")
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
		return f, io.EOF
	}
	return f, err
}

// judge notes what a frame says, and returns how it breaks the protocol. The lock is held.
func (p *player) judge(f frame.Frame) *finding {
	s, err := frame.ParseSent(f)
	if err != nil {
		return wrong(ruleHeader, "it sent a header that is not valid: %v", err)
	}
	if p.ready == nil && slices.Contains([]string{"results", "messages", "end"}, s.Type) {
		return wrong(ruleReady, "it sent a %q frame before it was ready", s.Type)
	}
	switch s.Type {
	case "ready":
		return p.judgeReady(s)
	case "results":
		return p.judgeResults(s, f)
	case "messages":
		return p.judgeMessages(s)
	case "end":
		if p.c.Kind != frame.Input {
			return wrong(ruleNoMore, "a program that is not an input sent `end`")
		}
		p.ended = true
	case "error":
		e, err := s.Failure()
		if err != nil {
			return wrong(ruleGiveUp, "it sent an error that is not valid: %v", err)
		}
		r := ruleLives
		if p.c.Kind == frame.Input {
			r = ruleGiveUp
		}
		fault := wrong(r, "it gave up: %v", e)
		fault.gaveUp = true
		return fault
	case "log":
		level, _, _, err := s.Log()
		if err == nil && !slices.Contains([]string{"debug", "info", "warn", "error"}, level) {
			err = fmt.Errorf("there is no level %q", level)
		}
		return told(err)
	case "metric":
		m, err := s.Metric()
		if err == nil && !slices.Contains([]string{"counter", "gauge", "histogram"}, m.Kind) {
			err = fmt.Errorf("there is no kind %q of metrics", m.Kind)
		}
		return told(err)
	case "state":
		_, _, err := s.State()
		return told(err)
	default:
		p.unknown = s.Type
	}
	return nil
}

func told(err error) *finding {
	if err == nil {
		return nil
	}
	return wrong(ruleTell, "it sent a frame that is not valid: %v", err)
}

func (p *player) judgeReady(s *frame.Sent) *finding {
	r, err := s.Ready()
	switch {
	case err != nil:
		return wrong(ruleReady, "it sent a frame that is not valid: %v", err)
	case p.ready != nil:
		return wrong(ruleReady, "it sent `ready` twice")
	case r.Version != frame.Version && r.Error == nil:
		return wrong(ruleReady, "it speaks version %d of the protocol, not %d", r.Version, frame.Version)
	}
	p.ready = &r
	return nil
}

func (p *player) judgeResults(s *frame.Sent, f frame.Frame) *finding {
	if p.c.Kind == frame.Input {
		return wrong(ruleMessages, "an input sent results")
	}
	number, first, results, err := s.Results()
	if err != nil {
		return wrong(ruleResult, "it sent results that are not valid: %v", err)
	}
	b := p.batches[number]
	if b == nil {
		return wrong(ruleOnce, "it answered batch %d, which was not sent", number)
	}
	for i, r := range results {
		switch i += first; {
		case i >= len(b.answered):
			return wrong(ruleOnce, "it answered the message with index %d of batch %d, which has %d messages", i, number, len(b.answered))
		case b.answered[i]:
			return wrong(ruleOnce, "it answered the message with index %d of batch %d twice", i, number)
		case p.c.Kind == frame.Output && r.Outcome != frame.Unchanged && r.Outcome != frame.Failed:
			return wrong(ruleResult, "an output answered a message with something else than null or an error")
		}
		b.answered[i], b.results[i] = true, r
		b.left--
	}
	return judgeClasses(f.Header)
}

// judgeClasses finds errors whose class does not exist.
func judgeClasses(header []byte) *finding {
	var x struct{ Results []json.RawMessage }
	if err := json.Unmarshal(header, &x); err != nil {
		return wrong(ruleHeader, "it sent a header that is not valid: %v", err)
	}
	for _, raw := range x.Results {
		var result struct{ Error struct{ Class string } }
		if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &result) != nil {
			continue
		}
		if class := result.Error.Class; class != "" && !frame.IsClass(class) {
			return wrong(ruleClass, "it answered with an error of class %q, which does not exist", class)
		}
	}
	return nil
}

func (p *player) judgeMessages(s *frame.Sent) *finding {
	if p.c.Kind != frame.Input {
		return wrong(ruleOnce, "a program that is not an input sent messages")
	}
	all, err := s.Messages()
	p.messages = append(p.messages, all...)
	switch n := len(p.messages); {
	case err != nil:
		return wrong(ruleMessages, "it sent messages that are not valid: %v", err)
	case p.ended:
		return wrong(ruleNoMore, "it sent messages after `end`")
	case n > p.granted:
		return wrong(ruleCredit, "it sent %d messages with credits for %d", n, p.granted)
	}
	return nil
}
