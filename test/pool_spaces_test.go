package test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// namespaces are network namespaces: one for a hub, with a bridge, and four for workers.
type namespaces struct {
	t       *testing.T
	prefix  string
	hubAddr string
}

// workerNamespaces is the number of namespaces for workers.
const workerNamespaces = 4

var namespacesMade atomic.Int64

// whyNoNamespaces says why network namespaces can't be used, or returns "".
var whyNoNamespaces = sync.OnceValue(func() string {
	if _, err := exec.LookPath("ip"); err != nil {
		return "ip(8) is missing (install iproute2)"
	}
	if os.Geteuid() != 0 {
		return "network namespaces need root"
	}
	name := fmt.Sprintf("flowd-%d-try", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		return "network namespaces can't be created: " + string(out)
	}
	_ = exec.Command("ip", "netns", "del", name).Run()
	return ""
})

func newNamespaces(t *testing.T) *namespaces {
	if why := whyNoNamespaces(); why != "" {
		t.Skip("NOT TESTED: workers in network namespaces: " + why)
	}
	s := &namespaces{t: t, prefix: fmt.Sprintf("flowd-%d-%d-", os.Getpid(), namespacesMade.Add(1)), hubAddr: "10.0.0.254:5019"}
	all := []string{s.hub()}
	for i := range workerNamespaces {
		all = append(all, s.worker(i))
	}
	t.Cleanup(func() {
		for _, name := range all {
			_ = exec.Command("ip", "netns", "del", name).Run() // it may not exist
		}
	})
	s.ip("", "netns add "+strings.Join(all, "\nnetns add "))
	hub := "link set lo up\nlink add br0 type bridge\naddr add 10.0.0.254/24 dev br0\nlink set br0 up\n"
	for i := range workerNamespaces {
		hub += fmt.Sprintf("link add w%d type veth peer name eth0 netns %s\nlink set w%[1]d master br0 up\n", i,
			s.worker(i))
	}
	s.ip(s.hub(), hub)
	for i := range workerNamespaces {
		s.ip(s.worker(i), fmt.Sprintf("link set lo up\naddr add 10.0.0.%d/24 dev eth0\nlink set eth0 up\n", i+1))
	}
	return s
}

func (s *namespaces) hub() string { return s.prefix + "h" }

// worker returns the namespace of worker i. Namespaces are used in turn.
func (s *namespaces) worker(i int) string { return fmt.Sprint(s.prefix, i%workerNamespaces) }

// ip runs commands of ip(8) in a namespace, or outside if in is "".
func (s *namespaces) ip(in, commands string) {
	s.t.Helper()
	args := []string{"-batch", "-"}
	if in != "" {
		args = append([]string{"-n", in}, args...)
	}
	command(s.t, "", commands, "ip", args...).Want(s.t, 0)
}

// inHub returns a command line that runs line in the hub's namespace.
func (s *namespaces) inHub(line []string) []string {
	return append([]string{"ip", "netns", "exec", s.hub()}, line...)
}

// inWorker returns a command line that runs line in the namespace of worker i.
func (s *namespaces) inWorker(i int, line []string) []string {
	return append([]string{"ip", "netns", "exec", s.worker(i)}, line...)
}

// slow delays the packets of worker i with netem.
func (s *namespaces) slow(i int) {
	s.t.Helper()
	if _, err := exec.LookPath("tc"); err != nil {
		s.t.Skip("NOT TESTED: a slow link between network namespaces: tc(8) is missing (install iproute2)")
	}
	r := command(s.t, "", "", "tc", "-n", s.worker(i), "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "100ms")
	if r.Code != 0 {
		s.t.Skip("NOT TESTED: a slow link between network namespaces: " + r.Stderr)
	}
}

// unplug cuts a worker off without closing connections.
func (f *fleet) unplug(i int) {
	f.t.Helper()
	if f.spaces != nil {
		f.spaces.ip(f.spaces.hub(), fmt.Sprintf("link set w%d down", i%workerNamespaces))
		return
	}
	f.proxies[i].silence()
}

// plug connects the worker again.
func (f *fleet) plug(i int) {
	f.t.Helper()
	if f.spaces != nil {
		f.spaces.ip(f.spaces.hub(), fmt.Sprintf("link set w%d up", i%workerNamespaces))
		return
	}
	f.proxies[i].endSilence()
}

// slow makes the link of a worker slow.
func (f *fleet) slow(i int) {
	f.t.Helper()
	if f.spaces != nil {
		f.spaces.slow(i)
		return
	}
	f.proxies[i].set(false, 50*time.Millisecond)
}
