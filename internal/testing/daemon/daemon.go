// Package daemon starts servers for tests that are not ours, such as RabbitMQ and PostgreSQL.
package daemon

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// Starting is how long a server may take until it listens.
const Starting = 90 * time.Second

// Server is what [Start] starts.
type Server struct {
	Command []string // the program and its arguments; its working directory is Home
	Env     []string // besides this process's own; HOME is Home
	Home    string   // its files, from [Home]: they are removed when it has ended
	Address string   // where it listens on TCP when it is ready
	Quit    string   // shell commands that end it; kill -KILL $server if empty
	Nobody  bool     // it refuses to run as root, and runs as nobody then: see [Nobody]
}

// Process is a server that dies with the test binary.
type Process struct {
	output *output
	life   io.Closer // the keeper's stdin
}

// running are all that have been started: the collector would close the stdin of a keeper that nothing refers to.
var running struct {
	sync.Mutex // guards the field below
	all        []*Process
}

// keeper runs the server in its own process group until its stdin ends, which happens when the test binary is gone,
// however it went; then it ends the server, removes its files and kills what else is in the group.
const keeper = `
quit=$1
shift
"$@" </dev/null &
server=$!
cat >/dev/null
exec >/dev/null 2>&1
eval "$quit"
wait $server
rm -rf "$HOME" || { sleep 1; rm -rf "$HOME"; }
kill -KILL 0
`

// Start starts a server and waits until it listens.
func Start(s Server) (*Process, error) {
	quit := s.Quit
	if quit == "" {
		quit = "kill -KILL $server"
	}
	cmd := exec.Command("sh", append([]string{"-c", keeper, "sh", quit}, s.Command...)...)
	cmd.Env, cmd.Dir = append(append(os.Environ(), "HOME="+s.Home), s.Env...), s.Home
	cmd.SysProcAttr = ownGroup(s.Nobody)
	p := &Process{output: &output{ended: make(chan struct{})}}
	r, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if p.life, err = cmd.StdinPipe(); err != nil { // other children do not inherit it
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	running.Lock()
	running.all = append(running.all, p)
	running.Unlock()
	go p.output.read(r)
	return p, p.listens(s.Address)
}

// listens waits until the server takes connections.
func (p *Process) listens(address string) error {
	late := time.After(Starting)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		if Listens(address) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.output.ended:
			return fmt.Errorf("the server ended: %s", p.output)
		case <-late:
			return fmt.Errorf("the server does not listen after %v: %s", Starting, p.output)
		}
	}
}

// Listens says whether something takes connections at an address.
func Listens(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// Home makes a directory for a server; nobody owns it where that is who the server runs as.
func Home(name string, nobody bool) (string, error) {
	home, err := os.MkdirTemp("", "flowd-"+name)
	if err == nil && nobody {
		err = give(home)
	}
	return home, err
}

// Ports are ports of 127.0.0.1 on which no one listens now.
func Ports(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}

// End ends the server and waits until it is gone.
func (p *Process) End() {
	p.life.Close()
	<-p.output.ended
}
