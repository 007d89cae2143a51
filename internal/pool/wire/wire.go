package wire

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Protocol is the version of the protocol between hub and workers.
const Protocol = 4

// Subjects of NATS. Those of a hub contain its id. FROM is the id of the connection that reports or asks: an embedded
// server lets each connection use only its own id, and a hub answers only to inboxes of that connection; see [Asker].
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

// JoinOf returns the subject for joining a pool; the functions below are similar. "*" matches everything.
func JoinOf(pool, from string) string { return "flowd.join." + pool + "." + from }

// BeatOf returns the subject of heartbeats of a pool's workers.
func BeatOf(pool, from string) string { return "flowd.beat." + pool + "." + from }

// ListOf returns the subject for listing pools.
func ListOf(from string) string { return "flowd.ls." + from }

// PoolOf returns the pool in a subject of JoinOf or BeatOf.
func PoolOf(subject string) string { return strings.Split(subject, ".")[2] }

// Asker returns the connection that sent a message to a hub, and where to answer: "" if reply is not an inbox of that
// connection, since it could make the hub send a request to the server.
func Asker(subject, reply string) (from, answer string) {
	from = subject[strings.LastIndexByte(subject, '.')+1:]
	if !strings.HasPrefix(reply, Inbox(from)+".") {
		reply = ""
	}
	return from, reply
}

// DownOf returns the subject of messages to a pool's workers.
func DownOf(pool string) string { return "flowd.down." + pool }

// JobOf returns the subject of an attempt. Only the subject identifies its copy in the stream, since sequence numbers
// start over with each stream.
func JobOf(pool, hub string, t Try) string {
	return jobPrefix + jobAt(pool, hub, t)
}

// PutOf returns the subject for storing a job in the stream of an embedded server. It contains a secret, so that
// clients can't make the server store other messages.
func PutOf(secret, pool, hub string, t Try) string {
	return putPrefix + secret + "." + jobAt(pool, hub, t)
}

// AllPutsOf returns the pattern of these subjects for a pool.
func AllPutsOf(secret, pool string) string { return putPrefix + secret + "." + pool + ".>" }

func jobAt(pool, hub string, t Try) string {
	b := make([]byte, 0, 80)
	b = append(append(append(b, pool...), '.'), hub...)
	b = strconv.AppendInt(append(b, '.'), int64(t.Pool), 10)
	b = strconv.AppendUint(append(b, '.'), t.ID, 10)
	b = strconv.AppendInt(append(b, '.'), int64(t.Try), 10)
	return string(b)
}

// JobsOf returns the pattern of the jobs of pool number n of a hub. The number distinguishes it from earlier pools
// with the same name.
func JobsOf(pool, hub string, n int) string {
	return jobPrefix + pool + "." + hub + "." + strconv.Itoa(n) + ".>"
}

// JobsOfHub returns the pattern of all jobs of a hub.
func JobsOfHub(pool, hub string) string { return jobPrefix + pool + "." + hub + ".>" }

// AllJobsOf returns the pattern of a pool's jobs.
func AllJobsOf(pool string) string { return jobPrefix + pool + ".>" }

// TryOf returns the hub and the attempt in a job's subject.
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

// WorkerHeader names the worker of an answer. KeyHeader contains the key of a job.
const (
	WorkerHeader = "Flowd-Worker"
	KeyHeader    = "Flowd-Key"
)

// HeaderRoom is the room for headers of a job or answer, in bytes.
const HeaderRoom = 512

// ToHub returns the subject of messages to a hub.
func ToHub(hub, what, from string) string { return "flowd.hub." + hub + "." + what + "." + from }

// What returns the kind of message in a subject of ToHub.
func What(subject string) string { return strings.Split(subject, ".")[3] }

// StreamOf returns the name of a pool's stream.
func StreamOf(pool string) string { return "flowd-" + pool }

// ConsumerOf returns the name of a stream's consumer, which contains the time when it was made. Leases refer to it,
// so those of an earlier stream are not valid in this one.
func ConsumerOf(made time.Time) string { return "workers-" + strconv.FormatInt(made.UnixNano(), 36) }

// PullFrom returns the subject on which slots ask for a job.
func PullFrom(pool, consumer string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + StreamOf(pool) + "." + consumer
}

// Inbox returns the prefix of the subjects on which a connection receives answers. Nobody else knows the id, which is
// the last word of the connection's name.
func Inbox(id string) string { return "_INBOX." + id }

// GoodName reports whether a text is a valid name of a pool, which is part of subjects.
func GoodName(name string) bool {
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return false
		}
	}
	return name != "" && len(name) <= 100
}

// Join is a worker's request to a hub. The answer is a Welcome.
type Join struct {
	Protocol int
	Version  string
	Worker   string
}

// Welcome is a hub's answer to Join. If it names no hub, the pool does not exist here.
type Welcome struct {
	Refused  string `json:",omitempty"` // why; the rest is empty then
	Hub      string
	Consumer string // of the pool's stream
	Hash     string
	Stage    json.RawMessage
}

// Try identifies an attempt of a call in cancel, taken and returned.
type Try struct {
	Pool int // number of the pool in its hub
	ID   uint64
	Try  int
	Key  string `json:",omitempty"` // proves that a worker was given the job; "" in a cancel
}

// Named returns the attempt without its key.
func (t Try) Named() Try {
	t.Key = ""
	return t
}

// Awaited is a hub's answer to a worker that asks whether to begin an attempt which another worker has had. Any other
// answer means no.
const Awaited = "awaited"

// Down is sent by hubs to workers, at least every [BeatEvery].
type Down struct {
	Hub    string
	Host   string // host and process, for people
	Hello  bool   `json:",omitempty"` // it has begun to serve the pool
	Cancel *Try   `json:",omitempty"`
}

// Held is sent by a hub to a worker about jobs without copies that the worker has reported as taken. The worker
// answers with those that it does not have: its report that it handed them back was lost, or it has dropped their
// answers.
type Held struct {
	Hub   string
	Tries []Try
}

// HeldOf returns the subject on which a connection receives Held for a pool.
func HeldOf(id, pool string) string { return Inbox(id) + ".held." + pool }

// Beat is a worker's heartbeat, sent every [BeatEvery] and when it changes.
type Beat struct {
	Name    string // host and process, for people
	Version string
	Slots   int           // 0: it leaves
	Busy    int           // slots with a job
	Refused string        `json:",omitempty"` // why it takes no jobs
	Lease   time.Duration // age of the lease of the oldest job
}

// BeatEvery returns the interval of heartbeats of a pool's workers and hubs. A worker without a heartbeat for three
// intervals is considered gone.
func BeatEvery(lease time.Duration) time.Duration { return min(time.Second, lease/3) }

// Pools is a hub's answer to List.
type Pools struct {
	Hub     string      `json:"hub"`
	Host    string      `json:"host"`
	Version string      `json:"version"`
	Pools   []PoolState `json:"pools"`
}

// PoolState is the state of a pool in its hub.
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
	LeaseAge time.Duration `json:"lease_age_ns"` // age of the lease of its oldest job
	Heard    time.Duration `json:"heard_ns"`     // time since its last heartbeat
	Refused  string        `json:"refused,omitempty"`
}
