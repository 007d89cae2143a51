package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/internal/operations/deadletters"
	"github.com/flowd-io/flowd/internal/operations/service"
)

// push replays letters to a running pipeline.
func (r *dlqReplay) push(c *dlqCall, limit *engine.RateLimit) error {
	client, err := service.NewClient(r.target)
	if err != nil {
		return usage(err.Error())
	}
	began := time.Now()
	before := began
	if c.server != nil { // brokers keep times in seconds: letters of the same second are left for the next replay
		before = began.Truncate(time.Second).Add(-1)
	}
	feed := &deadletters.Feed{Source: c.source, Limit: r.pick.n, Before: before, Pick: c.pick.matches}
	if !r.fromStart {
		feed.Target = func(l *deadletters.Letter) (string, error) {
			if l.Cause.Output != "" {
				return "", fmt.Errorf("output %s failed it, and a running pipeline sends it to all outputs (add --from-start, or "+
					"replay with -c)", l.Cause.Output)
			}
			return "", nil
		}
	}
	p := &dlqPush{c: c, client: client, feed: feed, limit: limit, due: began}
	p.pipeline, p.input, _ = strings.Cut(r.to, "/")
	total := c.source.Total(c.stop)
	shown, hide := context.WithCancel(c.kill)
	defer hide()
	go r.progress(shown, c, feed, total, began)
	err = p.run()
	hide()
	return r.report(c, feed, runtime.Report{Err: err}, time.Since(began))
}

// dlqPush sends letters into a running pipeline over its admin API.
type dlqPush struct {
	c               *dlqCall
	client          *service.Client
	feed            *deadletters.Feed
	pipeline, input string
	limit           *engine.RateLimit
	due             time.Time // of the next request
}

func (p *dlqPush) run() error {
	most := service.MaxPushed
	if p.limit != nil { // requests come five times a second or less often
		most = max(1, min(most, int(float64(p.limit.Messages)*0.2/p.limit.Per.Seconds())))
	}
	for p.c.stop.Err() == nil {
		b := engine.NewBatch(most)
		_, err := p.feed.Read(p.c.stop, b)
		var messages []service.Message
		var refs []uint64
		size := 0
		for m := range b.All() {
			if size += m.Size(); size > pushBytes && len(messages) > 0 {
				if err := p.send(messages, refs); err != nil {
					return err
				}
				messages, refs, size = nil, nil, m.Size()
			}
			messages, refs = append(messages, service.Message{Payload: m.Bytes(), Meta: m.Meta.Map()}), append(refs, m.Ref)
		}
		if err := p.send(messages, refs); err != nil {
			return err
		}
		if err == engine.ErrEnd {
			return nil
		}
	}
	return nil
}

// send sends messages in one request, and settles their letters. A letter whose message has no fate stays.
func (p *dlqPush) send(messages []service.Message, refs []uint64) error {
	if len(messages) == 0 {
		return nil
	}
	results := make([]engine.Result, len(refs))
	unknown := func(why error) {
		for i, ref := range refs {
			results[i] = engine.Result{Ref: ref, Fate: engine.Returned, Err: engine.ErrorOf(why, engine.Transient)}
		}
	}
	err := p.wait(len(messages))
	if err == nil {
		var fates []service.Pushed
		fates, err = p.client.Push(p.c.kill, p.pipeline, p.input, messages, dlqPushWait)
		for i, f := range fates {
			results[i] = resultOf(refs[i], f)
		}
	}
	if err != nil {
		unknown(err)
	}
	_, _ = p.feed.Ack(p.c.kill, results) // the feed keeps its error
	return err
}

// dlqPushWait is how long a request waits for the fates of its messages.
const dlqPushWait = time.Minute

// wait waits until the rate allows n more messages. It returns nil after a signal, since what was read is sent.
func (p *dlqPush) wait(n int) error {
	if p.limit == nil {
		return nil
	}
	select {
	case <-time.After(time.Until(p.due)):
	case <-p.c.kill.Done():
		return context.Cause(p.c.kill)
	case <-p.c.stop.Done():
	}
	if now := time.Now(); p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(float64(n) / float64(p.limit.Messages) * float64(p.limit.Per)))
	return nil
}

// resultOf returns the fate of a pushed message as the engine has it.
func resultOf(ref uint64, f service.Pushed) engine.Result {
	r := engine.Result{Ref: ref, Fate: engine.Returned}
	for _, fate := range []engine.Fate{engine.Delivered, engine.Filtered, engine.DeadLettered, engine.Dropped} {
		if f.Fate == fate.String() {
			r.Fate = fate
		}
	}
	switch {
	case f.Fate == service.InFlight:
		r.Err = engine.Errorf(engine.Timeout, "it is still in flight after %s, and may be delivered", dlqPushWait)
	case f.Error != "":
		e := &engine.Error{Class: engine.Class(f.Class), Err: errors.New(f.Error)}
		kind, name, _ := strings.Cut(f.At, " ")
		switch kind {
		case "output":
			e.Output = name
		case "step":
			e.Step = name
		}
		r.Err = e
	}
	return r
}
