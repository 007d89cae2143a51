package postgrescdc

import (
	"context"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// watchLoop checks at intervals how much log the server keeps for the slot, until ctx ends.
func (in *input) watchLoop(ctx context.Context) {
	t := time.NewTicker(min(10*in.cfg.AckInterval, checkInterval))
	defer t.Stop()
	var w watcher
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := in.watchSlot(ctx, &w); err != nil && ctx.Err() == nil {
			in.log.Debug("can't find out how much log the server keeps", "err", err)
		}
	}
}

// watcher remembers what was logged.
type watcher struct {
	warned  int64 // bytes at the last warning; 0: none since the slot shrank
	nearEnd bool  // the server is about to remove log
}

// watchSlot checks once.
func (in *input) watchSlot(ctx context.Context, w *watcher) (err error) {
	defer engine.Recovered(&err)
	rows, err := in.query(ctx, any4, "check slot "+in.cfg.Slot, `SELECT now.lsn, now.lsn - restart_lsn, coalesce(wal_status, ''), `+
		`coalesce(safe_wal_size::text, '') FROM pg_replication_slots, (SELECT CASE WHEN pg_is_in_recovery() THEN `+
		`pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END) now(lsn) WHERE slot_name IN (`+literal(in.cfg.Slot)+`, `+
		literal(in.cfg.Slot+snapshotSuffix)+`) ORDER BY length(slot_name) LIMIT 1`)
	if err != nil || len(rows) == 0 {
		return err
	}
	end, err := pgoutput.ParseLSN(rows[0][0])
	if err != nil {
		return err
	}
	in.mu.Lock()
	in.due.end = max(in.due.end, end)
	in.mu.Unlock()
	in.warnOfLag(w, bytes(rows[0][1]), rows[0][2], rows[0][3])
	return nil
}

// warnOfLag logs a warning if the server keeps more than max_slot_lag for the slot, and again whenever that has doubled.
func (in *input) warnOfLag(w *watcher, kept int64, status, safe string) {
	limit := int64(in.cfg.MaxSlotLag)
	switch {
	case limit == 0:
	case kept > limit && kept >= 2*w.warned:
		w.warned = kept
		in.log.Warn("the server keeps much of its log for the slot: outputs are slow or fail, or a transaction is long",
			"slot", in.cfg.Slot, "bytes", kept, "max_slot_lag", limit, "wal_status", status)
	case kept <= limit && w.warned > 0:
		w.warned = 0
		in.log.Info("the server keeps less of its log for the slot", "slot", in.cfg.Slot, "bytes", kept)
	}
	if near := status == "unreserved"; near != w.nearEnd {
		if w.nearEnd = near; near {
			in.log.Error("the server is about to remove log that the slot needs: it keeps no more than max_slot_wal_keep_size",
				"slot", in.cfg.Slot, "bytes", kept, "left", safe)
		}
	}
}

// bytes parses a number of bytes.
func bytes(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
