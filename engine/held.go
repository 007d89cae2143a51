package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// positionNames are the metadata with which sources say where a message lies.
var positionNames = []string{"path", "line", "topic", "partition", "offset", "key", "message_id"}

// position is where a message lies, in its source's own words.
func position(input string, meta Meta, part int32) string {
	from := []string{"input " + input}
	for name, v := range meta.All() {
		if slices.Contains(positionNames, name) {
			from = append(from, fmt.Sprintf("%s %v", name, v))
		}
	}
	if part > 0 {
		from = append(from, fmt.Sprintf("part %d", part))
	}
	return strings.Join(from, ", ")
}

// oldest is the age and position of the oldest open root; 0: there is none.
func (s *ledgers) oldest() (age time.Duration, at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.head; l != nil; l = l.next {
		if meta, ok := l.oldest(); ok {
			return time.Since(l.at), position(l.input, meta, 0)
		}
	}
	return 0, ""
}

// oldest is the metadata of the first root that is open.
func (l *ledger) oldest() (meta Meta, ok bool) {
	for i := range l.roots {
		if meta = l.metaOf(i); l.roots[i].pieces.Load() > 0 { // it is let go after the last
			return meta, true
		}
	}
	return Meta{}, false
}

// held describes the oldest message that waits for a try or a limit; nil: none does.
// What waits for its key is younger than the message that holds the key.
func (t *timers) held(now time.Time) (oldest *Held) {
	t.mu.Lock()
	defer t.mu.Unlock()
	look := func(m *Message, x *timer, why func() (place, err string)) {
		led := firstRoot(m).led
		if led == nil || oldest != nil && now.Sub(led.at) <= oldest.Age {
			return
		}
		oldest = &Held{At: position(led.input, m.Meta, m.in.Part), Age: now.Sub(led.at), Due: max(0, x.due.Sub(now))}
		oldest.For, oldest.Err = why()
	}
	for _, x := range t.heap {
		switch {
		case x.b != nil:
			for i := range x.b.in.Msgs {
				m := &x.b.in.Msgs[i]
				look(m, x, func() (string, string) { return trialOf(m).awaits() })
			}
		case x.p != nil:
			look(x.p.message(), x, x.p.awaits)
		}
	}
	return oldest
}

// awaits is where a message is to be tried again, and why.
func (t *trial) awaits() (place, err string) {
	if t == nil || t.err == nil {
		return "a retry", ""
	}
	return "a retry of " + t.err.Place(), firstLine(t.err)
}

// awaits is the limit that a message waits for.
func (p *aside) awaits() (place, err string) {
	switch {
	case p.step() != nil:
		return "the limit of step " + p.step().name, ""
	case p.out != nil:
		return "the limit of output " + p.out.plan.name, ""
	}
	return "a limit", ""
}

// queued are the messages that wait to be written, and their bytes as they count
// against the allowance; o.mu is held.
func (o *outRun) queued() (msgs, bytes int) {
	for _, l := range []*slabList{&o.ready, &o.again} {
		at := l.at
		for b := l.head; b != nil; b = b.in.Next {
			msgs += len(b.in.Msgs) - at
			bytes += charged(b.in.Msgs[at:])
			at = 0
		}
	}
	for key, chain := range o.chains {
		for _, t := range chain { // those without blockers are in the lists, or being written
			if t.blockers > 0 && t.keys[0] == key {
				msgs += len(t.b.in.Msgs)
				bytes += charged(t.b.in.Msgs)
			}
		}
	}
	return msgs, bytes
}

func charged(msgs []Message) (bytes int) {
	for i := range msgs {
		bytes += msgs[i].in.Charge
	}
	return bytes
}
