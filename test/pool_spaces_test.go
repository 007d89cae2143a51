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

// spaces are network namespaces: one of a hub, with a bridge, and four of workers.
type spaces struct {
	t       *testing.T
	prefix  string
	hubAddr string
}

// workerSpaces is how many namespaces workers have.
const workerSpaces = 4

var spacesMade atomic.Int64

// noSpaces says why there can't be namespaces, or "".
var noSpaces = sync.OnceValue(func() string {
	if _, err := exec.LookPath("ip"); err != nil {
		return "there is no ip(8) (install iproute2)"
	}
	if os.Geteuid() != 0 {
		return "network namespaces need root"
	}
	name := fmt.Sprintf("flowd-%d-try", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		return "network namespaces can't be made: " + string(out)
	}
	_ = exec.Command("ip", "netns", "del", name).Run()
	return ""
})

func newSpaces(t *testing.T) *spaces {
	if why := noSpaces(); why != "" {
		t.Skip("NOT TESTED: workers in network namespaces: " + why)
	}
	s := &spaces{t: t, prefix: fmt.Sprintf("flowd-%d-%d-", os.Getpid(), spacesMade.Add(1)), hubAddr: "10.0.0.254:5019"}
	all := []string{s.hub()}
	for i := range workerSpaces {
		all = append(all, s.worker(i))
	}
	t.Cleanup(func() {
		for _, name := range all {
			_ = exec.Command("ip", "netns", "del", name).Run() // it is gone where it was not made
		}
	})
	s.ip("", "netns add "+strings.Join(all, "\nnetns add "))
	hub := "link set lo up\nlink add br0 type bridge\naddr add 10.0.0.254/24 dev br0\nlink set br0 up\n"
	for i := range workerSpaces {
		hub += fmt.Sprintf("link add w%d type veth peer name eth0 netns %s\nlink set w%[1]d master br0 up\n", i,
			s.worker(i))
	}
	s.ip(s.hub(), hub)
	for i := range workerSpaces {
		s.ip(s.worker(i), fmt.Sprintf("link set lo up\naddr add 10.0.0.%d/24 dev eth0\nlink set eth0 up\n", i+1))
	}
	return s
}

func (s *spaces) hub() string { return s.prefix + "h" }

// worker is the namespace of the worker with an index; they are used in turn.
func (s *spaces) worker(i int) string { return fmt.Sprint(s.prefix, i%workerSpaces) }

// ip runs commands of ip(8) in a namespace.
func (s *spaces) ip(in, commands string) {
	s.t.Helper()
	args := []string{"-batch", "-"}
	if in != "" {
		args = append([]string{"-n", in}, args...)
	}
	command(s.t, "", commands, "ip", args...).Want(s.t, 0)
}

// inHub is a command line in the hub's namespace.
func (s *spaces) inHub(line []string) []string {
	return append([]string{"ip", "netns", "exec", s.hub()}, line...)
}

// inWorker is a command line in the namespace of a worker.
func (s *spaces) inWorker(i int, line []string) []string {
	return append([]string{"ip", "netns", "exec", s.worker(i)}, line...)
}

// slow delays what a worker sends, by netem.
func (s *spaces) slow(i int) {
	s.t.Helper()
	if _, err := exec.LookPath("tc"); err != nil {
		s.t.Skip("NOT TESTED: a slow link between network namespaces: there is no tc(8) (install iproute2)")
	}
	r := command(s.t, "", "", "tc", "-n", s.worker(i), "qdisc", "add", "dev", "eth0", "root", "netem", "delay", "100ms")
	if r.Code != 0 {
		s.t.Skip("NOT TESTED: a slow link between network namespaces: " + r.Stderr)
	}
}

// unplug takes a worker's cable away, without a notice to anyone.
func (f *fleet) unplug(i int) {
	f.t.Helper()
	if f.spaces != nil {
		f.spaces.ip(f.spaces.hub(), fmt.Sprintf("link set w%d down", i%workerSpaces))
		return
	}
	f.proxies[i].silence()
}

// plug puts the cable back.
func (f *fleet) plug(i int) {
	f.t.Helper()
	if f.spaces != nil {
		f.spaces.ip(f.spaces.hub(), fmt.Sprintf("link set w%d up", i%workerSpaces))
		return
	}
	f.proxies[i].speak()
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
