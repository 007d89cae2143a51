//go:build linux

package test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/natstest"
	"github.com/nats-io/nats.go/jetstream"
)

// manager is a fake systemd: it receives the notifications of a unit's process.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

// unit starts flowd as the process of a unit with Type=notify.
func unit(t *testing.T, dir string, args ...string) (*process, *manager) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	args = append([]string{"NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=200000", binary}, args...)
	return startAs(t, dir, "env", args...), &manager{t, conn}
}

// nextNotification returns the next notification with a prefix, and skips others. It returns "" if none arrives in time.
func (m *manager) nextNotification(prefix string, within time.Duration) string {
	m.t.Helper()
	_ = m.conn.SetReadDeadline(time.Now().Add(within))
	for buf := make([]byte, 4096); ; {
		n, err := m.conn.Read(buf)
		if err != nil {
			return ""
		}
		if text := string(buf[:n]); strings.HasPrefix(text, prefix) {
			return text
		}
	}
}

func (m *manager) want(prefix string) {
	m.t.Helper()
	if m.nextNotification(prefix, time.Minute) == "" {
		m.t.Fatalf("systemd received no %s", prefix)
	}
}

func TestSystemdIsNotifiedWhenOutputsAreOpen(t *testing.T) {
	s := natstest.Start(t, nil)
	s.Stream(t, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out"}})
	s.Stop()
	dir := t.TempDir()
	p, m := unit(t, dir, "-c", write(t, dir, "p.yaml", fmt.Sprintf(`
inputs: {in: {stdin: {}}}
outputs: {out: {nats: {url: %q, stream: OUT, subject: out, timeout: 1s}}}
`, s.URL)))
	m.want("STATUS=1 pipeline, p output out: output_breaker_open")
	m.want("WATCHDOG=1") // flowd is alive while it waits
	if early := m.nextNotification("READY=1", 500*time.Millisecond); early != "" {
		t.Errorf("ready while the output is not open: %q", early)
	}
	s.Restart(t, nil)
	m.want("READY=1\nSTATUS=1 pipeline")

	p.Signal(syscall.SIGHUP)
	text := m.nextNotification("RELOADING=1\nMONOTONIC_USEC=", time.Minute)
	_, usec, _ := strings.Cut(strings.TrimSpace(text), "MONOTONIC_USEC=")
	if n, err := strconv.ParseInt(usec, 10, 64); err != nil || n <= 0 {
		t.Errorf("the notification of the reload is %q, want a positive MONOTONIC_USEC", text)
	}
	m.want("READY=1")

	write(t, dir, "p.yaml", "inputs: {")
	p.Signal(syscall.SIGHUP) // the old pipeline continues
	m.want("RELOADING=1")
	m.want("READY=1")

	p.Signal(syscall.SIGTERM)
	m.want("STOPPING=1")
	p.Wait().Want(t, 0)
}

// systemd considers a unit failed if its process exits before it is ready.
func TestSystemdIsNotifiedOfAShortRun(t *testing.T) {
	dir := t.TempDir()
	p, m := unit(t, dir, "-c", write(t, dir, "p.yaml", "inputs: {in: {generate: {count: 1, body: '{}'}}}\noutputs: {out: {drop: {}}}"))
	m.want("READY=1")
	m.want("STOPPING=1")
	p.Wait().Want(t, 0)
}

func TestTheUnitIsValidAndHardened(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is missing (apt install systemd)")
	}
	unit, err := os.ReadFile(filepath.Join(repo, "packaging", "systemd", "flowd.service"))
	if err != nil {
		t.Fatal(err)
	}
	// systemd-analyze requires that the unit's programs and manual pages exist.
	unit = bytes.ReplaceAll(unit, []byte("/usr/bin/flowd"), []byte(binary))
	unit = bytes.ReplaceAll(unit, []byte("Documentation=man:flowd(1)\n"), nil)
	file := write(t, t.TempDir(), "flowd.service", string(unit))
	if out, err := exec.Command(analyze, "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", "--no-pager", file).CombinedOutput()
	if err != nil {
		t.Errorf("the exposure level of the unit is above 2.0: %v\n%s", err, out)
	}
}
