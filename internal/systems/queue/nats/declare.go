package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
	"github.com/nats-io/nats.go/jetstream"
)

// Declare is a stream to create if it does not exist.
type Declare struct {
	Subjects  engine.Names  `yaml:"subjects" doc:"Subjects whose messages the stream keeps, with * for one token and > for all that follow; by default its own name."`
	Retention string        `yaml:"retention" check:"oneof=limits|interest|work_queue" doc:"What it keeps: limits, everything up to its limits; interest, what a consumer has yet to acknowledge; work_queue, what nobody has acknowledged. By default limits."`
	Storage   string        `yaml:"storage" check:"oneof=file|memory" doc:"Where it is stored: file, or memory, which a restart of the server empties. By default file."`
	Replicas  int           `yaml:"replicas" check:"min=1,max=5" doc:"Servers in a cluster that keep it; by default 1."`
	MaxMsgs   int64         `yaml:"max_msgs" check:"min=1" doc:"Maximum number of messages; no limit by default."`
	MaxBytes  schema.Size   `yaml:"max_bytes" check:"min=1" doc:"Maximum size; no limit by default."`
	MaxAge    time.Duration `yaml:"max_age" check:"min=100ms" doc:"Maximum age of a message; no limit by default."`
	Discard   string        `yaml:"discard" check:"oneof=old|new" doc:"What a full stream does: old discards its oldest messages; new refuses more, and outputs wait. By default old."`
	Dedupe    time.Duration `yaml:"dedupe" check:"min=100ms" doc:"How long the stream remembers message ids; by default 2m."`
}

var retentions = map[string]jetstream.RetentionPolicy{"limits": jetstream.LimitsPolicy,
	"interest": jetstream.InterestPolicy, "work_queue": jetstream.WorkQueuePolicy}

// Check reports subjects that are not valid, and a work queue that would lose messages. section is the path of the section.
func (d *Declare) Check(section string, report func(path, message, remedy string)) {
	for _, s := range d.Subjects {
		if problem := CheckSubject(s, true); problem != "" {
			report(section+".subjects", fmt.Sprintf("%q %s", s, problem), "write a subject such as orders.>")
		}
	}
	if d.Retention == "work_queue" && d.Discard == "old" && (d.MaxMsgs > 0 || d.MaxBytes > 0 || d.MaxAge > 0) {
		report(section+".discard", "a full work queue would discard messages that nobody has read", "write `discard: new`")
	}
}

// config returns the configuration of the stream. JetStream uses its defaults for fields that are zero.
func (d *Declare) config(name string) jetstream.StreamConfig {
	c := jetstream.StreamConfig{Name: name, Subjects: d.Subjects, Retention: retentions[d.Retention],
		Replicas: max(d.Replicas, 1), MaxMsgs: d.MaxMsgs, MaxBytes: int64(d.MaxBytes), MaxAge: d.MaxAge, Duplicates: d.Dedupe,
		AllowDirect: true}
	if len(c.Subjects) == 0 {
		c.Subjects = []string{name}
	}
	if c.MaxMsgs == 0 {
		c.MaxMsgs = -1
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = -1
	}
	if d.Storage == "memory" {
		c.Storage = jetstream.MemoryStorage
	}
	if d.Discard == "new" || d.Discard == "" && d.Retention == "work_queue" {
		c.Discard = jetstream.DiscardNew
	}
	return c
}

// Create creates the stream. If it exists, Create returns an error unless it has the declared settings, and never changes it.
func (d *Declare) Create(ctx context.Context, c *Conn, name string) error {
	var s jetstream.Stream
	look := func(ctx context.Context) (err error) {
		s, err = c.JS.Stream(ctx, name)
		return err
	}
	err := c.API(ctx, "look for stream "+name, look)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = c.API(ctx, "create stream "+name, func(ctx context.Context) error {
			_, err := c.JS.CreateStream(ctx, d.config(name))
			return err
		})
		if errorCode(err) != jetstream.JSErrCodeStreamNameInUse {
			return err
		}
		err = c.API(ctx, "look for stream "+name, look) // another process has just created it
	}
	if err != nil {
		return err
	}
	if other := d.differs(&s.CachedInfo().Config); other != "" {
		return engine.Errorf(engine.Permanent, "stream %s was created with other settings: %s (change `declare` to match it, "+
			"or the stream with `nats stream edit`)", name, other)
	}
	return nil
}

// differs returns in which declared settings a stream differs, or "".
func (d *Declare) differs(has *jetstream.StreamConfig) string {
	want := d.config(has.Name)
	var all []string
	compare := func(written bool, name string, has, want any) {
		if written && has != want {
			all = append(all, fmt.Sprintf("%s is %v, not %v", name, has, want))
		}
	}
	subjects := func(all []string) string {
		return strings.Join(slices.Sorted(slices.Values(all)), " ")
	}
	limit := func(n int64) string {
		if n <= 0 {
			return "unlimited"
		}
		return strconv.FormatInt(n, 10)
	}
	retention := func(p jetstream.RetentionPolicy) string {
		for name, policy := range retentions {
			if policy == p {
				return name
			}
		}
		return p.String()
	}
	discard := func(p jetstream.DiscardPolicy) string {
		return strings.ToLower(strings.TrimPrefix(p.String(), "Discard"))
	}
	compare(len(d.Subjects) > 0, "subjects", subjects(has.Subjects), subjects(want.Subjects))
	compare(d.Retention != "", "retention", retention(has.Retention), d.Retention)
	compare(d.Storage != "", "storage", strings.ToLower(has.Storage.String()), d.Storage)
	compare(d.Replicas > 0, "replicas", has.Replicas, want.Replicas)
	compare(d.MaxMsgs > 0, "max_msgs", limit(has.MaxMsgs), limit(want.MaxMsgs))
	compare(d.MaxBytes > 0, "max_bytes", limit(has.MaxBytes), limit(want.MaxBytes))
	compare(d.MaxAge > 0, "max_age", has.MaxAge, want.MaxAge)
	compare(d.Discard != "", "discard", discard(has.Discard), d.Discard)
	compare(d.Dedupe > 0, "dedupe", has.Duplicates, want.Duplicates)
	return strings.Join(all, ", ")
}
