// Package brokertest gives tests a real RabbitMQ: see [RabbitMQ].
package brokertest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/daemon"
)

// Variable names a RabbitMQ to use instead of a private one, as an AMQP URL of a user with
// all permissions.
const Variable = "FLOWD_TEST_RABBITMQ"

// Broker is a RabbitMQ for tests. Tests of all binaries share it, so each uses its own names.
type Broker struct {
	URL        string // AMQP, with user and password
	Management string // URL of the HTTP interface, "" where it is not known
	node       *node  // nil: not ours
}

// node is a RabbitMQ that a test binary has started.
type node struct {
	Name, Home       string
	Env              []string
	AMQP, Management string // addresses
}

var (
	shared = sync.OnceValues(find)
	own    = sync.OnceValues(func() (*Broker, error) {
		n, err := start(daemon.Keep{})
		return n.broker(), err
	})
)

// RabbitMQ is a broker for the test, or the test is skipped, which stderr says, too.
//
// It is the one that the environment names, else a node that is started with the first call and ends with the go
// command that runs the tests: see [daemon.Share]. Where Debian's package is not installed, root installs it.
func RabbitMQ(t testing.TB) *Broker {
	t.Helper()
	return given(t, shared)
}

// Managed is the broker of [RabbitMQ] for tests that need its management interface, and no more of that than what has
// names of their own.
func Managed(t testing.TB) *Broker {
	t.Helper()
	return ours(t, shared)
}

// Own is a node of this binary alone, for tests that stop it, or disturb what all its clients do.
func Own(t testing.TB) *Broker {
	t.Helper()
	if os.Getenv(Variable) != "" {
		return ours(t, shared)
	}
	return ours(t, own)
}

func given(t testing.TB, find func() (*Broker, error)) *Broker {
	t.Helper()
	b, err := find()
	if err != nil {
		why := fmt.Sprintf("no RabbitMQ to test with: %v (set %s=amqp://user:password@host, or install rabbitmq-server)",
			err, Variable)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
	return b
}

func ours(t testing.TB, find func() (*Broker, error)) *Broker {
	t.Helper()
	b := given(t, find)
	if b.node == nil {
		t.Skipf("%s is set: a broker of others is not stopped", Variable)
	}
	return b
}

func find() (*Broker, error) {
	if address := os.Getenv(Variable); address != "" {
		if !strings.Contains(address, "://") {
			address = "amqp://guest:guest@" + address
		}
		if _, err := url.Parse(address); err != nil {
			return nil, fmt.Errorf("%s is no URL", Variable)
		}
		return &Broker{URL: address}, nil
	}
	n, err := daemon.Share("rabbitmq", start, func(n *node) string { return n.AMQP })
	return n.broker(), err
}

func (n *node) broker() *Broker {
	if n == nil {
		return nil
	}
	return &Broker{URL: "amqp://guest:guest@" + n.AMQP, Management: "http://guest:guest@" + n.Management, node: n}
}

// start starts a node on free ports and waits until it listens.
func start(keep daemon.Keep) (*node, error) {
	script, err := installed()
	if err != nil {
		return nil, err
	}
	home, err := daemon.Home("rabbitmq", false)
	if err != nil {
		return nil, err
	}
	ports, err := daemon.Ports(4)
	if err != nil {
		return nil, err
	}
	amqp, management, dist, epmd := ports[0], ports[1], ports[2], ports[3]
	const host = "127.0.0.1"
	n := &node{Name: "flowd" + amqp + "@localhost", Home: home,
		AMQP: net.JoinHostPort(host, amqp), Management: net.JoinHostPort(host, management)}
	n.Env = []string{
		"RUNNING_UNDER_SYSTEMD=true", // the script becomes the node, with no process in between
		"HOME=" + home, "ERL_EPMD_PORT=" + epmd, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=" + n.Name,
		"RABBITMQ_NODE_PORT=" + amqp,
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_DIST_PORT=" + dist,
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(home, "mnesia"),
		"RABBITMQ_LOG_BASE=" + filepath.Join(home, "log"),
		"RABBITMQ_PID_FILE=" + filepath.Join(home, "pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(home, "enabled_plugins"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(home, "rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + filepath.Join(home, "advanced.config"),
		"RABBITMQ_CONF_ENV_FILE=" + filepath.Join(home, "env.conf"),
		// Two schedulers are enough for tests, and do not spin while they wait.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
	}
	files := map[string]string{
		"enabled_plugins": "[rabbitmq_management].\n",
		"rabbitmq.conf": "max_message_size = 1048576\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = " +
			management + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	_, err = daemon.Start(daemon.Server{Command: []string{"sh", "-c", withEpmd, "sh", script},
		Env: n.Env, Home: home, Address: n.AMQP, Keep: keep})
	if err != nil {
		return nil, err
	}
	// It listens before its management interface does.
	if out, err := n.run("rabbitmqctl", "await_startup"); err != nil {
		return nil, fmt.Errorf("await_startup: %w: %s", err, out)
	}
	return n, nil
}

// withEpmd starts epmd, too, in the group of the node, otherwise it would stay.
const withEpmd = `
epmd -port "$ERL_EPMD_PORT" >/dev/null 2>&1 &
exec "$1"
`

// Ctl runs rabbitmqctl on the node: only for [Own].
func (b *Broker) Ctl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := b.node.run("rabbitmqctl", args...)
	if err != nil {
		t.Fatalf("rabbitmqctl %q: %v\n%s", args, err, out)
	}
	return out
}

// Eval makes the node evaluate Erlang: only for [Own]. It is faster than Ctl.
func (b *Broker) Eval(t testing.TB, erlang string) string {
	t.Helper()
	return b.Ctl(t, "eval", erlang)
}

func (n *node) run(command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), daemon.Starting)
	defer cancel()
	// The wrappers in sbin would become another user.
	cmd := exec.CommandContext(ctx, filepath.Join(scripts, command), append([]string{"-n", n.Name}, args...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), n.Env...), n.Home
	out, err := cmd.CombinedOutput()
	return string(out), err
}
