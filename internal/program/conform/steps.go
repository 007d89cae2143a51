package conform

import (
	"bytes"
	"fmt"
	"time"

	"github.com/flowd-io/flowd/internal/program/frame"
)

// stepCases are the cases of steps and outputs.
var stepCases = []scenario{
	{name: starts, play: playStart},
	{name: oneMessage, play: playOne},
	{name: manyMessages, play: playMany, need: oneMessage},
	{name: "an empty payload", play: playEmpty, need: manyMessages},
	{name: "a payload that is not JSON", play: playText, need: manyMessages},
	{name: "a payload of 8 MiB", play: playLarge, need: manyMessages},
	{name: "metadata", play: playMeta, need: manyMessages},
	{name: "frames that arrive byte by byte", play: playPieces, need: manyMessages},
	{name: "two batches in one write", play: playTwo, need: manyMessages},
	{name: "as many messages as the window", play: playWindow, need: manyMessages},
	{name: "a failed message among others", play: playFailure, need: manyMessages},
	{name: "a canceled batch", play: playCancel, need: manyMessages},
	{name: "an answered batch is canceled", play: playCancelAnswered, need: manyMessages},
	{name: "child processes", play: playChildren},
	{name: "it drains", play: playDrain, need: manyMessages},
	{name: "it drains, and its pipe is closed at once", play: playDrainClosed, fresh: true, need: manyMessages},
	{name: "fields and frames of later versions", play: playLater, fresh: true, need: manyMessages},
	{name: "a small limits.body", play: playSmall, fresh: true, need: manyMessages},
	{name: "its pipe is closed", play: playClosed, fresh: true},
	{name: "flowd is killed while it works", play: playKilled, fresh: true},
	{name: "SIGTERM", play: playTerm, fresh: true},
	{name: "a config of a wrong type", play: playConfig, fresh: true},
}

// some returns n payloads that the program accepts.
func (c *check) some(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		if len(c.Sample) > 0 {
			all[i] = c.Sample[i%len(c.Sample)]
		} else {
			all[i] = fmt.Appendf(nil, `{"text":"message %d: Grüße, 世界","n":%d,"list":[1,2.5,null,true]}`, i, i)
		}
	}
	return all
}

// document returns a JSON document of n bytes.
func document(n int) []byte {
	const begin, end = `{"text":"`, `"}`
	return append(append([]byte(begin), bytes.Repeat([]byte("x"), n-len(begin+end))...), end...)
}

func playStart(c *check) error {
	_, err := c.process()
	return err
}

func playOne(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	began := time.Now()
	b, err := p.exchange(ruleOnce, c.some(1))
	if err != nil {
		return err
	}
	if each := time.Since(began); each > 0 { // a slow program gets smaller batches
		c.size = int(max(2, min(batchSize, c.Timeout/2/each)))
	}
	if r := b.results[0]; r.Outcome == frame.Failed {
		return warning(ruleLives, "the message failed: %v (a sample has payloads that the program accepts)", r.Err)
	}
	return nil
}

// exchange sends a batch to the shared process, and waits until it is answered.
func (c *check) exchange(payloads ...[]byte) error {
	p, err := c.process()
	if err == nil {
		_, err = p.exchange(ruleOnce, payloads)
	}
	return err
}

func playMany(c *check) error  { return c.exchange(c.some(c.size)...) }
func playEmpty(c *check) error { return c.exchange(nil) }
func playText(c *check) error  { return c.exchange([]byte("{\x00\xff no JSON\n")) }
func playLarge(c *check) error { return c.exchange(document(8 << 20)) }

// exact is an integer that a float64 can't hold, and rounded is the nearest one that it can.
const exact, rounded = 9007199254740993, 9007199254740992

func playMeta(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	meta := map[string]any{"path": "a.txt", "Grüße 世界 \u2028": "é\u0000😀", "": "no name", "exact": exact, "flag": true, "none": nil,
		"__proto__": "x", "constructor": 1, "nested": map[string]any{"list": []any{1, "a", map[string]any{"deep": []any{}}}}, "number": 1.5e-7}
	number, data := p.newBatch(c.some(2), map[string]any{"meta": []any{meta, map[string]any{}}, "attempts": []int{0, 3}, "timeout": 30.5,
		"key": map[string]any{"country": "DE"}, "errors": []any{nil, map[string]any{"text": "it broke", "class": "rejected", "step": "score"}}})
	p.write(data)
	if err := p.untilAnswered(ruleOnce); err != nil {
		return err
	}
	for _, change := range p.batches[number].results[0].Meta {
		if change.Name == "exact" && fmt.Sprint(change.Value) == fmt.Sprint(rounded) {
			return wrong(ruleMeta, "it returned the metadata %d as %d", exact, rounded)
		}
	}
	return nil
}

func playPieces(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	_, first := p.newBatch(c.some(1), nil)
	_, second := p.newBatch([][]byte{c.some(1)[0], nil}, nil)
	p.pieces <- piece{append(first, second...), 500 * time.Microsecond}
	return p.untilAnswered(ruleFrames)
}

func playTwo(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	_, first := p.newBatch(c.some(c.size/2), nil)
	_, second := p.newBatch(c.some(1), nil)
	p.write(append(first, second...))
	return p.untilAnswered(ruleAhead)
}

func playWindow(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	for range limitWindow / batchSize {
		p.sendBatch(c.some(c.size))
	}
	return p.untilAnswered(ruleAhead)
}

func playFailure(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	payloads := c.some(3)
	payloads[1] = []byte("{")
	b, err := p.exchange(ruleLives, payloads)
	if err != nil {
		return err
	}
	if _, err := p.exchange(ruleLives, c.some(1)); err != nil {
		return err
	}
	for _, r := range b.results {
		if r.Outcome == frame.Failed {
			return nil
		}
	}
	return skipped("the program accepts every payload")
}

func playCancel(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	whole, part := p.sendBatch(c.some(c.size)), p.sendBatch(c.some(4))
	p.write(encoded(frame.Cancel(whole, nil)))
	p.write(encoded(frame.Cancel(part, []int{1, 3})))
	if err := p.untilAnswered(ruleCancel); err != nil {
		return err
	}
	_, err = p.exchange(ruleOnce, c.some(2))
	return err
}

func playCancelAnswered(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	number := p.sendBatch(c.some(2))
	if err := p.untilAnswered(ruleOnce); err != nil {
		return err
	}
	p.write(encoded(frame.Cancel(number, nil)))
	p.write(encoded(frame.Cancel(number, []int{1})))
	_, err = p.exchange(ruleCancel, c.some(2))
	return err
}

// playLater sends what only later versions of the protocol have.
func playLater(c *check) error {
	news := encoded([]byte(`{"type":"from a later version","batch":1,"sizes":[3]}`), []byte("new"))
	p, err := c.start(greeting{more: map[string]any{"novelty": map[string]any{"a": []int{1}}}, then: news})
	if err != nil {
		return later(err)
	}
	c.p = p
	_, data := p.newBatch(c.some(2), map[string]any{"novelty": []any{nil, 1}})
	p.write(append(append(news, data...), news...))
	if err := p.untilAnswered(ruleIgnore); err != nil {
		return later(err)
	}
	_, err = p.exchange(ruleIgnore, c.some(1))
	return later(err)
}

// later blames fields or frames that the program does not know for a wrong start.
func later(err error) error {
	if f, ok := err.(*finding); ok && f.Frame == "" {
		f.Section, f.Rule = ruleIgnore.section, ruleIgnore.text
	}
	return err
}

// playSmall tempts the program to exceed a small limits.body.
func playSmall(c *check) error {
	const body = 64 << 10
	p, err := c.start(greeting{body: body})
	if err != nil {
		return err
	}
	c.p = p
	fill := func(each [][]byte) (all [][]byte) {
		for size := 0; len(all) < c.size; {
			next := each[len(all)%len(each)]
			if size += len(next); size > body {
				break
			}
			all = append(all, next)
		}
		return all
	}
	for _, payloads := range [][][]byte{fill(c.some(c.size)), fill([][]byte{document(body / 4)}), {document(body)}} {
		if _, err := p.exchange(ruleBody, payloads); err != nil {
			return err
		}
	}
	return nil
}
