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

// Broker is a RabbitMQ for tests. Tests of one binary share it, so each uses its own names.
type Broker struct {
	URL        string // AMQP, with user and password
	Management string // URL of the HTTP interface, "" where it is not known
	node       *node  // nil: not ours
}

// node is a RabbitMQ that this test binary has started.
type node struct {
	name, home string
	env        []string
}

var (
	once   sync.Once
	broker *Broker
	errNo  error // why there is none
)

// RabbitMQ is a broker for the test, or the test is skipped, which stderr says, too.
//
// It is the one that the environment names, else a private node that is started
// with the first call and dies with the test binary. Where Debian's package is not
// installed, root installs it.
func RabbitMQ(t testing.TB) *Broker {
	t.Helper()
	once.Do(func() { broker, errNo = find() })
	if errNo != nil {
		why := fmt.Sprintf("no RabbitMQ to test with: %v (set %s=amqp://user:password@host, or install rabbitmq-server)", errNo, Variable)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
	return broker
}

// Own is RabbitMQ for tests that stop the node or close connections of others:
// they need one that no one else uses.
func Own(t testing.TB) *Broker {
	t.Helper()
	b := RabbitMQ(t)
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
	script, err := installed()
	if err != nil {
		return nil, err
	}
	return start(script)
}

// start starts a node on free ports and waits until it listens.
func start(script string) (*Broker, error) {
	home, err := daemon.Home("rabbitmq", false)
	if err != nil {
		return nil, err
	}
	ports, err := daemon.Ports(4)
	if err != nil {
		return nil, err
	}
	amqp, management, dist, epmd := ports[0], ports[1], ports[2], ports[3]
	n := &node{name: "flowd" + amqp + "@localhost", home: home}
	n.env = []string{
		"RUNNING_UNDER_SYSTEMD=true", // the script becomes the node, with no process in between
		"HOME=" + home, "ERL_EPMD_PORT=" + epmd, "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=" + n.name,
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
	address := net.JoinHostPort("127.0.0.1", amqp)
	_, err = daemon.Start(daemon.Server{Command: []string{"sh", "-c", withEpmd, "sh", script},
		Env: n.env, Home: home, Address: address})
	if err != nil {
		return nil, err
	}
	// It listens before its management interface does.
	if out, err := n.run("rabbitmqctl", "await_startup"); err != nil {
		return nil, fmt.Errorf("await_startup: %w: %s", err, out)
	}
	return &Broker{URL: "amqp://guest:guest@" + address, Management: "http://guest:guest@127.0.0.1:" + management,
		node: n}, nil
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
	cmd := exec.CommandContext(ctx, filepath.Join(scripts, command), append([]string{"-n", n.name}, args...)...)
	cmd.Env, cmd.Dir = append(os.Environ(), n.env...), n.home
	out, err := cmd.CombinedOutput()
	return string(out), err
}
