// Package pool keeps track of jobs that run elsewhere: on slots of this process (see [Local]) or of others. Start at
// [Pool].
//
// A [Call] is one job until it has its answer. An attempt is handed to a [Transport] and taken by a slot. It is then
// answered, lost with its worker, handed back, or times out. That decides whether there is another attempt. Late and
// duplicate answers are dropped.
package pool

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// Policy says how a pool handles its jobs.
type Policy struct {
	Name       string
	Timeout    time.Duration // of one attempt after a slot has taken it; while the pool has no workers, from the start
	Retries    int           // attempts after the first; -1 means no limit
	RetryOn    []string      // which of Lost, TimedOut and Failed are retried
	MaxPending int           // calls handed to the transport at once; others wait here
}

// How an attempt can fail.
const (
	Lost     = "lost"    // its worker has gone
	TimedOut = "timeout" // it took too long
	Failed   = "error"   // a step failed a message
)

// Reasons lists all of them.
var Reasons = []string{Lost, TimedOut, Failed}

// Transport hands attempts to slots. Its methods return quickly, and are called without a lock. It reports with
// Taken, Returned, Lost, Vanished and Answer.
type Transport interface {
	Launch(c *Call, try int)
	Revoke(c *Call, try int) // the attempt has no answer, and is not awaited any more; its slot stops
}

// Call is a job in progress.
type Call struct {
	ID   uint64
	Jobs *engine.Batch // the steps work on copies of these; read-only
	Data any           // for the transport

	done   func(*Result, error) // called once
	try    int                  // number of the current attempt, from 1; 0: not handed over yet
	taken  bool                 // a slot has taken it
	failed int                  // failed attempts
	timer  *time.Timer          // of the attempt, or of the pause before it
	clock  int                  // number of the current timer: an earlier one that could not be stopped in time is ignored
	pauses bool                 // the call is in the pause before its attempt
	ended  bool
}

// Pool manages the jobs of one pool.
type Pool struct {
	Policy
	transport Transport

	mu      sync.Mutex // guards the fields below
	last    uint64
	pending map[uint64]*Call
	waiting []*Call // waiting for room in pending, oldest first
	members int     // number of workers
	closed  bool
}

// New makes a pool with a number of workers. transport makes its transport.
func New(p Policy, workers int, transport func(*Pool) Transport) *Pool {
	pool := &Pool{Policy: p, pending: map[uint64]*Call{}, members: workers}
	pool.transport = transport(pool)
	return pool
}

var errClosed = engine.Errorf(engine.Transient, "the pool is closed")

// Submit starts a call. done is called once, from any goroutine, with the outcome. jobs must not change any more.
func (p *Pool) Submit(jobs *engine.Batch, done func(*Result, error)) *Call {
	p.mu.Lock()
	p.last++
	c := &Call{ID: p.last, Jobs: jobs, done: done}
	switch {
	case p.closed:
		c.ended = true
		p.mu.Unlock()
		done(nil, errClosed)
	case len(p.pending) >= p.MaxPending:
		p.waiting = append(p.waiting, c)
		p.mu.Unlock()
	default:
		p.begin(c)
		p.mu.Unlock()
		p.transport.Launch(c, 1)
	}
	return c
}

// begin counts a call as pending. p.mu is held, and Launch follows.
func (p *Pool) begin(c *Call) {
	p.pending[c.ID] = c
	c.try = 1
	p.arm(c)
}

// arm starts the timer of an attempt if its time runs.
func (p *Pool) arm(c *Call) {
	c.stop()
	if c.pauses = false; !c.taken && p.members > 0 {
		return // waiting for a slot is not a failure
	}
	clock := c.clock
	c.timer = time.AfterFunc(p.Timeout, func() { p.expired(c, clock) })
}

func (c *Call) stop() {
	c.clock++
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// current returns the call with this attempt, or nil.
func (p *Pool) current(id uint64, try int) *Call {
	if c := p.pending[id]; c != nil && c.try == try {
		return c
	}
	return nil
}

// Awaits reports whether an attempt is still awaited, for a Transport that hands attempts over asynchronously.
func (p *Pool) Awaits(c *Call, try int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current(c.ID, try) != nil
}

// Taken records that a slot has begun an attempt. It returns false if nobody awaits the attempt: the slot must stop.
func (p *Pool) Taken(id uint64, try int) bool {
	p.mu.Lock()
	c := p.current(id, try)
	if c == nil {
		p.mu.Unlock()
		return false
	}
	if c.taken && !p.again(c, Lost) { // the earlier slot is gone
		p.giveUpLost(c)
		return false
	}
	c.taken = true
	p.arm(c)
	p.mu.Unlock()
	return true
}

// Lost says that the slot with an attempt is gone. Another slot may take the attempt.
func (p *Pool) Lost(id uint64, try int) {
	p.mu.Lock()
	c := p.current(id, try)
	if c == nil || !c.taken {
		p.mu.Unlock()
		return
	}
	if c.taken = false; !p.again(c, Lost) {
		p.giveUpLost(c)
		return
	}
	p.arm(c)
	p.mu.Unlock()
}

// giveUpLost ends a call that has lost too many slots, and unlocks p.mu.
func (p *Pool) giveUpLost(c *Call) {
	err := engine.Errorf(engine.Transient, "pool %s: the worker that had the job is gone%s", p.Name, tries(c))
	p.mu.Unlock()
	p.finishCall(c, 0, nil, err)
}

// Returned says that a slot has handed an attempt back, or never had it. The attempt does not count.
func (p *Pool) Returned(id uint64, try int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.current(id, try); c != nil && c.taken {
		c.taken = false
		p.arm(c)
	}
}

// Answer reports the outcome of an attempt.
func (p *Pool) Answer(id uint64, try int, r *Result, err error) {
	p.mu.Lock()
	c := p.pending[id]
	if c != nil && err == nil && !r.fits(c.Jobs.Len()) {
		r, err = nil, engine.Errorf(engine.Permanent, "pool %s: the worker's answer does not match its job", p.Name)
	}
	failure := cmp.Or(err, r.Failure())
	if c == nil || failure != nil && c.try != try { // late, or from an attempt that was given up
		p.mu.Unlock()
		return
	}
	if failure != nil && p.again(c, Failed) {
		c.taken = false
		c.try++
		c.stop()
		c.pauses = true
		clock := c.clock
		c.timer = time.AfterFunc(pause(c.failed), func() { p.relaunch(c, clock) })
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.finishCall(c, try, r, err)
}

// pause returns the pause before a failed job is retried. It grows, since the cause may take a while to disappear.
func pause(n int) time.Duration {
	const first, most = 200 * time.Millisecond, 30 * time.Second
	return rand.N(min(most, first<<min(n-1, 10)))
}

func (p *Pool) relaunch(c *Call, clock int) {
	p.mu.Lock()
	here, try := c.clock == clock, c.try
	if here {
		p.arm(c)
	}
	p.mu.Unlock()
	if here {
		p.transport.Launch(c, try)
	}
}

// expired handles the timeout of an attempt.
func (p *Pool) expired(c *Call, clock int) {
	p.mu.Lock()
	if c.clock != clock {
		p.mu.Unlock()
		return
	}
	try, taken := c.try, c.taken
	if !p.again(c, TimedOut) {
		err := engine.Errorf(engine.Timeout, "pool %s: no answer within %v%s", p.Name, p.Timeout, tries(c))
		if !taken {
			err = engine.Errorf(engine.Timeout,
				"pool %s: there was no worker within %v%s (flowd worker --pool %s starts one)", p.Name, p.Timeout,
				tries(c), p.Name)
		}
		p.mu.Unlock()
		p.finishCall(c, 0, nil, err)
		return
	}
	if taken { // otherwise it keeps waiting in its place
		c.taken = false
		c.try++
	}
	p.arm(c)
	p.mu.Unlock()
	if taken {
		p.transport.Revoke(c, try)
		p.transport.Launch(c, try+1)
	}
}

// again reports whether to retry, and counts the failed attempt.
func (p *Pool) again(c *Call, reason string) bool {
	c.failed++
	return slices.Contains(p.RetryOn, reason) && (p.Retries < 0 || c.failed <= p.Retries)
}

func tries(c *Call) string {
	if c.failed < 2 {
		return ""
	}
	return fmt.Sprintf(", after %d attempts", c.failed)
}

// finishCall ends a call with its answer, and hands over the next one. answered is the attempt that the answer came
// from, or 0.
func (p *Pool) finishCall(c *Call, answered int, r *Result, err error) {
	p.mu.Lock()
	if c.ended {
		p.mu.Unlock()
		return
	}
	c.ended = true
	c.stop()
	try := c.try
	delete(p.pending, c.ID)
	if try == 0 {
		p.waiting = slices.DeleteFunc(p.waiting, func(w *Call) bool { return w == c })
	}
	var next *Call
	if len(p.waiting) > 0 && len(p.pending) < p.MaxPending {
		next = p.waiting[0]
		p.waiting[0] = nil
		p.waiting = p.waiting[1:]
		p.begin(next)
	}
	p.mu.Unlock()
	if try > 0 && try != answered {
		p.transport.Revoke(c, try)
	}
	if next != nil {
		p.transport.Launch(next, 1)
	}
	c.done(r, err)
}

// Cancel ends a call that nobody awaits any more.
func (p *Pool) Cancel(c *Call, why error) { p.finishCall(c, 0, nil, why) }

// Members sets the number of workers.
func (p *Pool) Members(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := (n > 0) != (p.members > 0)
	p.members = n
	if !changed {
		return
	}
	for _, c := range p.pending {
		if !c.taken && !c.pauses {
			p.arm(c)
		}
	}
}

// Vanished says that the transport has lost its copy of an attempt. It reports whether the attempt is handed over
// again, under a new number that does not count as a retry. An attempt that a slot has taken stays there: see
// [Pool.Returned] for a slot that turns out to lack it.
func (p *Pool) Vanished(id uint64, try int) bool {
	p.mu.Lock()
	c := p.current(id, try)
	if c == nil || c.pauses || c.taken {
		p.mu.Unlock()
		return false
	}
	c.try++
	p.arm(c)
	p.mu.Unlock()
	p.transport.Revoke(c, try)
	p.transport.Launch(c, try+1)
	return true
}

// Counts returns how many calls slots have, and how many wait for one.
func (p *Pool) Counts() (taken, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.pending {
		if c.taken {
			taken++
		}
	}
	return taken, len(p.pending) + len(p.waiting) - taken
}

// Close ends all calls.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	all := slices.AppendSeq(p.waiting, maps.Values(p.pending))
	p.waiting = nil
	p.mu.Unlock()
	for _, c := range all {
		p.finishCall(c, 0, nil, errClosed)
	}
}

// ErrRevoked is the cause with which the steps of a slot stop if nobody awaits their answer.
var ErrRevoked = errors.New("nobody is waiting for the answer any more")
