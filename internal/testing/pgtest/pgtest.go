// Package pgtest gives tests a real PostgreSQL: see [Server] and [Database].
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/daemon"
)

// Variable names a PostgreSQL to use instead of a private one, as a URL of a superuser and of a database that exists.
const Variable = "FLOWD_TEST_POSTGRES"

// Postgres is a server for tests, with logical replication. Tests of all binaries share it, so each has its own database.
type Postgres struct {
	url  *url.URL
	node *node // nil: not ours
}

// node is a PostgreSQL that a test binary has started.
type node struct {
	Home, Port string
	process    *daemon.Process // nil if it was another one
}

var (
	once   sync.Once
	server *Postgres
	errNo  error // why there is none
	named  atomic.Int64
)

// Server is a PostgreSQL for the test, or the test is skipped, which stderr says, too.
//
// It is the one that the environment names, else one that is started with the first call and ends with the go command
// that runs the tests: see [daemon.Share]. Where Debian's package is not installed, root installs it.
func Server(t testing.TB) *Postgres {
	t.Helper()
	once.Do(func() { server, errNo = find() })
	return given(t, server, errNo)
}

// Own is a private server of this test alone, which [Postgres.Stop] and [Postgres.Start] are for. Settings are those of
// postgresql.conf, such as "max_slot_wal_keep_size=1MB".
func Own(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	return alone(t, nil, settings...)
}

// Cramped is [Own] whose tablespace small has room for 2 MiB, after which its disk is full. It is mounted for the server
// alone, which takes root: where that is refused, the test is skipped.
func Cramped(t testing.TB) *Postgres {
	t.Helper()
	const mounted = "mkdir disk && mount -t tmpfs -o size=2m,uid=65534,gid=65534,mode=0700 tmpfs disk && " +
		`exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"`
	p := alone(t, []string{"unshare", "--mount", "sh", "-c", mounted, "sh"})
	p.Exec(t, "", "CREATE TABLESPACE small LOCATION '"+filepath.Join(p.node.Home, "disk")+"'")
	return p
}

func alone(t testing.TB, below []string, settings ...string) *Postgres {
	t.Helper()
	n, err := start(daemon.Keep{}, below, settings...)
	p := given(t, n.postgres(), err)
	t.Cleanup(n.process.End)
	return p
}

func given(t testing.TB, p *Postgres, err error) *Postgres {
	t.Helper()
	if err != nil {
		why := fmt.Sprintf("no PostgreSQL to test with: %v (set %s=postgres://user:password@host/postgres, or install "+
			"postgresql-15)", err, Variable)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
	return p
}

func find() (*Postgres, error) {
	address := os.Getenv(Variable)
	if address == "" {
		n, err := daemon.Share("postgres", func(k daemon.Keep) (*node, error) { return start(k, nil) }, (*node).address)
		return n.postgres(), err
	}
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return nil, fmt.Errorf("%s is not a URL postgres://user:password@host/database", Variable)
	}
	return &Postgres{url: u}, nil
}

// start makes a cluster and starts it on a free port, below a command that becomes the server, if there is one: that is
// run as root.
func start(keep daemon.Keep, below []string, settings ...string) (*node, error) {
	if err := installed(); err != nil {
		return nil, err
	}
	home, err := daemon.Home("postgres", true)
	if err != nil {
		return nil, err
	}
	ports, err := daemon.Ports(1)
	if err != nil {
		return nil, err
	}
	n := &node{Home: home, Port: ports[0]}
	password := filepath.Join(home, "password")
	if err := os.WriteFile(password, []byte("flowd\n"), 0o644); err != nil { //nolint:gosec // its reader is someone else
		return nil, err
	}
	if err := n.run("initdb", "-D", "data", "-U", "flowd", "-A", "scram-sha-256", "--pwfile", password, "-E", "UTF8",
		"--locale", "C", "--no-sync"); err != nil {
		return nil, err
	}
	n.process, err = daemon.Start(daemon.Server{
		Command: append(append(below, filepath.Join(programs, "postgres")), n.arguments(settings)...),
		Home:    home, Nobody: below == nil, Address: n.address(), Keep: keep,
		Quit: `kill -QUIT $(head -n 1 data/postmaster.pid)`,
	})
	if err != nil {
		return nil, err
	}
	return n, n.ready()
}

func (n *node) postgres() *Postgres {
	if n == nil {
		return nil
	}
	return &Postgres{node: n, url: &url.URL{Scheme: "postgres", User: url.UserPassword("flowd", "flowd"), Host: n.address()}}
}

func (n *node) address() string { return net.JoinHostPort("127.0.0.1", n.Port) }

func (n *node) arguments(settings []string) []string {
	all := []string{"-D", "data", "-p", n.Port, "-h", "127.0.0.1", "-k", ""}
	for _, s := range append([]string{"fsync=off", "wal_level=logical", "max_replication_slots=100", "max_wal_senders=100",
		"shared_buffers=16MB", "max_connections=300"}, settings...) {
		all = append(all, "-c", s)
	}
	return all
}

// ready waits until the server answers: it listens before that.
func (n *node) ready() error {
	var err error
	for late := time.Now().Add(daemon.Starting); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if err = n.run("pg_isready", "-h", "127.0.0.1", "-p", n.Port); err == nil {
			return nil
		}
	}
	return err
}

// run runs one of PostgreSQL's programs as whom the server runs.
func (n *node) run(program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Starting)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, program), args...)
	cmd.Env, cmd.Dir = append(os.Environ(), "HOME="+n.Home), n.Home
	unprivileged(cmd)
	said, err := os.CreateTemp("", "flowd-postgres") // a pipe would stay open as long as a server that it starts
	if err != nil {
		return err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name())
		return fmt.Errorf("%s %q: %w: %s", program, args, err, text)
	}
	return nil
}

// URL is how to connect to a database, as its superuser; "" is one that always exists.
func (p *Postgres) URL(database string) string {
	u := *p.url
	switch {
	case database != "":
		u.Path = "/" + database
	case u.Path == "":
		u.Path = "/postgres"
	}
	return u.String()
}

// Database is a fresh database of the shared server, as a URL.
func Database(t testing.TB) string {
	t.Helper()
	return Server(t).Database(t)
}

// Database is a fresh database, as a URL; it is dropped at the end of the test, with its replication slots.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("flowd_%d_%d", os.Getpid(), named.Add(1))
	p.Exec(t, "", "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if p.node != nil && !daemon.Listens(p.node.address()) {
			return
		}
		p.Exec(t, "", `SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE database = '`+name+`' AND active`,
			`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '`+name+`' AND NOT active`,
			"DROP DATABASE "+name+" WITH (FORCE)")
	})
	return p.URL(name)
}

// Exec runs statements in a database, each of its own, as psql does. Its URL is that of [Database], or "".
func (p *Postgres) Exec(t testing.TB, databaseURL string, statements ...string) string {
	t.Helper()
	if databaseURL == "" {
		databaseURL = p.URL("")
	}
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Starting)
	defer cancel()
	args := []string{"-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", databaseURL}
	for _, s := range statements {
		args = append(args, "-c", s)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(programs, "psql"), args...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("psql %q: %v", statements, err)
	}
	return strings.TrimSpace(string(out))
}

// Stop ends the server at once, as if it crashed: only for [Own].
func (p *Postgres) Stop(t testing.TB) {
	t.Helper()
	if err := p.node.run("pg_ctl", "stop", "-D", "data", "-m", "immediate", "-w"); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server again, on the same port: only for [Own].
func (p *Postgres) Start(t testing.TB, settings ...string) {
	t.Helper()
	args := "'" + strings.Join(p.node.arguments(settings)[2:], "' '") + "'"
	if err := p.node.run("pg_ctl", "start", "-D", "data", "-w", "-l", "log", "-o", args); err != nil {
		t.Fatal(err)
	}
}
