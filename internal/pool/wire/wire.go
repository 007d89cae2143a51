package wire

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Protocol is the version of the protocol between hub and workers.
const Protocol = 3

// Subjects of NATS. A hub's own have its id. FROM is the id of the connection that reports
// or asks: a hub's own server lets each use no other, and a hub answers only to the inboxes
// of that connection, see [Asker].
//
//	flowd.jobs.POOL.HUB.N.ID.TRY  a job of the hub's pool N, stored by JetStream for whoever is free
//	flowd.join.POOL.FROM          workers ask for the pool's configuration
//	flowd.hub.HUB.WHAT.FROM       what workers tell one hub: taken, returned, answer, stage
//	flowd.beat.POOL.FROM          what workers tell all hubs of a pool
//	flowd.down.POOL               what hubs tell all workers of a pool
//	flowd.ls.FROM                 asks all hubs for their pools
const (
	jobPrefix = "flowd.jobs."
	putPrefix = "flowd.put-"
)

// JoinOf returns the subject on which a pool is joined; the others are alike. "*" is all.
func JoinOf(pool, from string) string { return "flowd.join." + pool + "." + from }

// BeatOf returns the subject of the beats of a pool's workers.
func BeatOf(pool, from string) string { return "flowd.beat." + pool + "." + from }

// ListOf returns the subject that asks for pools.
func ListOf(from string) string { return "flowd.ls." + from }

// PoolOf returns the pool of a subject of JoinOf or BeatOf.
func PoolOf(subject string) string { return strings.Split(subject, ".")[2] }

// Asker returns the connection that a message for a hub is from, and where it may be answered: "" where the answer
// would go elsewhere than to an inbox of that connection, which may want it to be a request to the server in the
// hub's name.
func Asker(subject, reply string) (from, answer string) {
	from = subject[strings.LastIndexByte(subject, '.')+1:]
	if !strings.HasPrefix(reply, Inbox(from)+".") {
		reply = ""
	}
	return from, reply
}

// DownOf returns the subject of messages to a pool's workers.
func DownOf(pool string) string { return "flowd.down." + pool }

// JobOf returns the subject of an attempt: nothing else identifies its copy in the stream, as
// sequence numbers start over with each stream.
func JobOf(pool, hub string, t Try) string {
	return jobPrefix + jobAt(pool, hub, t)
}

// PutOf returns the subject on which a job is put into the stream of a hub's own server: it
// has a secret in it, so that nothing else that the server sends there is a job.
func PutOf(secret, pool, hub string, t Try) string {
	return putPrefix + secret + "." + jobAt(pool, hub, t)
}

// AllPutsOf returns these subjects of a pool.
func AllPutsOf(secret, pool string) string { return putPrefix + secret + "." + pool + ".>" }

func jobAt(pool, hub string, t Try) string {
	b := make([]byte, 0, 80)
	b = append(append(append(b, pool...), '.'), hub...)
	b = strconv.AppendInt(append(b, '.'), int64(t.Pool), 10)
	b = strconv.AppendUint(append(b, '.'), t.ID, 10)
	b = strconv.AppendInt(append(b, '.'), int64(t.Try), 10)
	return string(b)
}

// JobsOf returns the subjects of the jobs of a hub's pool with a number, which distinguishes it
// from others of its name there.
func JobsOf(pool, hub string, n int) string {
	return jobPrefix + pool + "." + hub + "." + strconv.Itoa(n) + ".>"
}

// JobsOfHub returns the subjects of all jobs of a hub.
func JobsOfHub(pool, hub string) string { return jobPrefix + pool + "." + hub + ".>" }

// AllJobsOf returns the subjects of a pool's jobs.
func AllJobsOf(pool string) string { return jobPrefix + pool + ".>" }

// TryOf returns the hub and the attempt of a job's subject.
func TryOf(subject string) (hub string, t Try, ok bool) {
	parts := strings.Split(subject, ".")
	if len(parts) != 7 {
		return "", t, false
	}
	var errs [3]error
	t.Pool, errs[0] = strconv.Atoi(parts[4])
	t.ID, errs[1] = strconv.ParseUint(parts[5], 10, 64)
	t.Try, errs[2] = strconv.Atoi(parts[6])
	return parts[3], t, errors.Join(errs[:]...) == nil
}

// Messages to a hub.
const (
	Taken    = "taken"
	Returned = "returned"
	Lacks    = "lacks" // the answer to [Held]
	Answer   = "answer"
	GetStage = "stage"
)

// WorkerHeader names the worker that an answer is from; KeyHeader has the key of a job.
const (
	WorkerHeader = "Flowd-Worker"
	KeyHeader    = "Flowd-Key"
)

// HeaderRoom is for what is sent with a job or an answer, in bytes.
const HeaderRoom = 512

// ToHub returns the subject of messages to a hub.
func ToHub(hub, what, from string) string { return "flowd.hub." + hub + "." + what + "." + from }

// What returns the third of these words.
func What(subject string) string { return strings.Split(subject, ".")[3] }

// StreamOf returns the name of a pool's stream.
func StreamOf(pool string) string { return "flowd-" + pool }

// ConsumerOf returns the name of the consumer of a pool's stream that was made at a time.
// Leases are named after it: those of a stream before mean nothing in this one.
func ConsumerOf(made time.Time) string { return "workers-" + strconv.FormatInt(made.UnixNano(), 36) }

// PullFrom returns the subject on which slots ask for a job.
func PullFrom(pool, consumer string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + StreamOf(pool) + "." + consumer
}

// Inbox returns the prefix of the subjects on which a connection gets answers. The id is
// known to nobody else: it is the last word of the connection's name.
func Inbox(id string) string { return "_INBOX." + id }

// GoodName reports whether a text can be the name of a pool, which is part of subjects.
func GoodName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 100
}

// Join is what a worker asks a hub; Welcome is the answer.
type Join struct {
	Protocol int
	Version  string
	Worker   string
}

// Welcome is a hub's answer to Join. Without a hub: there is no such pool here.
type Welcome struct {
	Refused  string `json:",omitempty"` // why; the rest is empty then
	Hub      string
	Consumer string // of the pool's stream
	Hash     string
	Stage    json.RawMessage
}

// Try names an attempt of a call, for cancel, taken and returned.
type Try struct {
	Pool int // among those of the hub
	ID   uint64
	Try  int
	Key  string `json:",omitempty"` // shows that a worker was given the job; "" in a cancel
}

// Named returns the attempt alone.
func (t Try) Named() Try {
	t.Key = ""
	return t
}

// Awaited is a hub's answer to a worker that asks whether to begin with an attempt that
// another has had; anything else means no.
const Awaited = "awaited"

// Down is what hubs send to workers, every [BeatEvery] at least.
type Down struct {
	Hub    string
	Host   string // host and process, for people
	Hello  bool   `json:",omitempty"` // it has begun to serve the pool
	Cancel *Try   `json:",omitempty"`
}

// Held is what a hub asks a worker where copies of jobs are gone that the worker has said it took. The answer are those
// that it has not got: it could not say that it had handed them back, or has dropped their answers.
type Held struct {
	Hub   string
	Tries []Try
}

// HeldOf returns the subject on which a connection is asked that for a pool.
func HeldOf(id, pool string) string { return Inbox(id) + ".held." + pool }

// Beat is a worker's report of itself, every [BeatEvery], and when it changes.
type Beat struct {
	Name    string // host and process, for people
	Version string
	Slots   int           // 0: it leaves
	Busy    int           // slots that have a job
	Refused string        `json:",omitempty"` // why it takes nothing
	Lease   time.Duration // since it was renewed, of the oldest
}

// BeatEvery returns how often the workers and hubs of a pool with a lease report. A worker that
// has not reported for three times that long is gone.
func BeatEvery(lease time.Duration) time.Duration { return min(time.Second, lease/3) }

// Pools is what a hub answers to List.
type Pools struct {
	Hub     string      `json:"hub"`
	Host    string      `json:"host"`
	Version string      `json:"version"`
	Pools   []PoolState `json:"pools"`
}

// PoolState is a pool as its hub sees it.
type PoolState struct {
	Name     string        `json:"name"`
	Pipeline string        `json:"pipeline"`
	Hash     string        `json:"config"`
	Lease    time.Duration `json:"lease_ns"`
	Waiting  int           `json:"waiting"`
	InFlight int           `json:"in_flight"`
	Members  []Member      `json:"members"`
}

// Member is a worker of a pool.
type Member struct {
	Worker   string        `json:"worker"`
	Name     string        `json:"name"`
	Version  string        `json:"version"`
	Slots    int           `json:"slots"`
	Busy     int           `json:"busy"`
	LeaseAge time.Duration `json:"lease_age_ns"` // since its oldest job's lease was renewed
	Heard    time.Duration `json:"heard_ns"`     // ago
	Refused  string        `json:"refused,omitempty"`
}
