package conform

import (
	"bytes"
	"errors"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/program/frame"
)

// inputCases are the cases of inputs.
var inputCases = []scenario{
	{name: starts, play: playStart},
	{name: "it waits without credits", play: playNoCredit},
	{name: credits, play: playCredits},
	{name: "fates in another order", play: playFates, need: credits},
	{name: "child processes", play: playChildren},
	{name: "it drains", play: playInputDrain},
	{name: "it continues after a position", play: playPosition, fresh: true, need: credits},
	{name: "fields and frames of later versions", play: playInputLater, fresh: true, need: credits},
	{name: "a small limits.body", play: playInputSmall, fresh: true, need: credits},
	{name: "it drains without credits", play: playDrainIdle, fresh: true},
	{name: "its pipe is closed", play: playClosed, fresh: true},
	{name: "flowd is killed while it works", play: playKilled, fresh: true},
	{name: "SIGTERM", play: playTerm, fresh: true},
	{name: "a config of a wrong type", play: playConfig, fresh: true},
}

// grant allows n further messages.
func (p *player) grant(n int) {
	p.mu.Lock()
	p.granted += n
	p.mu.Unlock()
	p.write(encoded(frame.Credit(n)))
}

// received returns what has arrived.
func (p *player) received() (all []frame.Incoming, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.messages[:len(p.messages):len(p.messages)], p.ended
}

// untilReceived waits until n messages have arrived, no message follows, or none has arrived for a while.
func (p *player) untilReceived(n int, r rule) error {
	silent := false
	err := p.within(p.c.Timeout, r, func() string {
		silent = !p.over
		return "send a message"
	}, func() bool { return len(p.messages) >= n || p.ended })
	if f := (*finding)(nil); errors.As(err, &f) && f.Frame == "" && silent {
		return nil
	}
	return err
}

func playNoCredit(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	return p.quiet(pausing)
}

func playCredits(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	total := 0
	for _, credits := range [][]int{{1}, {2, 3}, {20}} {
		for _, n := range credits {
			p.grant(n)
			total += n
		}
		if err := p.untilReceived(total, ruleCredit); err != nil {
			return err
		}
		all, ended := p.received()
		switch {
		case ended:
			return p.quiet(settling)
		case len(all) == 0:
			return skipped("it sent no message within %s (give the system that it reads some)", c.Timeout)
		case len(all) < total:
			return nil // no message follows
		}
		if err := p.quiet(pausing); err != nil {
			return err
		}
	}
	return nil
}

// fates returns the frame with the fates of messages, in this order.
func fates(numbers ...int) []byte {
	all := []engine.Fate{engine.Returned, engine.Delivered, engine.Filtered, engine.DeadLettered, engine.Dropped}
	results := make([]engine.Result, len(numbers))
	for i, n := range numbers {
		r := engine.Result{Ref: uint64(n), Fate: all[i%len(all)]}
		if r.Fate == engine.Returned {
			r.Err, r.Delay = engine.Errorf(engine.Transient, "the output is down"), 10*time.Millisecond
		}
		results[i] = r
	}
	return encoded(frame.AppendFates(nil, 1, results))
}

func playFates(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	all, ended := p.received()
	if len(all) == 0 { // an earlier process has sent them
		p.grant(10)
		if err := p.untilReceived(10, ruleCredit); err != nil {
			return err
		}
		all, ended = p.received()
	}
	numbers := make([]int, len(all))
	for i := range numbers {
		numbers[i] = len(all) - i
	}
	p.write(fates(numbers[:len(numbers)/2]...))
	p.write(fates(numbers[len(numbers)/2:]...))
	if !ended {
		p.grant(1)
	}
	if err := p.quiet(pausing); err != nil {
		if f, ok := err.(*finding); ok && f.Frame == "" {
			f.Section, f.Rule = ruleFates.section, ruleFates.text
		}
		return err
	}
	return nil
}

// drain asks an input to end, and waits for that.
func (p *player) drain() error {
	p.write(encoded(frame.Drain(drainTime)))
	return p.within(p.c.Timeout, ruleStop, func() string { return "answer `drain` with `end`" }, func() bool { return p.ended })
}

func playInputDrain(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	defer c.end()
	before, _ := p.received()
	p.grant(1000)
	if err := p.drain(); err != nil {
		return err
	}
	all, _ := p.received()
	for n := len(all); n > len(before); n-- {
		p.write(fates(n))
	}
	if err := p.quiet(settling); err != nil {
		return err
	}
	p.close()
	return p.exits(ruleClose, "after its pipe was closed", true)
}

func playDrainIdle(c *check) error {
	p, err := c.start(greeting{})
	if err != nil {
		return err
	}
	defer p.kill()
	if err := p.drain(); err != nil {
		return err
	}
	p.close()
	return p.exits(ruleClose, "after its pipe was closed", true)
}

// playPosition kills the program, and starts it at a position.
func playPosition(c *check) error {
	const most = 10
	p, err := c.start(greeting{})
	if err != nil {
		return err
	}
	defer func() { p.kill() }()
	p.grant(most)
	if err := p.untilReceived(most, ruleCredit); err != nil {
		return err
	}
	before, _ := p.received()
	p.kill()
	at := min(len(before)-2, most-4) // it has to send the messages after this index again
	for at >= 0 && before[at].Position == nil {
		at--
	}
	switch {
	case len(before) < 2:
		return skipped("it sent fewer than two messages")
	case at < 0:
		return skipped("it sends no positions")
	}
	position, want := before[at].Position, before[at+1:]
	q, err := c.start(greeting{position: position})
	if err != nil {
		return err
	}
	p = q
	p.grant(len(want))
	if err := p.untilReceived(len(want), ruleContinue); err != nil {
		return err
	}
	got, _ := p.received()
	for i, m := range want {
		switch {
		case i >= len(got):
			return wrong(ruleContinue, "started with the position %.80s, it did not send message %d after it: %.80q", position, i+1, m.Payload)
		case !bytes.Equal(got[i].Payload, m.Payload):
			return wrong(ruleContinue, "started with the position %.80s, it sent %.80q as message %d after it, instead of %.80q",
				position, got[i].Payload, i+1, m.Payload)
		}
	}
	return nil
}

func playInputLater(c *check) error {
	news := encoded([]byte(`{"type":"from a later version","messages":100}`), []byte("new"))
	p, err := c.start(greeting{more: map[string]any{"novelty": []any{1}}, then: news})
	if err != nil {
		return later(err)
	}
	c.p = p
	p.mu.Lock()
	p.granted += 2
	p.mu.Unlock()
	p.write(append(append(news, encoded([]byte(`{"type":"credit","messages":2,"novelty":{}}`))...), news...))
	if err := p.untilReceived(2, ruleIgnore); err != nil {
		return later(err)
	}
	if all, ended := p.received(); len(all) == 0 && !ended {
		return later(wrong(ruleIgnore, "it sent no message"))
	}
	return nil
}

func playInputSmall(c *check) error {
	p, err := c.start(greeting{body: 64 << 10})
	if err != nil {
		return err
	}
	defer p.kill()
	p.grant(limitWindow)
	err = p.untilReceived(limitWindow, ruleBody)
	if f := (*finding)(nil); errors.As(err, &f) && f.gaveUp {
		return skipped("a message is larger: %s", f.Text)
	}
	return err
}
