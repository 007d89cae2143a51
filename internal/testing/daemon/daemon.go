// Package daemon starts servers for tests that are not ours, such as RabbitMQ and PostgreSQL.
package daemon

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
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
	Keep    Keep     // how long it lives; as long as the test binary if zero
}

// Process is a server that has been started.
type Process struct {
	output *os.File      // what it prints; it has no name, so it is gone with its last user
	ended  chan struct{} // closed when the server is gone with its files
	life   io.Closer     // the keeper's stdin
}

// running are all that have been started: the collector would close the stdin of a keeper that nothing refers to.
var running struct {
	sync.Mutex // guards the field below
	all        []*Process
}

// keeper runs the server in its own process group until its stdin ends, which happens when the test binary is gone,
// however it went, or, with a file of [Share], until the go command is gone or the server is; then it ends the server,
// removes its files and kills what else is in the group.
const keeper = `
quit=$1 go=$2 since=$3 file=$4
shift 4
"$@" </dev/null &
server=$!
lives() {
	read -r stat <"/proc/$go/stat" || return
	set -- ${stat##*") "}
	[ "$1" != Z ] && [ "${20}" = "$since" ]
}
if [ -z "$file" ]; then
	cat >/dev/null
else
	while kill -0 $server && lives; do sleep 1; done 2>/dev/null
	rm -f "$file"
fi
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
	args := []string{"-c", keeper, "sh", quit, strconv.Itoa(s.Keep.pid), s.Keep.since, s.Keep.file}
	cmd := exec.Command("sh", append(args, s.Command...)...)
	cmd.Env, cmd.Dir = append(append(os.Environ(), "HOME="+s.Home), s.Env...), s.Home
	cmd.SysProcAttr = ownGroup(s.Nobody)
	// A pipe would kill a server that prints after the test binary has ended.
	output, err := os.CreateTemp("", "flowd-output")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(output.Name()); err != nil {
		return nil, err
	}
	p := &Process{output: output, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = output, output
	if s.Keep.file == "" {
		if p.life, err = cmd.StdinPipe(); err != nil { // other children do not inherit it
			return nil, err
		}
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	running.Lock()
	running.all = append(running.all, p)
	running.Unlock()
	go p.wait(cmd)
	return p, p.listens(s.Address)
}

func (p *Process) wait(cmd *exec.Cmd) {
	defer close(p.ended)
	_ = cmd.Wait() // it is killed: by itself
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
		case <-p.ended:
			return fmt.Errorf("the server ended: %s", p.said())
		case <-late:
			return fmt.Errorf("the server does not listen after %v: %s", Starting, p.said())
		}
	}
}

// said is the beginning of what the server has printed.
func (p *Process) said() []byte {
	text := make([]byte, 64<<10)
	n, _ := p.output.ReadAt(text, 0)
	return bytes.TrimSpace(text[:n])
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

// given are the ports that have been given away: a server that is about to listen does not hold its port yet.
var given = struct {
	sync.Mutex // guards the field below
	ports      map[int]bool
}{ports: map[int]bool{}}

// Ports are n ports of 127.0.0.1 on which no one listens now. They lie below those that systems give to whoever names
// none, and to connections, so that nothing takes one before a server listens on it; none is given twice.
func Ports(n int) (ports []string, err error) {
	given.Lock()
	defer given.Unlock()
	const first, count = 12000, 20000
	for range 100 * n {
		port := first + rand.IntN(count) // two test binaries hardly ever choose the same
		if given.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue // it is taken
		}
		l.Close()
		given.ports[port] = true
		if ports = append(ports, strconv.Itoa(port)); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("only %d of %d ports are free", len(ports), n)
}

// End ends a server that is not shared, and waits until it is gone.
func (p *Process) End() {
	p.life.Close()
	<-p.ended
}
