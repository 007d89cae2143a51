package postgrescdc

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/pgoutput"
)

// server has the version and settings of the server.
type server struct {
	version int           // such as 150004 for 15.4
	silence time.Duration // wal_sender_timeout, after which it ends a replication connection; 0: never
}

// minVersion is the first version that can publish partitioned tables under their own names.
const minVersion = 130000

// slotState is the state of an existing slot.
type slotState struct{ confirmed pgoutput.LSN }

// prepare checks the server, the slot and the publication. slot is nil if it must be created.
func (in *input) prepare(ctx context.Context) (slot *slotState, err error) {
	if err := in.checkServer(ctx); err != nil {
		return nil, err
	}
	if slot, err = in.findSlot(ctx); err != nil {
		return nil, err
	}
	if slot == nil && in.began {
		return nil, in.droppedError()
	}
	if slot == nil && !in.cfg.Create {
		return nil, engine.Errorf(engine.Permanent, "slot %s does not exist (write `create: true`, or create it with SELECT "+
			"pg_create_logical_replication_slot('%s', 'pgoutput'))", in.cfg.Slot, in.cfg.Slot)
	}
	if err := in.checkPublication(ctx, slot != nil); err != nil {
		return nil, err
	}
	if err := in.warnOfLargeColumns(ctx); err != nil {
		return nil, err
	}
	return slot, in.loadTypes(ctx)
}

// droppedError returns the error for a slot that no longer exists.
func (in *input) droppedError() error {
	return engine.Errorf(engine.Permanent, "slot %s is gone: it was dropped, so the server has not kept changes since then "+
		"(start again: flowd creates a new one, and `snapshot: initial` reads all rows again)", in.cfg.Slot)
}

// checkServer reads the version and settings of the server, and checks them.
func (in *input) checkServer(ctx context.Context) error {
	rows, err := in.query(ctx, one4, "read the server's version", `SELECT current_setting('server_version_num'), `+
		`current_setting('server_version'), `+
		`current_setting('wal_level'), (SELECT setting FROM pg_settings WHERE name = 'wal_sender_timeout')`)
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(rows[0][0])
	if err != nil || version < minVersion {
		return engine.Errorf(engine.Permanent, "the server has version %s (upgrade it: 13 or later is needed)", rows[0][1])
	}
	if rows[0][2] != "logical" {
		return engine.Errorf(engine.Permanent, "the server has wal_level = %s (set wal_level = logical, and restart it)", rows[0][2])
	}
	millis, _ := strconv.Atoi(rows[0][3])
	in.server = server{version, time.Duration(millis) * time.Millisecond}
	return nil
}

// findSlot returns the slot, or nil if it does not exist.
func (in *input) findSlot(ctx context.Context) (*slotState, error) {
	name := in.cfg.Slot
	rows, err := in.query(ctx, any6, "look for slot "+name, `SELECT slot_type, coalesce(plugin, ''), database = current_database(), `+
		`coalesce(wal_status, ''), confirmed_flush_lsn, coalesce(database, '') FROM pg_replication_slots WHERE slot_name = `+
		literal(name))
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r := rows[0]
	switch {
	case r[0] != "logical" || r[1] != "pgoutput":
		return nil, engine.Errorf(engine.Permanent, "slot %s is %s, of plugin %q, so another program uses it (choose another `slot`)",
			name, r[0], r[1])
	case r[2] != "t":
		return nil, engine.Errorf(engine.Permanent, "slot %s belongs to database %s (choose another `slot`)", name, r[5])
	case r[3] == "lost":
		return nil, engine.Errorf(engine.Permanent, "slot %s is lost: it needs log that the server has removed, since it kept "+
			"more than max_slot_wal_keep_size (SELECT pg_drop_replication_slot('%s'), raise that setting, and start again: "+
			"`snapshot: initial` reads all rows again)", name, name)
	}
	at, err := pgoutput.ParseLSN(r[4])
	if err != nil {
		return nil, engine.Errorf(engine.Transient, "slot %s: %w", name, err)
	}
	return &slotState{at}, nil
}

// checkPublication checks that all tables exist and are in the publication, which it creates if it is missing. slotExists says
// that the slot is older than a new publication would be.
func (in *input) checkPublication(ctx context.Context, slotExists bool) error {
	for _, t := range in.cfg.Tables {
		rows, err := in.query(ctx, one, "look for table "+t, `SELECT to_regclass(`+literal(quoted(t))+`) IS NULL`)
		if err != nil {
			return err
		}
		if rows[0][0] == "t" {
			return engine.Errorf(engine.Permanent, "table %s does not exist (create it, or correct its name in `tables`, spelled "+
				"as in the catalog)", t)
		}
	}
	name := in.cfg.publication()
	rows, err := in.query(ctx, any2, "look for publication "+name, `SELECT p.pubname, t.schemaname || '.' || t.tablename `+
		`FROM pg_publication p LEFT JOIN pg_publication_tables t USING (pubname) WHERE pubname = `+literal(name))
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return in.createPublication(ctx, slotExists)
	}
	for _, t := range in.cfg.Tables {
		if !slices.ContainsFunc(rows, func(r []string) bool { return r[1] == t }) {
			return engine.Errorf(engine.Permanent, "publication %s does not have table %s, or has it under the name of its "+
				"partitions (ALTER PUBLICATION %s ADD TABLE %s)", name, t, ident(name), quoted(t))
		}
	}
	return nil
}

// warnOfLargeColumns logs a warning about tables whose updates may not include all values.
func (in *input) warnOfLargeColumns(ctx context.Context) error {
	if in.began {
		return nil // it was already logged
	}
	rows, err := in.query(ctx, any1, "look for large columns",
		`SELECT DISTINCT t.schemaname || '.' || t.tablename FROM pg_publication_tables t `+
			`JOIN pg_namespace n ON n.nspname = t.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename `+
			`JOIN pg_attribute a ON a.attrelid = c.oid WHERE t.pubname = `+literal(in.cfg.publication())+` AND c.relreplident <> 'f' `+
			`AND a.attnum > 0 AND NOT a.attisdropped AND a.attlen = -1 AND a.attstorage IN ('x', 'e') `+
			`AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (i.indisprimary OR i.indisreplident) `+
			`AND a.attnum = ANY(i.indkey)) ORDER BY 1`)
	if err != nil {
		return err
	}
	var tables []string
	for _, r := range rows {
		if in.tables == nil || in.tables[r[0]] {
			tables = append(tables, r[0])
		}
	}
	if n := len(tables); n > 0 {
		in.log.Warn("updates can lack large values that they do not touch (with ALTER TABLE … REPLICA IDENTITY FULL, the "+
			"server sends them; see flowd docs postgres)", "tables",
			strings.Join(tables[:min(n, maxNamed)], ", "), "count", n)
	}
	return nil
}

// maxNamed is how many tables a warning names.
const maxNamed = 10

func (in *input) createPublication(ctx context.Context, slotExists bool) error {
	name := in.cfg.publication()
	what := "ALL TABLES"
	if len(in.cfg.Tables) > 0 {
		all := make([]string, len(in.cfg.Tables))
		for i, t := range in.cfg.Tables {
			all[i] = quoted(t)
		}
		what = "TABLE " + strings.Join(all, ", ")
	}
	create := "CREATE PUBLICATION " + ident(name) + " FOR " + what + " WITH (publish_via_partition_root = true)"
	switch {
	case slotExists:
		return engine.Errorf(engine.Permanent, "publication %s does not exist, and slot %s can't use one that is newer "+
			"than the slot (correct the name in `publication`, or SELECT pg_drop_replication_slot('%s') and start again)", name,
			in.cfg.Slot, in.cfg.Slot)
	case !in.cfg.Create:
		return engine.Errorf(engine.Permanent, "publication %s does not exist (%s)", name, create)
	}
	_, err := in.query(ctx, shape{}, "create publication "+name+" with "+create, create)
	if err == nil {
		in.log.Info("created publication", "publication", name, "of", what)
	}
	return err
}

// quoted returns SCHEMA.TABLE as an SQL name.
func quoted(table string) string {
	schema, name, _ := strings.Cut(table, ".")
	return ident(schema) + "." + ident(name)
}
