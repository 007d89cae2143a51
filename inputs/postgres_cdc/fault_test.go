package postgrescdc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
)

const numbers = `CREATE TABLE a (id int PRIMARY KEY, v text)`

// insert inserts rows, each in its own transaction.
func (d *database) insert(t *testing.T, from, to int) {
	t.Helper()
	d.exec(t, fmt.Sprintf(`DO $$ BEGIN FOR i IN %d..%d LOOP INSERT INTO a VALUES (i, 'x'); COMMIT; END LOOP; END $$`, from, to))
}

// confirmed returns t if the server knows that everything is settled, and f otherwise.
func (d *database) confirmed(t *testing.T) string {
	t.Helper()
	return d.exec(t, `SELECT confirmed_flush_lsn >= '`+d.exec(t, `SELECT pg_current_wal_lsn()`)+
		`' FROM pg_replication_slots WHERE slot_name = '`+d.slot+`'`)
}

// caughtUp waits until the server knows that everything is settled.
func (d *database) caughtUp(t *testing.T) {
	t.Helper()
	at := d.exec(t, `SELECT pg_current_wal_lsn()`)
	until(t, "all settled", func() bool {
		return d.exec(t, `SELECT confirmed_flush_lsn >= '`+at+`' FROM pg_replication_slots WHERE slot_name = '`+d.slot+`'`) == "t"
	})
}

// once checks that there is one insert of each of the rows 1 to n, in order.
func once(t *testing.T, bodies []string, n int) {
	t.Helper()
	var got []string
	for _, e := range docs(t, bodies) {
		got = append(got, string(e.After["id"]))
	}
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprint(i + 1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d messages instead of %d, or another order: %.300v", len(got), n, got)
	}
}

func TestAStopRepeatsNothing(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers)
	cfg := d.config()
	cfg.AckInterval = time.Minute // only the stop tells the server
	sink := &enginetest.Sink{}
	r := start(t, cfg, sink)
	r.ready()
	d.insert(t, 1, 100)
	r.has(100)
	r.end()
	d.insert(t, 101, 200)
	r = start(t, cfg, sink)
	once(t, r.has(200), 200)
}

// cut ends the connections of a slot, as a network failure would.
func (d *database) cut(t *testing.T) {
	t.Helper()
	d.exec(t, `SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name LIKE '`+d.slot+`%' AND active`)
}

func TestALostConnectionRepeatsNothing(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers)
	cfg := d.config()
	cfg.AckInterval = time.Minute // so that the server sends everything again
	r := start(t, cfg, &enginetest.Sink{})
	r.ready()
	for i := range 5 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			d.insert(t, 400*i+1, 400*i+200)
			d.exec(t, fmt.Sprintf(`INSERT INTO a SELECT i, repeat('y', 500) FROM generate_series(%d, %d) i`, 400*i+201, 400*i+400))
		}()
		r.has(400*i + 100 + 50*i) // in the middle of single transactions, and of a large one
		d.cut(t)
		<-done
	}
	once(t, r.has(2000), 2000)
	if !strings.Contains(r.log.String(), "input failed and is restarted") {
		t.Error("no connection was lost")
	}
}

func TestTheServerIsRestarted(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgtest.Own(t, "fsync=on"), numbers)
	r := start(t, d.config(), &enginetest.Sink{})
	r.ready()
	for i := range 3 {
		d.insert(t, 300*i+1, 300*i+300)
		r.has(300*i + 100)
		d.Stop(t)
		d.Start(t)
	}
	once(t, r.has(900), 900)
}

// A server waits for a slow output, and does not end the connection meanwhile.
func TestASlowOutput(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgtest.Own(t, "wal_sender_timeout=900ms"), numbers)
	sink := &enginetest.Sink{Block: make(chan struct{})}
	r := start(t, d.config(), sink)
	r.ready()
	d.exec(t, `INSERT INTO a SELECT i, repeat('y', 5000) FROM generate_series(1, 5000) i`) // more than is in flight
	before := d.exec(t, `SELECT active_pid FROM pg_replication_slots`)
	d.exec(t, `SELECT pg_sleep(3)`)
	if got := d.exec(t, `SELECT active_pid FROM pg_replication_slots`); got != before || got == "" {
		t.Errorf("the connection was lost: %s instead of %s\n%s", got, before, r.log.String())
	}
	if got := d.confirmed(t); got != "f" {
		t.Error("the server was told of what is not delivered")
	}
	close(sink.Block)
	once(t, r.has(5000), 5000)
	d.caughtUp(t)
}

// Changes of other tables do not make the server keep its log.
func TestAnIdleTableKeepsNoLog(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgtest.Own(t, "wal_sender_timeout=1s"), numbers, `CREATE TABLE b (id int)`)
	cfg := d.config()
	cfg.Tables = []string{"public.a"}
	r := start(t, cfg, &enginetest.Sink{})
	r.ready()
	d.exec(t, `INSERT INTO b SELECT generate_series(1, 10000)`)
	d.caughtUp(t)
	at := r.plan.Snapshot().Inputs[0].Progress.Positions[0]
	if at.Name != d.slot || at.Settled <= 0 || at.Lag() != 0 {
		t.Errorf("progress is %+v", at)
	}
}

func TestASlotThatIsDropped(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers)
	r := start(t, d.config(), &enginetest.Sink{})
	r.ready()
	until(t, "the slot dropped", func() bool {
		d.cut(t)
		return d.exec(t, `SELECT count(pg_drop_replication_slot(slot_name)) FROM pg_replication_slots WHERE slot_name = '`+d.slot+
			`' AND NOT active`) == "1"
	})
	<-r.done
	if err := r.rep.Err; engine.ErrorOf(err, "?").Class != engine.Permanent || !strings.Contains(err.Error(), "slot "+d.slot+" is gone") {
		t.Errorf("the run ended with %v", err)
	}
}

func TestASlotThatIsLost(t *testing.T) {
	t.Parallel()
	d := fresh(t, pgtest.Own(t, "max_slot_wal_keep_size=1MB", "wal_keep_size=0", "max_wal_size=32MB", "min_wal_size=32MB"), numbers)
	cfg := d.config()
	cfg.MaxSlotLag = 64 << 10
	sink := &enginetest.Sink{Block: make(chan struct{})}
	r := start(t, cfg, sink)
	r.ready()
	d.exec(t, `INSERT INTO a VALUES (1, 'x')`)
	until(t, "a lost slot", func() bool {
		d.exec(t, `INSERT INTO a SELECT i, repeat('y', 1000) FROM generate_series(2, 5000) i`, `TRUNCATE a`, `SELECT pg_switch_wal()`,
			`CHECKPOINT`)
		return d.exec(t, `SELECT wal_status FROM pg_replication_slots`) == "lost"
	})
	close(sink.Block)
	<-r.done
	if err := r.rep.Err; engine.ErrorOf(err, "?").Class != engine.Permanent || !strings.Contains(err.Error(), "is lost") {
		t.Errorf("the run ended with %v", err)
	}
}

func TestASlotThatGrows(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers)
	cfg := d.config()
	cfg.MaxSlotLag = 1 << 20
	sink := &enginetest.Sink{Block: make(chan struct{})}
	r := start(t, cfg, sink)
	r.ready()
	d.exec(t, `INSERT INTO a SELECT i, repeat('y', 1000) FROM generate_series(1, 3000) i`)
	until(t, "a warning", func() bool { return strings.Contains(r.log.String(), "the server keeps much of its log") })
	close(sink.Block)
	once(t, r.has(3000), 3000)
	if n := strings.Count(r.log.String(), "the server keeps much of its log"); n > 3 {
		t.Errorf("it warns %d times", n)
	}
}

func TestASlotThatAnotherProcessReads(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers)
	first := start(t, d.config(), &enginetest.Sink{})
	first.ready()
	d.insert(t, 1, 10)
	first.has(10)
	second := start(t, d.config(), &enginetest.Sink{})
	until(t, "an explanation", func() bool { return strings.Contains(second.log.String(), "another process reads this slot") })
	first.end()
	d.insert(t, 11, 20)
	once(t, append(first.sink.Bodies(), second.has(10)...), 20)
}

// An interrupted snapshot starts again, and leaves no slot behind.
func TestASnapshotIsInterrupted(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers, `INSERT INTO a SELECT i, repeat('x', 1000) FROM generate_series(1, 5000) i`)
	sink := &enginetest.Sink{Block: make(chan struct{})}
	r := start(t, d.config(), sink)
	until(t, "reading a snapshot", func() bool { return strings.Contains(r.log.String(), "reading a snapshot") })
	if got := d.exec(t, `SELECT slot_name || temporary FROM pg_replication_slots WHERE database = '`+d.slot+`'`); got != d.slot+
		"_snapshottrue" {
		t.Errorf("slots while the snapshot is read: %q", got)
	}
	d.cut(t)
	d.exec(t, `UPDATE a SET v = 'new' WHERE id = 1`)
	close(sink.Block)
	until(t, "another attempt", func() bool { return strings.Count(r.log.String(), "reading a snapshot") == 2 })
	r.ready()
	d.exec(t, `INSERT INTO a VALUES (5001, 'x')`)
	until(t, "the change", func() bool {
		return strings.Contains(strings.Join(sink.Bodies()[max(0, len(sink.Bodies())-5):], ""), `"id":5001`)
	})
	rows := map[string]string{}
	for _, e := range docs(t, sink.Bodies()) {
		rows[string(e.After["id"])] = string(e.After["v"])
	}
	if len(rows) != 5001 || rows["1"] != `"new"` {
		t.Errorf("%d rows, row 1 is %s", len(rows), rows["1"])
	}
	if got := d.exec(t, `SELECT slot_name FROM pg_replication_slots WHERE database = '`+d.slot+`'`); got != d.slot {
		t.Errorf("slots at the end: %q", got)
	}
}

// A stop before all rows are delivered leaves no slot. A stop after that leaves one, even if no change was read.
func TestASlotHasACompleteSnapshot(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers, `INSERT INTO a VALUES (1, 'x'), (2, 'x')`)
	refused := &enginetest.Sink{Fail: func(string) error { return engine.Errorf(engine.Rejected, "no") }}
	r := start(t, d.config(), refused)
	<-r.done
	if r.rep.Err == nil {
		t.Error("failures have no end")
	}
	slots := func() string {
		return d.exec(t, `SELECT slot_name FROM pg_replication_slots WHERE database = '`+d.slot+`'`)
	}
	until(t, "no slot", func() bool { return slots() == "" }) // the server notices soon that the connection has ended
	r = start(t, d.config(), &enginetest.Sink{})
	once(t, r.has(2), 2)
	r.end()
	if got := slots(); got != d.slot {
		t.Errorf("slots after the rows were delivered: %q", got)
	}
}

// A stop keeps the slot once all rows are settled, even if no Read followed.
func TestAStopKeepsTheSlot(t *testing.T) {
	t.Parallel()
	for _, settled := range []bool{false, true} {
		d := fresh(t, nil, numbers, `INSERT INTO a VALUES (1, 'x'), (2, 'x')`)
		made, err := newInput(d.config(), engine.Env{Log: slog.New(slog.DiscardHandler), Instances: 1})
		if err != nil {
			t.Fatal(err)
		}
		in := made.(*input)
		if err := in.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		var results []engine.Result
		for len(results) < 2 {
			b := engine.NewBatch(2)
			if _, err := in.Read(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			for m := range b.All() {
				results = append(results, engine.Result{Ref: m.Ref, Fate: engine.Delivered})
			}
		}
		want := ""
		if settled {
			want = d.slot
			if _, err := in.Ack(t.Context(), results); err != nil {
				t.Fatal(err)
			}
		}
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, "the slots "+want, func() bool {
			return d.exec(t, `SELECT slot_name FROM pg_replication_slots WHERE database = '`+d.slot+`'`) == want
		})
	}
}

func TestTheSettledPositionIsReported(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers)
	cfg := d.config()
	cfg.AckInterval, cfg.MaxReplay = 10*time.Minute, 10
	r := start(t, cfg, &enginetest.Sink{})
	r.ready()
	before, began := d.exec(t, `SELECT pg_current_wal_lsn()`), time.Now()
	d.insert(t, 1, 25)
	r.has(25)
	until(t, "twenty told", func() bool {
		return d.exec(t, `SELECT confirmed_flush_lsn > '`+before+`' FROM pg_replication_slots WHERE slot_name = '`+d.slot+`'`) == "t"
	})
	if d := time.Since(began); d >= checkInterval { // by then, the position is reported in any case
		t.Errorf("it took %s", d)
	}
}

func TestARowThatIsTooLarge(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers)
	cfg := d.config()
	cfg.MaxRow = 64 << 10
	r := start(t, cfg, &enginetest.Sink{})
	r.ready()
	d.insert(t, 1, 1)
	r.has(1)
	d.exec(t, `INSERT INTO a VALUES (2, repeat('x', 100000))`)
	<-r.done
	if err := r.rep.Err; engine.ErrorOf(err, "?").Class != engine.Permanent || !strings.Contains(err.Error(), "raise `max_row`") {
		t.Errorf("the run ended with %v", err)
	}
	once(t, r.sink.Bodies(), 1)
}

// Changes that are settled out of order are reported in order.
func TestOneUnsettledChange(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers)
	open := make(chan struct{})
	sink := &enginetest.Sink{Fail: func(body string) error {
		select {
		case <-open:
		default:
			if strings.Contains(body, `{"id":5,`) {
				return errors.New("not yet")
			}
		}
		return nil
	}}
	out := sink.Output()
	out.Retry = &engine.Retry{Backoff: 10 * time.Millisecond, MaxBackoff: 50 * time.Millisecond} // until it is open
	r := startTo(t, d.config(), sink, out)
	r.ready()
	before := d.exec(t, `SELECT pg_current_wal_lsn()`)
	d.insert(t, 1, 50)
	r.has(49)
	d.exec(t, `SELECT pg_sleep(0.3)`)
	row := d.exec(t, `SELECT confirmed_flush_lsn >= '`+before+`' FROM pg_replication_slots WHERE slot_name = '`+d.slot+`'`)
	if got := d.confirmed(t); got != "f" || row == "" {
		t.Error("the server was told of a change that waits")
	}
	close(open)
	r.has(50)
	d.caughtUp(t)
}

// A Read returns only a few changes if they are large, even if there is room for more.
func TestAReadIsLimitedInBytes(t *testing.T) {
	t.Parallel()
	d := fresh(t, nil, numbers)
	cfg := d.config()
	cfg.Snapshot = "never"
	made, err := newInput(cfg, engine.Env{Log: slog.New(slog.DiscardHandler), Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	in := made.(*input)
	if err := in.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(context.Background()) })
	<-in.creation.done
	const row = 20000
	d.exec(t, fmt.Sprintf(`INSERT INTO a SELECT i, repeat('y', %d) FROM generate_series(1, 2000) i`, row))
	for n := 0; n < 2000; {
		b := engine.NewBatch(256)
		if _, err := in.Read(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		size := in.queue.size
		for m := range b.All() {
			size += m.Size()
			n++
		}
		if size > chunkBytes+2*row {
			t.Fatalf("%d bytes were read at once", size)
		}
	}
	if in.queue.size != 0 {
		t.Errorf("%d bytes are left", in.queue.size)
	}
}
