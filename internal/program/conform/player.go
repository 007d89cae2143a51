package conform

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/flowd-io/flowd/internal/components/programs"
	"github.com/flowd-io/flowd/internal/program/frame"
)

// player is one process of the program, and flowd's side of its pipes.
type player struct {
	c      *check
	cmd    *exec.Cmd
	mark   string
	out    *os.File // descriptor 4 of the program
	said   *programs.Tail
	exited chan struct{} // closed when the program has exited, and status is known
	status error
	body   int // limits.body

	pieces chan piece // what a goroutine writes to descriptor 3 of the program
	close  func()     // closes the pipe once all pieces are written

	changed chan struct{} // has an element if something has changed since until looked

	mu       sync.Mutex // guards the fields below
	fault    *finding   // the first violation of the protocol
	over     bool       // the program has closed descriptor 4
	heard    time.Time  // when the last frame arrived
	ready    *frame.Ready
	unknown  string // a type of frame that flowd ignores
	batches  map[uint64]*batch
	granted  int // credits
	messages []frame.Incoming
	ended    bool // "end" was sent
}

// piece is a part of what the program reads.
type piece struct {
	data  []byte
	pause time.Duration // before each byte; 0: all bytes at once
}

// batch is a batch that was sent.
type batch struct {
	results  []frame.Result
	answered []bool
	left     int // messages that are not answered
}

// greeting has what differs from the usual "hello".
type greeting struct {
	body     int // limits.body; 0: limitBody
	config   []byte
	position []byte
	more     map[string]any
	then     []byte // frames that follow at once
}

// exitDelay is how long an exit may take after the pipe was closed.
const exitDelay = 1500 * time.Millisecond

// start starts a process, and waits until it is ready.
func (c *check) start(g greeting) (*player, error) {
	p, err := c.greet(g)
	if err != nil {
		return nil, err
	}
	if err := p.untilReady(); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// greet starts a process, and sends "hello".
func (c *check) greet(g greeting) (*player, error) {
	if g.body == 0 {
		g.body = limitBody
	}
	if g.config == nil {
		g.config = c.Config
	}
	p, err := c.launch()
	if err != nil {
		return nil, wrong(ruleReady, "it can't be started: %v", programs.Cause(err))
	}
	p.body = g.body
	hello := frame.Hello{Kind: c.Kind, Name: "check", Pipeline: "check", Instances: 1, Config: g.config, Position: g.position,
		MaxBody: g.body, Window: limitWindow}
	header := hello.Header()
	if g.more != nil {
		more, _ := json.Marshal(g.more) // plain values
		header = append(append(bytes.TrimSuffix(header, []byte("}")), ','), more[1:]...)
	}
	p.write(append(encoded(header), g.then...))
	go p.read()
	return p, nil
}

// launch starts a process.
func (c *check) launch() (p *player, err error) {
	p = &player{c: c, cmd: &exec.Cmd{}, said: &programs.Tail{}, exited: make(chan struct{}),
		pieces: make(chan piece, limitWindow), changed: make(chan struct{}, 1), batches: map[uint64]*batch{}}
	p.close = sync.OnceFunc(func() { close(p.pieces) })
	p.mark = c.Program.Prepare(p.cmd, frame.Variable)
	handle := func(line []byte, _ bool) error { c.Said(line); return nil }
	stdout, stderr := &programs.Lines{Max: 4 << 10, Handle: handle}, &programs.Lines{Max: 4 << 10, Handle: handle}
	p.cmd.Stdout, p.cmd.Stderr = stdout, io.MultiWriter(stderr, p.said)
	in, out, err := frame.Start(p.cmd)
	if err != nil {
		return nil, err
	}
	p.out = out
	go p.writeLoop(in)
	go func() {
		p.status = programs.Wait(p.cmd, p.mark)
		_, _ = stdout.Flush(), stderr.Flush() // Handle never fails
		close(p.exited)
	}()
	return p, nil
}

// writeLoop writes pieces until the last one is written or the program has ended.
func (p *player) writeLoop(to *os.File) {
	go func() {
		<-p.exited
		_ = to.SetWriteDeadline(time.Now()) // a process that has left the family may hold the pipe open
	}()
	defer to.Close()
	for next := range p.pieces {
		if next.pause == 0 {
			_, _ = to.Write(next.data) // the program has gone if this fails: the reader notices
			continue
		}
		for i := range next.data {
			time.Sleep(next.pause)
			_, _ = to.Write(next.data[i : i+1])
		}
	}
}

// encoded returns the bytes of a frame.
func encoded(header []byte, payloads ...[]byte) []byte {
	var buf bytes.Buffer
	_ = frame.NewWriter(&buf).Write(header, payloads...) // a buffer takes everything
	return buf.Bytes()
}

// write passes frames to the program.
func (p *player) write(data []byte) { p.pieces <- piece{data: data} }

// newBatch returns the frame of a batch, whose header has more fields.
func (p *player) newBatch(payloads [][]byte, more map[string]any) (number uint64, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number = uint64(len(p.batches) + 1)
	n := len(payloads)
	p.batches[number] = &batch{results: make([]frame.Result, n), answered: make([]bool, n), left: n}
	sizes := make([]int, n)
	for i, payload := range payloads {
		sizes[i] = len(payload)
	}
	header := map[string]any{"type": "batch", "batch": number, "sizes": sizes}
	for name, v := range more {
		header[name] = v
	}
	text, _ := json.Marshal(header) // plain values
	return number, encoded(text, payloads...)
}

// sendBatch sends a batch.
func (p *player) sendBatch(payloads [][]byte) (number uint64) {
	number, data := p.newBatch(payloads, nil)
	p.write(data)
	return number
}

// exchange sends a batch, and waits until it is answered.
func (p *player) exchange(r rule, payloads [][]byte) (*batch, error) {
	number := p.sendBatch(payloads)
	return p.batches[number], p.untilAnswered(r)
}

// untilReady waits until the program is ready.
func (p *player) untilReady() error {
	err := p.within(p.c.Start, ruleReady, func() string { return "answer `hello`" }, func() bool { return p.ready != nil })
	if err != nil {
		return err
	}
	switch r := p.ready; {
	case r.Error != nil && r.Setting != "":
		return wrong(ruleRefuse, "it is not ready: config.%s: %v (pass its config)", r.Setting, r.Error)
	case r.Error != nil:
		return wrong(ruleRefuse, "it is not ready: %v", r.Error)
	}
	return nil
}

// untilAnswered waits until all messages are answered.
func (p *player) untilAnswered(r rule) error {
	return p.within(p.c.Timeout, r, p.unanswered, func() bool { return p.unanswered() == "" })
}

// unanswered describes the first messages that are not answered; "": there are none. The lock is held.
func (p *player) unanswered() string {
	for number := uint64(1); number <= uint64(len(p.batches)); number++ {
		if b := p.batches[number]; b.left > 0 {
			first := 0
			for b.answered[first] {
				first++
			}
			return fmt.Sprintf("answer %d of the %d messages of batch %d (the first has index %d)", b.left, len(b.answered), number, first)
		}
	}
	return ""
}

// within waits until done reports true. It fails if the program breaks the protocol, ends, or sends nothing for a time. what
// says what the program has not done then. Both are called with the lock held.
func (p *player) within(silence time.Duration, r rule, what func() string, done func() bool) error {
	began := time.Now()
	for {
		p.mu.Lock()
		fault, finished, over, since := p.fault, done(), p.over, p.heard
		missing, unknown := what(), p.unknown
		p.mu.Unlock()
		if since.Before(began) {
			since = began
		}
		switch left := silence - time.Since(since); {
		case fault != nil:
			return fault
		case finished:
			return nil
		case over:
			return wrong(r, "it did not %s: %s", missing, p.departure())
		case left <= 0:
			if unknown != "" {
				missing += fmt.Sprintf(" (it sent a frame of the unknown type %q)", unknown)
			}
			return wrong(r, "it did not %s, and sent nothing for %s", missing, silence)
		default:
			select {
			case <-p.changed:
			case <-time.After(left):
			case <-p.c.ctx.Done():
				return p.c.ctx.Err()
			}
		}
	}
}

// departure says how the program has gone after it has closed descriptor 4.
func (p *player) departure() string {
	select {
	case <-p.exited:
		return "it exited (" + p.c.Program.Describe(p.status, p.said) + ")"
	case <-time.After(exitDelay):
		return "it closed descriptor 4 and did not exit"
	}
}

// quiet waits for a while, and fails if the program breaks the protocol or ends meanwhile.
func (p *player) quiet(d time.Duration) error {
	select {
	case <-time.After(d):
	case <-p.exited:
	case <-p.c.ctx.Done():
		return p.c.ctx.Err()
	}
	p.mu.Lock()
	fault, over := p.fault, p.over
	p.mu.Unlock()
	switch {
	case fault != nil:
		return fault
	case over:
		return wrong(ruleClose, "%s", p.departure())
	}
	return nil
}

// exits waits until the program has exited. zero demands status 0.
func (p *player) exits(r rule, when string, zero bool) error {
	began := time.Now()
	select {
	case <-p.exited:
	case <-time.After(p.c.Timeout):
		return wrong(r, "%s, it did not exit within %s", when, p.c.Timeout)
	case <-p.c.ctx.Done():
		return p.c.ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.fault != nil:
		return p.fault
	case zero && p.status != nil:
		return wrong(r, "%s, it exited with another status (%s)", when, p.c.Program.Describe(p.status, p.said))
	case time.Since(began) > programs.Grace:
		return warning(ruleTerm, "%s, it took %s to exit", when, time.Since(began).Round(100*time.Millisecond))
	}
	return nil
}

// kill ends the process.
func (p *player) kill() {
	select {
	case <-p.exited: // its process id may be that of another process
	default:
		_ = programs.Kill(p.cmd.Process)
		<-p.exited
	}
	p.close()
	p.out.Close()
}

// read judges the frames of the program until it closes descriptor 4. After a violation it reads on, so that the program does
// not wait.
func (p *player) read() {
	r := bufio.NewReaderSize(p.out, 64<<10)
	for {
		f, err := p.next(r)
		p.mu.Lock()
		p.heard = time.Now()
		switch {
		case err == io.EOF:
			p.over = true
		case err != nil:
			p.blame(wrong(ruleFrames, "it %s", err), f)
		default:
			if fault := p.judge(f); fault != nil {
				p.blame(fault, f)
			}
		}
		broken := p.fault != nil
		p.mu.Unlock()
		select {
		case p.changed <- struct{}{}:
		default:
		}
		if err != nil || broken {
			_, _ = io.Copy(io.Discard, r)
			return
		}
	}
}

// blame keeps the first violation. The lock is held.
func (p *player) blame(fault *finding, f frame.Frame) {
	if p.fault == nil {
		fault.Frame = shown(f)
		p.fault = fault
	}
}

// shown describes a frame in one line.
func shown(f frame.Frame) string {
	const most = 300
	text := string(f.Header[:min(len(f.Header), most)])
	if len(f.Header) > most {
		text += "…"
	}
	if len(f.Body) > 0 {
		text += fmt.Sprintf(" and %d bytes", len(f.Body))
	}
	return text
}
