// Package programtest lets a test binary act as a program that speaks the protocol of docs/programs.md, well or badly. Start
// at [Main].
package programtest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/program/frame"
)

const variable = "FLOWD_TEST_PROGRAM"

// Main runs the tests of a package, or the program that the environment names.
func Main(m *testing.M) {
	switch name := os.Getenv(variable); name {
	case "":
		os.Exit(m.Run())
	case "sleeper": // a child of a program
		time.Sleep(time.Hour)
	default:
		run(name)
	}
}

// Command returns how to run the test binary as a program, such as "answers", and the environment that it needs.
func Command(program string) (command, env []string) {
	return os.Args[:1], []string{"GORACE=atexit_sleep_ms=0", variable + "=" + program}
}

// Component returns a component that runs the test binary as a program, such as "answers" or "numbers". more has further
// fields in YAML's flow style, such as `window: 4`.
func Component(program, more string) string {
	self, _ := json.Marshal(os.Args[0])
	if more != "" {
		more = ", " + more
	}
	// With the race detector, a program waits for a second before it exits.
	return fmt.Sprintf(`{"program": {"command": [%s], "env": {"GORACE": "atexit_sleep_ms=0", %q: %q}%s}}`, self, variable, program, more)
}

// program is the side of a program.
type program struct {
	in   *bufio.Reader
	out  *os.File
	conf map[string]any

	canceled int // batches
}

// send writes a frame. The body consists of parts.
func (p *program) send(header string, parts ...string) {
	p.raw(uint32(len(header)), uint32(len(strings.Join(parts, ""))), header+strings.Join(parts, ""))
}

// raw writes lengths and data as they are.
func (p *program) raw(header, body uint32, data string) {
	buf := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, header), body)
	if _, err := p.out.Write(append(buf, data...)); err != nil {
		os.Exit(3)
	}
}

// received is a frame of flowd.
type received struct {
	Kind      string
	Type      string
	Batch     int
	Sizes     []int
	Meta      []map[string]any
	Attempts  []int
	Errors    []map[string]any
	Indices   []int
	Messages  int
	Numbers   []int
	Fates     []string
	Config    map[string]any
	Position  *int
	Instance  int
	Limits    map[string]int
	Timeout   float64
	Instances int

	payloads []string
}

// receive reads a frame. At the end of the pipe it exits.
func (p *program) receive() received {
	r, err := p.next()
	if err != nil {
		os.Exit(0)
	}
	return r
}

// next reads a frame. Its error says that the pipe has ended.
func (p *program) next() (r received, err error) {
	f, err := frame.Read(p.in, 1<<30)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(f.Header, &r); err != nil {
		fmt.Fprintln(os.Stderr, "flowd sent a bad header:", err, string(f.Header))
		os.Exit(4)
	}
	body := f.Body
	if r.Type != "batch" {
		return r, nil
	}
	for _, n := range r.Sizes {
		r.payloads = append(r.payloads, string(body[:n]))
		body = body[n:]
	}
	return r, nil
}

func run(name string) {
	p := &program{in: bufio.NewReader(os.NewFile(3, "in")), out: os.NewFile(4, "out")}
	switch name {
	case "exits":
		fmt.Fprintln(os.Stderr, "no such module: torch")
		os.Exit(7)
	case "silent":
		time.Sleep(time.Hour)
	case "babbles":
		fmt.Fprint(p.out, "hello, I am not a protocol")
		time.Sleep(time.Hour)
	}
	hello := p.receive()
	p.conf = hello.Config
	switch name {
	case "refuses":
		p.send(`{"type": "ready", "version": 1, "error": {"text": "there is no model \"smal\"", "setting": "model"}}`)
		p.receive()
	case "old":
		p.send(`{"type": "ready", "version": 7}`)
		p.receive()
	case "once": // works once, and can't be started again
		path := p.conf["path"].(string)
		if _, err := os.Stat(path); err == nil {
			fmt.Fprintln(os.Stderr, "the disk is gone")
			os.Exit(1)
		}
		_ = os.WriteFile(path, nil, 0o600)
	case "deaf": // does not end when it is told to
		signal.Ignore(syscall.SIGTERM)
	}
	if wrongs[name] {
		p.misbehave(name, hello)
	}
	p.send(`{"type": "ready", "version": 1}`)
	switch name {
	case "numbers":
		p.numbers(hello)
	case "flood":
		p.send(`{"type": "messages", "sizes": [1, 1]}`, "xy")
		time.Sleep(time.Hour)
	default:
		p.answers(name, hello)
	}
}

// answers answers batches as the payloads say.
func (p *program) answers(name string, hello received) {
	for {
		b := p.receive()
		switch b.Type {
		case "drain":
			if name == "deaf" {
				time.Sleep(time.Hour)
			}
		case "cancel":
			p.canceled++
		case "batch":
			if p.conf["together"] == true && slices.Contains(b.payloads, "crash") {
				os.Exit(1) // before anything is answered
			}
			for i, text := range b.payloads {
				p.answer(hello, b, i, text)
			}
		}
	}
}

// answer does with a message what its first word says.
func (p *program) answer(hello, b received, i int, text string) {
	word, rest, _ := strings.Cut(text, " ")
	results := fmt.Sprintf(`{"type": "results", "batch": %d, "first": %d, "results": [`, b.Batch, i)
	payload := func(s string) { p.send(results+strconv.Itoa(len(s))+"]}", s) }
	switch word {
	case "up":
		payload(strings.ToUpper(rest))
	case "drop":
		p.send(results + `{"drop": true}]}`)
	case "split":
		a, c, _ := strings.Cut(rest, ",")
		p.send(fmt.Sprintf(`%s{"parts": [%d, %d], "meta": {"whole": %q}}]}`, results, len(a), len(c), rest), a, c)
	case "nothing":
		p.send(results + `{"parts": []}]}`)
	case "meta":
		p.send(results + `{"meta": {"new": [1, 9007199254740993], "old": null}}]}`)
	case "show":
		meta := map[string]any{}
		if b.Meta != nil {
			meta = b.Meta[i]
		}
		text, _ := json.Marshal(map[string]any{"meta": meta, "config": hello.Config, "limits": hello.Limits, "messages": len(b.payloads)})
		payload(string(text))
	case "canceled":
		payload("canceled " + strconv.Itoa(p.canceled))
	case "pid":
		payload(strconv.Itoa(os.Getpid()))
	case "fail":
		p.send(results + `{"error": {"text": "` + rest + `"}}]}`)
	case "trace":
		p.send(results + `{"error": {"text": "ValueError: 13", "class": "rejected", "after": 1.5, "detail": "Traceback …\nline 3"}}]}`)
	case "odd":
		p.send(results + `{"error": {"text": "x", "class": "sunburn"}}]}`)
	case "say":
		fmt.Println(rest)
		fmt.Fprintln(os.Stderr, rest)
		p.send(results + `null]}`)
	case "metric":
		p.send(`{"type": "metric", "name": "test_hits_total", "kind": "counter", "value": 2, "labels": {"model": "small"}}`)
		p.send(`{"type": "metric", "name": "no good", "kind": "counter", "value": 2}`)
		p.send(results + `null]}`)
	case "unready":
		p.send(`{"type": "state", "ready": false, "reason": "the model is being loaded"}`)
		p.send(results + `null]}`)
	case "crash":
		fmt.Fprintln(os.Stderr, "segmentation fault")
		os.Exit(9)
	case "killed":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "flaky": // crashes as often as the file that it names has no bytes
		if text, _ := os.ReadFile(rest); len(text) < 2 {
			_ = os.WriteFile(rest, append(text, 'x'), 0o600)
			os.Exit(9)
		}
		p.send(results + `null]}`)
	case "exit": // answers, and exits
		p.send(results + `null]}`)
		os.Exit(0)
	case "hang":
		time.Sleep(time.Hour)
	case "busy": // works for long, and says so
		for range 8 {
			time.Sleep(100 * time.Millisecond)
			p.send(`{"type": "state", "ready": true}`)
		}
		p.send(results + `null]}`)
	case "wait": // until a file is there
		for {
			if _, err := os.Stat(rest); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		p.send(results + `null]}`)
	case "meet": // with the other processes, in a directory
		_ = os.WriteFile(filepath.Join(rest, strconv.Itoa(os.Getpid())), nil, 0o600)
		for {
			if files, _ := os.ReadDir(rest); len(files) >= hello.Instances {
				break
			}
			time.Sleep(time.Millisecond)
		}
		p.send(results + `null]}`)
	case "error":
		p.send(`{"type": "error", "error": {"text": "the database is gone"}}`)
		time.Sleep(time.Hour)
	case "twice":
		p.send(results + `null]}`)
		p.send(results + `null]}`)
		time.Sleep(time.Hour)
	case "stranger":
		p.send(`{"type": "results", "batch": 99, "results": [null]}`)
		time.Sleep(time.Hour)
	case "beyond":
		p.send(`{"type": "results", "batch": ` + strconv.Itoa(b.Batch) + `, "first": 1000, "results": [null]}`)
		time.Sleep(time.Hour)
	case "garbage":
		p.raw(12, 0, "not JSON at a")
		time.Sleep(time.Hour)
	case "lie":
		p.send(results + `1000]}`)
		time.Sleep(time.Hour)
	case "huge":
		p.raw(10, 1<<30, "")
		for range 1 << 10 {
			_, _ = p.out.Write(make([]byte, 1<<20))
		}
		time.Sleep(time.Hour)
	case "deep":
		p.send(results + strings.Repeat("[", 100_000) + `]}`)
		time.Sleep(time.Hour)
	case "closes":
		p.out.Close()
		time.Sleep(time.Hour)
	case "forks": // a child in another session holds all pipes open
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), variable+"=sleeper")
		child.Stdout, child.Stderr, child.ExtraFiles = os.Stdout, os.Stderr, []*os.File{os.NewFile(3, ""), p.out}
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			os.Exit(5)
		}
		payload(strconv.Itoa(child.Process.Pid))
	case "big":
		payload(string(bytes.Repeat([]byte("x"), 3<<20)))
	default:
		p.send(results + `null]}`)
	}
}

// numbers is an input: it sends the numbers from the position to config.to, each with its position, in batches of five. It
// notes fates in the file config.fates.
func (p *program) numbers(hello received) {
	at, to, credit, sent := 0, int(p.conf["to"].(float64)), 0, 0
	if hello.Position != nil {
		at = *hello.Position
	}
	crash := -1
	if n, ok := p.conf["crash"].(float64); ok { // once, after so many messages
		path := p.conf["path"].(string)
		if _, err := os.Stat(path); err != nil {
			crash = int(n)
			_ = os.WriteFile(path, nil, 0o600)
		}
	}
	for {
		for at < to && credit > 0 {
			n := min(5, to-at, credit)
			sizes, positions, parts := []string{}, []string{}, []string{}
			for range n {
				at++
				text := strconv.Itoa(at)
				sizes, positions, parts = append(sizes, strconv.Itoa(len(text))), append(positions, text), append(parts, text)
			}
			p.send(fmt.Sprintf(`{"type": "messages", "sizes": [%s], "positions": [%s]}`, strings.Join(sizes, ","), strings.Join(positions, ",")),
				parts...)
			credit -= n
			if sent += n; crash >= 0 && sent >= crash {
				os.Exit(9)
			}
			if at == to {
				p.send(`{"type": "end"}`)
			}
		}
		switch f := p.receive(); f.Type {
		case "credit":
			credit += f.Messages
			if to == 0 {
				p.send(`{"type": "end"}`)
			}
		case "fates":
			p.note(f)
		case "drain":
			if at < to {
				p.send(`{"type": "end"}`)
			}
			to = at
		}
	}
}

func (p *program) note(f received) {
	path, ok := p.conf["fates"].(string)
	if !ok {
		return
	}
	file, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		os.Exit(6)
	}
	defer file.Close()
	for i, n := range f.Numbers {
		fmt.Fprintln(file, n, f.Fates[i])
	}
}
