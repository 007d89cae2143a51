package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// origin is a source whose Reads fail as faults says. If it is flaky, each Ack fails once.
type origin struct {
	Source
	w      *world
	flaky  bool
	faults map[int]int // by number of messages read: how the next Read fails, once

	mu             sync.Mutex // guards the fields below
	tried          map[uint64]int
	told           []engine.Result
	before         int // of them, by the plan before a reload
	acker          engine.Acker
	lost           map[uint64]bool // leases that were taken away; nil: messages are not leased
	ends           map[uint64]bool
	oldest         uint64 // message whose result was not reported
	opens          int
	opened, closed int

	quiet            map[int]int // by number of messages read: how often the connection is cut before the next one
	standing         time.Duration
	connected, cutAt time.Time
}

func (o *origin) Open(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reopens()
	if o.opens++; o.opens%3 == 2 {
		return errors.New("not yet")
	}
	o.opened++
	return nil
}

func (o *origin) Close(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed++
	return nil
}

func (o *origin) Read(ctx context.Context, b *engine.Batch) (engine.Acker, error) {
	if !o.w.crowded {
		time.Sleep(time.Nanosecond) // all results are reported
	}
	if err := o.cut(ctx); err != nil || ctx.Err() != nil {
		return nil, err
	}
	how, faulty := o.faults[o.Taken()]
	delete(o.faults, o.Taken())
	if faulty && how == 0 {
		return nil, errors.New("scripted")
	}
	if faulty && how == 1 {
		panic("scripted")
	}
	o.mu.Lock()
	told := len(o.told) - o.before
	o.mu.Unlock()
	_, err := o.Source.Read(ctx, b)
	switch {
	case err == engine.ErrEnd:
	case faulty && how == 2:
		err = errors.New("scripted")
	case faulty && o.Takes != engine.TakesNothing && told > 0: // the Acker of the added messages is known
		panic("scripted")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if most := o.w.p.Engine.MaxReplay; o.Takes == engine.TakesPosition && most > 0 && !o.flaky &&
		o.Taken()-int(o.oldest) > most {
		o.w.t.Errorf("read %d, %d is not settled: more than %d between", o.Taken(), o.oldest, most)
	}
	if o.Takes == engine.TakesNothing {
		return nil, err
	}
	return o.acker, err
}

// lends is an origin that leases its messages, and revokes some leases.
type lends struct{ *origin }

func (l lends) Renew(_ context.Context, refs []uint64) (lost []uint64, next time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ref := range refs {
		if ref%29 == 0 {
			lost, l.lost[ref] = append(lost, ref), true
		}
	}
	return lost, 60 * time.Millisecond, nil
}

func (o *origin) Ack(ctx context.Context, rs []engine.Result) (again []engine.Result, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range rs {
		if o.tried[r.Ref]++; o.flaky && ctx.Err() == nil && o.tried[r.Ref] == 1 && r.Ref%3 == 0 {
			again = append(again, r)
			continue
		}
		o.told = append(o.told, r)
		if o.ends == nil {
			o.ends = map[uint64]bool{}
		}
		for o.ends[r.Ref] = true; o.ends[o.oldest]; o.oldest++ {
			delete(o.ends, o.oldest)
		}
	}
	return again, nil
}

// ledgerOfStakes counts the stakes that were put, and those that were told their end.
type ledgerOfStakes struct {
	mu   sync.Mutex
	put  map[uint64]int    // by root
	ends map[uint64][]bool // by root: whether it was committed
}

func (l *ledgerOfStakes) Settle(_ context.Context, committed, rolledBack []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range committed {
		l.ends[id] = append(l.ends[id], true)
	}
	for _, id := range rolledBack {
		l.ends[id] = append(l.ends[id], false)
	}
}

// twice splits every third message in two. It is one of the input's own steps.
func twice(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		if body := m.Bytes(); m.Ref%3 == 0 {
			b.Split(m, func(yield func([]byte, error) bool) {
				if yield(body, nil) {
					yield(body, nil)
				}
			})
		}
	}
	return nil
}

// script is the scripted step: it does what the message says.
type script struct {
	stakes *ledgerOfStakes

	mu    sync.Mutex
	tries map[string]int // attempts of flaky messages
}

func (s *script) Process(_ context.Context, b *engine.Batch) error {
	for m := range b.All() {
		s.one(b, m)
	}
	return nil
}

func (s *script) one(b *engine.Batch, m *engine.Message) {
	body := string(m.Bytes())
	if id, ok := m.Meta.Get("root"); ok && m.Ref%2 == 0 {
		s.stakes.mu.Lock()
		s.stakes.put[uint64(id.(int))]++
		s.stakes.mu.Unlock()
		m.Stake(s.stakes, uint64(id.(int)))
	}
	do, n := deed(body)
	switch do {
	case "drop":
		m.Drop()
	case "fail":
		m.Meta = m.Meta.With("half", "done")
		m.Fail(errors.New("scripted"))
	case "flaky":
		s.mu.Lock()
		piece := fmt.Sprint(body, m.Part())
		if s.tries[piece]++; s.tries[piece] <= n {
			m.Meta = m.Meta.With("half", "done")
			m.SetBytes([]byte("half"))
			m.Fail(engine.Errorf(engine.Transient, "scripted"))
		}
		s.mu.Unlock()
	case "slow":
		time.Sleep(3 * time.Millisecond)
	case "delay":
		m.Delay(4 * time.Millisecond)
	case "park":
		resume := m.Park()
		time.AfterFunc(5*time.Millisecond, func() { resume(nil) })
	case "parkfail":
		resume := m.Park()
		go resume(func(*engine.Message) error { return errors.New("scripted") })
	case "panic":
		panic("scripted")
	case "split":
		split(b, m, body, n, n)
	case "cut":
		split(b, m, body, n+1, n)
	}
}

// split makes parts. Only the first ones are valid.
func split(b *engine.Batch, m *engine.Message, body string, parts, good int) {
	b.Split(m, func(yield func([]byte, error) bool) {
		for i := range parts {
			if i == good {
				yield(nil, errors.New("cut off"))
				return
			}
			if !yield([]byte(partOf(body, i)), nil) {
				return
			}
		}
	})
}

func partOf(body string, i int) string {
	do, n := deed(body)
	return strings.Replace(body, fmt.Sprintf("%q", fmt.Sprint(do, n)), fmt.Sprintf("%q", fmt.Sprint("part", i)), 1)
}

// window is an interval of time since the world began.
type window struct{ from, length time.Duration }

func (w window) now(began time.Time) bool {
	at := time.Since(began)
	return at >= w.from && at < w.from+w.length
}

// outFaults says how an output fails: one of n writes (0: none), or all in an interval.
type outFaults struct {
	transient, hang, slow int
	auth, down, away      window // away: unreachable
	reopen                bool   // the first attempt to open a new instance fails
}

// judge is an output. It fails as faults and the messages say, and checks the order, the payloads and the number of attempts.
type judge struct {
	w          *world
	name       string
	sequential bool
	probes     bool
	delay      int
	most       int // maximum attempts of a message; 0: no limit
	timeout    time.Duration
	faults     outFaults
	limited    *passages // nil: no limit
	r          *rand.Rand

	mu        sync.Mutex
	instances []*instanceOf
	took      int64
	late      int              // number of writes that return too late
	last      map[string]place // by input, key and batch key
	under     map[string]int   // writes in flight, by order key
	keys      map[string]int   // and by batch key
	failed    map[string]int   // failed attempts, by message
	shaken    map[string]int   // of these, those that its script demanded
	parked    map[string]int   // likewise
	dead      map[string]int   // permanent refusals, by message
	heldAt    time.Time        // since when it has been unreachable; zero: it is reachable
}

// place is the position of a message in its input, and among the parts of its root.
type place struct{ id, part int }

// instanceOf is one instance of a judge.
type instanceOf struct {
	*judge
	opened, closed int // guarded by the judge's lock
}

type probed struct{ *instanceOf }

func (p probed) Probe(ctx context.Context) error {
	switch {
	case p.faults.auth.now(p.w.began):
		return engine.Errorf(engine.Auth, "still refused")
	case p.faults.down.now(p.w.began):
		return errors.New("still down")
	case p.faults.away.now(p.w.began):
		return away(ctx)
	}
	return nil
}

// away returns the error of a component whose server is unreachable.
func away(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://away.example", http.NoBody)
	if err != nil {
		return err
	}
	_, err = (&http.Client{Transport: httpx.Transport{RoundTripper: refuses{}}}).Do(req) //nolint:bodyclose // there is no answer
	return httpx.Lost(ctx, req, err)
}

// refuses is a network on which no server is reachable.
type refuses struct{}

func (refuses) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func (j *judge) instance() engine.Output {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := &instanceOf{judge: j}
	j.instances = append(j.instances, i)
	if j.probes {
		return probed{i}
	}
	return i
}

func (i *instanceOf) Open(context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.faults.reopen && len(i.instances) == 2 {
		return errors.New("does not open")
	}
	i.opened++
	return nil
}

func (i *instanceOf) Close(context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed++
	return nil
}

func (j *judge) Traits() engine.Traits {
	return engine.Traits{Sequential: j.sequential, Bulk: j.delay%2 == 1}
}

// write is the content of one Write.
type write struct {
	all      []*engine.Message
	pieces   [][]string // the pieces of each message
	keys     map[string]bool
	batchKey string
}

func (i *instanceOf) Write(ctx context.Context, b *engine.Batch) error {
	j := i.judge
	j.mu.Lock()
	if i.opened != 1 || i.closed > 0 {
		j.w.t.Errorf("output %s: a write to an instance that is not open: opened %d times, closed %d times", j.name,
			i.opened, i.closed)
	}
	wr := j.look(b)
	if n := len(wr.all); n > 1 && !j.heldAt.IsZero() && time.Now().After(j.heldAt) {
		j.w.t.Errorf("output %s: out of reach, and probed with %d messages", j.name, n)
	}
	switch {
	case j.faults.auth.now(j.w.began):
		j.mu.Unlock()
		return engine.Errorf(engine.Auth, "credentials refused")
	case j.faults.down.now(j.w.began):
		j.mu.Unlock()
		return errors.New("down")
	case j.faults.away.now(j.w.began):
		if j.heldAt.IsZero() {
			j.heldAt = time.Now()
		}
		j.mu.Unlock()
		return away(ctx)
	case j.hits(j.faults.hang) && j.mayFail(wr): // it ignores its context
		j.late++
		j.mu.Unlock()
		time.Sleep(3 * j.timeout)
		for _, m := range wr.all { // too late to matter, unless the run ends
			m.Fail(errors.New("late"))
		}
		return nil
	case j.hits(j.faults.slow) && j.mayFail(wr):
		j.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	case j.hits(j.faults.transient) && j.mayFail(wr):
		j.mu.Unlock()
		return errors.New("a bad day")
	}
	j.judge(wr)
	j.enter(wr)
	j.mu.Unlock()
	time.Sleep(time.Duration(j.delay) * time.Millisecond)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.heldAt = time.Time{} // even if this write began before the outage
	j.leave(wr)
	return nil
}

func (j *judge) hits(oneIn int) bool { return oneIn > 0 && j.r.IntN(oneIn) == 0 }

// mayFail reports whether all messages of a write have an attempt left, and counts this one.
func (j *judge) mayFail(wr *write) bool {
	for _, pieces := range wr.pieces {
		for _, p := range pieces {
			if do, _ := deed(p); j.most > 0 && do != "refuse" && j.failed[p]+1 >= j.most {
				return false
			}
		}
	}
	for _, pieces := range wr.pieces {
		j.fails(pieces)
	}
	return true
}

func (j *judge) fails(pieces []string) {
	for _, p := range pieces {
		if j.failed[p]++; j.most > 0 && j.failed[p] > j.most && !j.w.merges && !j.w.twins {
			j.w.t.Errorf("output %s: %s was tried %d times, want at most %d", j.name, p, j.failed[p], j.most)
		}
	}
}

// judge decides on each message of a write.
func (j *judge) judge(wr *write) {
	behind := false
	for n, m := range wr.all {
		if behind && j.w.ordered && j.sequential {
			m.Fail(engine.ErrBehind)
			continue
		}
		err, parks := j.verdict(wr.pieces[n])
		switch {
		case err != nil:
			behind = true
			m.Fail(err)
		case parks:
			behind = true
			j.parks(m, wr.pieces[n])
		default:
			j.took++
			j.wrote(wr, n)
		}
	}
}

// verdict returns the result of a message. Its worst piece decides.
func (j *judge) verdict(pieces []string) (err error, parks bool) {
	for _, p := range pieces {
		do, n := deed(p)
		switch {
		case do == "reject", do == "refuse" && j.most == 0:
			if j.dead[p]++; j.dead[p] > 1 && !j.w.merges && !j.w.twins {
				j.w.t.Errorf("output %s: %s was refused for good and came again", j.name, p)
			}
			err = engine.Errorf(engine.Rejected, "rejected")
		case do == "refuse" && err == nil:
			err = errors.New("refused")
		case do == "shaky" && err == nil && j.shaken[p] < n && j.lasts(pieces):
			err = errors.New("shaky")
		case do == "outpark":
			parks = true
		}
	}
	if err == nil {
		return nil, parks
	}
	for _, p := range pieces {
		j.shaken[p]++
	}
	j.fails(pieces)
	return err, false
}

// lasts reports whether each piece has another attempt.
func (j *judge) lasts(pieces []string) bool {
	return j.most == 0 || !slices.ContainsFunc(pieces, func(p string) bool { return j.failed[p]+1 >= j.most })
}

// parks parks a message of the write. Later it ends the message, or fails it once.
func (j *judge) parks(m *engine.Message, pieces []string) {
	resume := m.Park()
	fails := false
	for _, p := range pieces {
		if do, n := deed(p); do == "outpark" && j.parked[p] < n && j.lasts(pieces) {
			fails = true
		}
	}
	if fails {
		for _, p := range pieces {
			j.parked[p]++
		}
		j.fails(pieces)
	}
	go func() {
		time.Sleep(3 * time.Millisecond)
		resume(func(*engine.Message) error {
			if fails {
				return errors.New("after all")
			}
			j.mu.Lock()
			j.took++
			j.keeps(pieces)
			j.mu.Unlock()
			return nil
		})
	}()
}

// enter and leave surround a write. They check that no order key and no batch key is in two writes at once.
func (j *judge) enter(wr *write) {
	for k := range wr.keys {
		if j.under[k]++; j.under[k] > 1 {
			j.w.t.Errorf("output %s: key %s is in two writes at once: %v", j.name, k, wr.pieces)
		}
	}
	if j.keys[wr.batchKey]++; wr.batchKey != "" && j.keys[wr.batchKey] > 1 {
		j.w.t.Errorf("output %s: two batches of key %s overlap", j.name, wr.batchKey)
	}
}

func (j *judge) leave(wr *write) {
	j.keys[wr.batchKey]--
	for k := range wr.keys {
		j.under[k]--
	}
}

// look reads the messages of a write, and checks them.
func (j *judge) look(b *engine.Batch) *write {
	wr := &write{keys: map[string]bool{}}
	for m := range b.All() {
		if b.Trigger() != "" {
			wr.batchKey = m.BatchKey()
		}
		if _, marked := m.Meta.Get("marked"); j.w.repaired != marked {
			j.w.t.Errorf("output %s: %s skipped a step", j.name, m.Bytes())
		}
		if _, half := m.Meta.Get("half"); half {
			j.w.t.Errorf("output %s: %s carries what a failed step has done", j.name, m.Bytes())
		}
		wr.all = append(wr.all, m)
		wr.pieces = append(wr.pieces, strings.Split(string(m.Bytes()), "+"))
		j.see(wr, len(wr.all)-1)
	}
	if j.limited != nil {
		j.limited.pass(len(wr.all))
	}
	return wr
}

// see checks the payload and the order of the pieces of one message.
func (j *judge) see(wr *write, n int) {
	mine := map[string]bool{}
	for _, piece := range wr.pieces[n] {
		in, k, at := j.parse(piece)
		if !j.w.ordered {
			continue
		}
		key := fmt.Sprint(k)
		if wr.keys[key] && !j.sequential {
			j.w.t.Errorf("output %s: key %s is twice in one write", j.name, key)
		}
		mine[key] = true
		last := j.last[wr.route(in, k)]
		if at.id < last.id || at.id == last.id && at.part < last.part && !j.w.twins {
			j.w.t.Errorf("output %s: input %d, key %s: %v came after %v: %v", j.name, in, key, at, last, wr.pieces[n])
		}
	}
	for k := range mine {
		wr.keys[k] = true
	}
}

func (wr *write) route(in, k int) string { return fmt.Sprint(in, " ", k, " ", wr.batchKey) }

// wrote notes the order of written messages.
func (j *judge) wrote(wr *write, n int) {
	j.keeps(wr.pieces[n])
	for _, piece := range wr.pieces[n] {
		in, k, at := j.parse(piece)
		j.last[wr.route(in, k)] = at
	}
}

// keeps notes written pieces for the steps that keep something.
func (j *judge) keeps(pieces []string) {
	if j.w.keeping != nil {
		j.w.keeping.wrote(pieces)
	}
}

// parse returns the place of a piece, and checks that the piece is a message that was read, or a part of one.
func (j *judge) parse(piece string) (in, key int, at place) {
	if _, err := fmt.Sscanf(piece, `{"in":%d,"id":%d,"k":%d`, &in, &at.id, &key); err != nil {
		j.w.t.Errorf("output %s: %q: %v", j.name, piece, err)
		return 0, 0, place{}
	}
	if k := j.w.keeping; k != nil {
		at, known := k.places[piece]
		if !known {
			j.w.t.Errorf("output %s: %s was never read", j.name, piece)
		}
		return in, key, at
	}
	want := j.w.sources[in].Payloads[at.id]
	do, n := deed(piece)
	if do == "part" {
		at.part = n
		want = partOf(want, n)
	}
	if piece != want {
		j.w.t.Errorf("output %s: %s, want %s", j.name, piece, want)
	}
	return in, key, at
}
