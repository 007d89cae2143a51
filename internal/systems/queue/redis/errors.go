package redis

import (
	"errors"
	"strings"

	"github.com/flowd-io/flowd/engine/cause"
	goredis "github.com/redis/go-redis/v9"
)

// causes says what errors of servers mean. A code is the beginning of an answer. Any other answer is rejected: it is about the
// arguments of the command.
var causes = cause.Table{Code: answerOf, Refused: cause.Rejected, Rows: []cause.Row{
	{Codes: []string{"OOM *"}, Kind: cause.Busy, Remedy: "the server has reached maxmemory: raise it, or remove data"},
	{Codes: []string{"READONLY *"}, Kind: cause.Busy,
		Remedy: "this is a replica: a failover is under way, or the address is not that of the master"},
	{Codes: []string{"CLUSTERDOWN *"}, Kind: cause.Busy, Remedy: "nodes of the cluster are down, or slots have no node"},
	{Codes: []string{"MOVED *", "ASK *"}, Kind: cause.Busy,
		Remedy: "the server is a node of a cluster: write `cluster` instead of `url`"},
	{Codes: []string{"NOREPLICAS *"}, Kind: cause.Busy, Remedy: "too few replicas are in sync (min-replicas-to-write)"},
	{Codes: []string{"MISCONF *"}, Kind: cause.Busy, Remedy: "the server can't save to disk and refuses writes: see its log"},
	{Codes: []string{"BUSY *"}, Kind: cause.Busy, Remedy: "a script keeps the server busy"},
	{Codes: []string{"ERR max number of clients reached*"}, Kind: cause.Busy, Remedy: "raise maxclients of the server"},
	{Codes: []string{"LOADING *", "MASTERDOWN *", "TRYAGAIN *", "UNBLOCKED *"}, Kind: cause.Busy},
	{Codes: []string{"NOAUTH *"}, Kind: cause.Credentials,
		Remedy: "the server requires a login: write `password`, and `user` unless it is the default"},
	{Codes: []string{"WRONGPASS *"}, Kind: cause.Credentials, Remedy: "check user and password"},
	{Codes: []string{"ERR AUTH *"}, Kind: cause.Credentials,
		Remedy: "the server expects no password, or is too old for users: check user and password"},
	{Codes: []string{"ERR Client sent AUTH*"}, Kind: cause.Credentials, Remedy: "the server expects no password: remove it"},
	{Codes: []string{"NOPERM *"}, Kind: cause.Credentials, Remedy: "give the user the permission, with ACL SETUSER"},
	{Codes: []string{"DENIED *"}, Kind: cause.Credentials, Remedy: "the server only accepts local clients: give it a password"},
	{Codes: []string{"WRONGTYPE *"}, Kind: cause.Misconfigured,
		Remedy: "the key holds another type: correct its name, or delete it"},
	{Codes: []string{"CROSSSLOT *"}, Kind: cause.Misconfigured,
		Remedy: "all keys of a command must be in one slot: give them the same {tag}"},
	{Codes: []string{"NOGROUP *"}, Kind: cause.Awaited, Remedy: "create the consumer group, with XGROUP CREATE"},
	{Codes: []string{"ERR unknown command*"}, Kind: cause.Misconfigured,
		Remedy: "the server is too old, or has renamed the command"},
	{Codes: []string{"ERR DB index is out of range*"}, Kind: cause.Misconfigured, Remedy: "choose another database"},
	{Codes: []string{"ERR This instance has cluster support disabled*"}, Kind: cause.Misconfigured,
		Remedy: "the server is not a node of a cluster: write `url` instead of `cluster`"},
	{Codes: []string{"ERR SELECT is not allowed*"}, Kind: cause.Misconfigured, Remedy: "a cluster has only database 0"},

	{Is: errNotRedis, Kind: cause.Busy, Remedy: "check the address, and what listens there"},
	{If: contains("redis: all sentinels"), Kind: cause.Unreachable,
		Remedy: "check that the sentinels run, their addresses, and the name of the master"},
	{If: contains("cluster has no nodes"), Kind: cause.Unreachable,
		Remedy: "check that nodes of the cluster run, and their addresses"},
	{Is: goredis.ErrPoolTimeout, Kind: cause.Busy},
	{If: cause.HungUp, Kind: cause.Lost, Says: "the server closed the connection"},
}}

// answerOf returns the error answer of a server, which is both the code and the text.
func answerOf(err error) (code, text string) {
	if e, ok := errors.AsType[goredis.Error](err); ok {
		return e.Error(), err.Error()
	}
	return "", ""
}

// contains returns a condition for errors of the library that have no type of their own.
func contains(text string) func(error) bool {
	return func(err error) bool { return strings.Contains(err.Error(), text) }
}

// HasErrorPrefix reports whether err is an answer of the server that begins with prefix.
func HasErrorPrefix(err error, prefix string) bool {
	e, ok := errors.AsType[goredis.Error](err)
	return ok && strings.HasPrefix(e.Error(), prefix)
}

// Explain returns an error of the client with its class and remedy, and with what was being done.
func Explain(err error, doing string) error { return causes.Explain(err, doing) }
