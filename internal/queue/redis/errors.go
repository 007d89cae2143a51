package redis

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/flowd-io/flowd/engine"
	goredis "github.com/redis/go-redis/v9"
)

// rule is what an answer means that begins with a text.
type rule struct {
	text   string
	class  engine.Class
	holds  bool // nothing was written, and nothing can be now
	remedy string
}

// rules are the errors of servers that need more than their own text; the first that matches counts.
var rules = []rule{
	{"OOM ", engine.Transient, true, "the server has reached maxmemory: raise it, or remove data"},
	{"READONLY ", engine.Transient, true, "this is a replica: a failover is under way, or the address is not that " +
		"of the master"},
	{"LOADING ", engine.Transient, true, ""},
	{"MASTERDOWN ", engine.Transient, true, ""},
	{"CLUSTERDOWN ", engine.Transient, true, "nodes of the cluster are down, or slots have no node"},
	{"TRYAGAIN ", engine.Transient, true, ""},
	{"MOVED ", engine.Transient, true, "the server is a node of a cluster: write `cluster` instead of `url`"},
	{"ASK ", engine.Transient, true, "the server is a node of a cluster: write `cluster` instead of `url`"},
	{"NOREPLICAS ", engine.Transient, true, "too few replicas are in sync (min-replicas-to-write)"},
	{"MISCONF ", engine.Transient, true, "the server can't save to disk and refuses writes: see its log"},
	{"BUSY ", engine.Transient, true, "a script keeps the server busy"},
	{"ERR max number of clients reached", engine.Transient, true, "raise maxclients of the server"},
	{"UNBLOCKED ", engine.Transient, true, ""},
	{"NOAUTH ", engine.Auth, true, "the server wants a login: write `password`, and `user` unless it is the default"},
	{"WRONGPASS ", engine.Auth, true, "check user and password"},
	{"ERR AUTH ", engine.Auth, true, "the server expects no password, or is too old for users: check user and password"},
	{"ERR Client sent AUTH", engine.Auth, true, "the server expects no password: remove it"},
	{"NOPERM ", engine.Auth, true, "give the user the right, by ACL SETUSER"},
	{"DENIED ", engine.Auth, true, "the server only takes local clients: give it a password"},
	{"WRONGTYPE ", engine.Permanent, false, "the key holds another type: correct its name, or delete it"},
	{"CROSSSLOT ", engine.Permanent, false, "all keys of a command need one slot: give them one {tag}"},
	{"NOGROUP ", engine.Transient, false, "create the consumer group, by XGROUP CREATE"},
	{"ERR unknown command", engine.Permanent, false, "the server is too old, or has renamed the command"},
	{"ERR DB index is out of range", engine.Permanent, false, "choose another database"},
	{"ERR This instance has cluster support disabled", engine.Permanent, false, "the server is not a node of a " +
		"cluster: write `url` instead of `cluster`"},
	{"ERR SELECT is not allowed", engine.Permanent, false, "a cluster has only database 0"},
}

// Says reports whether err is an answer of the server that begins with a text.
func Says(err error, text string) bool {
	e, ok := errors.AsType[goredis.Error](err)
	return ok && strings.HasPrefix(e.Error(), text)
}

// Explain gives an error of the client its class, says what was being done, and what to do about it. An answer that has
// no class of its own is one to these arguments, and rejected.
func Explain(err error, doing string) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*engine.Error](err); known {
		return err
	}
	class, holds, remedy := judge(err)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		err = errors.New("the server closed the connection")
	}
	var e *engine.Error
	if remedy != "" {
		e = engine.Errorf(class, "%s: %w (%s)", doing, err, remedy)
	} else {
		e = engine.Errorf(class, "%s: %w", doing, err)
	}
	e.Holds = holds
	return e
}

func judge(err error) (class engine.Class, holds bool, remedy string) {
	if err == nil {
		return "", false, ""
	}
	if e, ok := errors.AsType[goredis.Error](err); ok {
		for _, r := range rules {
			if strings.HasPrefix(e.Error(), r.text) {
				return r.class, r.holds, r.remedy
			}
		}
		return engine.Rejected, false, ""
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	var dial *net.OpError
	var slow net.Error
	switch {
	case errors.Is(err, errNotRedis):
		return engine.Transient, true, "check the address, and what listens there"
	case errors.As(err, &unknown):
		return engine.Auth, true, "name the authority in `tls: {ca: FILE}`"
	case errors.As(err, &host):
		return engine.Auth, true, "use the name in the certificate, or set `tls: {server_name: …}`"
	case errors.As(err, &record):
		return engine.Auth, true, "the server does not speak TLS at this port: check the port, or write redis://"
	case errors.As(err, &dial) && dial.Op == "dial":
		return engine.Transient, true, "check that the server runs, and its address"
	case strings.HasPrefix(err.Error(), "redis: all sentinels"):
		return engine.Transient, true, "check that the sentinels run, their addresses, and the name of the master"
	case strings.Contains(err.Error(), "cluster has no nodes"):
		return engine.Transient, true, "check that nodes of the cluster run, and their addresses"
	case errors.Is(err, goredis.ErrPoolTimeout):
		return engine.Transient, true, ""
	case errors.Is(err, context.Canceled):
		return "", false, ""
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout():
		return engine.Timeout, false, ""
	}
	return engine.Transient, false, ""
}
