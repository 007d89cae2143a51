// Package redistest gives tests a real Redis: see [URL], [Own], [Sentinels] and [Cluster].
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/debian"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Variable names a Redis to use instead of a private one, as a URL: redis://host:6379/0.
const Variable = "FLOWD_TEST_REDIS"

const program = "/usr/bin/redis-server"

// patience is how long a condition may take.
const patience = 2 * time.Minute

// Redis is a server of a test.
type Redis struct {
	Address  string // HOST:PORT
	dir      string // its data, which outlives a restart
	settings []string
	process  *daemon.Process
}

var (
	once   sync.Once
	shared string
	errNo  error // why there is none
	named  atomic.Int64
)

// URL is a Redis for all tests of this binary, which have keys of their own (see [Key]), or the test is skipped, which
// stderr says, too. It is the one that the environment names, else a private one that is started with the first call and
// dies with the test binary. Where Debian's package is not installed, root installs it.
func URL(t testing.TB) string {
	t.Helper()
	once.Do(func() {
		if shared = os.Getenv(Variable); shared != "" {
			return
		}
		dir, err := os.MkdirTemp("", "flowd-redis")
		if err != nil {
			errNo = err
			return
		}
		var r *Redis
		if r, errNo = start(dir, ""); errNo == nil {
			shared = "redis://" + r.Address
		}
		os.RemoveAll(dir) // it keeps its data in memory
	})
	given(t, errNo)
	return shared
}

func given(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		why := fmt.Sprintf("no Redis to test with: %v (set %s=redis://host:6379, or install redis-server)", err, Variable)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
}

// Key is the name of a key that no other test has; it, and what begins with it, is deleted at the end of the test.
func Key(t testing.TB) string {
	t.Helper()
	c := Client(t, URL(t))
	key := fmt.Sprintf("flowd-%d-%d", os.Getpid(), named.Add(1))
	t.Cleanup(func() {
		ctx := context.Background()
		for _, pattern := range []string{key + "*", "{" + key + "}*"} {
			for it := c.Scan(ctx, 0, pattern, 1000).Iterator(); it.Next(ctx); {
				c.Del(ctx, it.Val())
			}
		}
	})
	return key
}

// Client is a client for a test to look with.
func Client(t testing.TB, url string) *redis.Client {
	t.Helper()
	logging.Disable()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Protocol, o.MaintNotificationsConfig = 2, &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// Own is a private server of this test alone, which [Redis.Stop] and [Redis.Start] are for. Settings are those of
// redis-server, such as "--maxmemory", "10mb".
func Own(t testing.TB, settings ...string) *Redis {
	t.Helper()
	r, err := start(t.TempDir(), "", settings...)
	given(t, err)
	t.Cleanup(func() { r.process.End() })
	return r
}

// start starts a server with its data in dir, on a free port unless one is given.
func start(dir, port string, settings ...string) (*Redis, error) {
	if err := debian.Install("redis-server", program); err != nil {
		return nil, err
	}
	if port == "" {
		ports, err := daemon.Ports(1)
		if err != nil {
			return nil, err
		}
		port = ports[0]
	}
	r := &Redis{Address: net.JoinHostPort("127.0.0.1", port), dir: dir, settings: settings}
	return r, r.run(port)
}

func (r *Redis) run(port string) error {
	home, err := daemon.Home("redis", false)
	if err != nil {
		return err
	}
	command := []string{program}
	if len(r.settings) > 0 && strings.HasSuffix(r.settings[0], ".conf") {
		command = append(command, r.settings...)
	} else {
		command = append(command, "--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--io-threads", "1")
		command = append(command, r.settings...)
	}
	r.process, err = daemon.Start(daemon.Server{Command: command, Home: home, Address: r.Address})
	return err
}

// URL is how to connect, as the default user.
func (r *Redis) URL() string { return "redis://" + r.Address }

// Stop ends the server at once, as if it crashed.
func (r *Redis) Stop() { r.process.End() }

// Start starts it again, on the same port and with what it has saved (--appendonly yes).
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	_, port, _ := net.SplitHostPort(r.Address)
	if err := r.run(port); err != nil {
		t.Fatal(err)
	}
	Until(t, func() error { return Client(t, r.URL()).Ping(t.Context()).Err() })
}

// Until waits until f gives no error.
func Until(t testing.TB, f func() error) {
	t.Helper()
	var err error
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("not within %v: %v", patience, err)
}

// MasterName is what the sentinels of [Sentinels] call their master.
const MasterName = "orders"

// Set is a master, a replica and three sentinels.
type Set struct {
	Master, Replica *Redis
	Sentinels       []string // their addresses
}

// Sentinels starts a set.
func Sentinels(t testing.TB) *Set {
	t.Helper()
	s := &Set{Master: Own(t)}
	host, port, _ := net.SplitHostPort(s.Master.Address)
	s.Replica = Own(t, "--replicaof", host, port)
	for range 3 {
		dir := t.TempDir()
		ports, err := daemon.Ports(1)
		given(t, err)
		conf := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 2\n"+
			"sentinel down-after-milliseconds %[3]s 500\nsentinel failover-timeout %[3]s 3000\n", ports[0], dir, MasterName, host, port)
		file := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := start(dir, ports[0], file, "--sentinel")
		given(t, err)
		t.Cleanup(func() { r.process.End() })
		s.Sentinels = append(s.Sentinels, r.Address)
	}
	for _, address := range s.Sentinels {
		c := Client(t, "redis://"+address)
		Until(t, func() error {
			info, err := c.Do(t.Context(), "sentinel", "master", MasterName).StringSlice()
			if err != nil {
				return err
			}
			known := map[string]string{}
			for i := 0; i+1 < len(info); i += 2 {
				known[info[i]] = info[i+1]
			}
			if known["num-other-sentinels"] != "2" || known["num-slaves"] != "1" {
				return fmt.Errorf("the sentinel does not know the set: %v", known)
			}
			return nil
		})
	}
	Until(t, func() error { return replicates(t, s.Replica) })
	return s
}

func replicates(t testing.TB, r *Redis) error {
	info, err := Client(t, r.URL()).Info(t.Context(), "replication").Result()
	if err == nil && !strings.Contains(info, "master_link_status:up") {
		err = fmt.Errorf("the replica is not in sync: %s", info)
	}
	return err
}

// Nodes are those of a cluster: three masters, and a replica of the first.
type Nodes []*Redis

// Addresses are those of the masters.
func (n Nodes) Addresses() (all []string) {
	for _, r := range n[:3] {
		all = append(all, r.Address)
	}
	return all
}

// Cluster starts a cluster.
func Cluster(t testing.TB) (n Nodes) {
	t.Helper()
	const slots = 16384
	ctx := t.Context()
	ports, err := daemon.Ports(4) // by default they are 10000 above the others, which may be too many, or taken
	given(t, err)
	for _, port := range ports {
		n = append(n, Own(t, "--cluster-enabled", "yes", "--cluster-port", port, "--cluster-node-timeout", "1000",
			"--cluster-replica-validity-factor", "0"))
	}
	for i, r := range n {
		c := Client(t, r.URL())
		if i < 3 {
			if err := c.ClusterAddSlotsRange(ctx, i*slots/3, (i+1)*slots/3-1).Err(); err != nil {
				t.Fatal(err)
			}
		}
		c.Do(ctx, "cluster", "set-config-epoch", i+1)
		host, port, _ := net.SplitHostPort(n[0].Address)
		if err := c.Do(ctx, "cluster", "meet", host, port, ports[0]).Err(); err != nil && i > 0 {
			t.Fatal(err)
		}
	}
	first := Client(t, n[0].URL()).ClusterMyID(ctx).Val()
	Until(t, func() error { return Client(t, n[3].URL()).ClusterReplicate(ctx, first).Err() })
	for _, r := range n {
		c := Client(t, r.URL())
		Until(t, func() error {
			info, err := c.ClusterInfo(ctx).Result()
			if err == nil && (!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:4")) {
				err = fmt.Errorf("the cluster is not ready: %s", info)
			}
			return err
		})
	}
	Until(t, func() error { return replicates(t, n[3]) })
	return n
}
