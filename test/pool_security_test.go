package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// serveOnLoopback starts a hub on loopback.
func serveOnLoopback(t *testing.T, p pipeline) *fleet {
	t.Helper()
	f := newFleet(t, onLoopback)
	f.serve(p)
	return f
}

// doesOneJob waits until a worker has joined, makes it do a job, and stops it.
func (f *fleet) doesOneJob(w *process) {
	f.t.Helper()
	f.waitForWorker(w)
	f.hub.Send("1\n")
	if got := f.hub.Line(); got != "1" {
		f.t.Errorf("stdout has %q, want 1", got)
	}
	f.leave(w)
}

func TestPoolTokens(t *testing.T) {
	t.Parallel()
	f := serveOnLoopback(t, pipeline{})
	worker := []string{"worker", "--join", f.addr, "--pool", "embed"}
	t.Run("wrong", func(t *testing.T) {
		path := write(t, f.dir, "wrong", "guessed")
		r := flowd(t, f.dir, "", append(worker, "--token-file", path)...)
		r.Want(t, 1, f.addr+" refuses this worker", "FLOWD_TOKEN", "--token-file")
		flowd(t, f.dir, "", "pool", "ls", "--join", f.addr, "--token-file", path).Want(t, 1, "uthorization", "token")
	})
	t.Run("none", func(t *testing.T) {
		flowd(t, f.dir, "", worker...).Want(t, 1, f.addr+" refuses this worker", "FLOWD_TOKEN")
	})
	t.Run("an argument", func(t *testing.T) {
		flowd(t, f.dir, "", append(worker, "--token", poolToken)...).Want(t, 2, "unknown flag: --token")
	})
	t.Run("a missing file", func(t *testing.T) {
		flowd(t, f.dir, "", append(worker, "--token-file", "nowhere")...).Want(t, 2, "nowhere")
	})
	t.Run("from a file", func(*testing.T) {
		f.doesOneJob(startAs(f.t, f.dir, binary, append(worker, "--token-file", "token")...))
	})
	t.Run("from the environment", func(*testing.T) {
		f.doesOneJob(startAs(f.t, f.dir, "env", append([]string{"FLOWD_TOKEN=" + poolToken, binary}, worker...)...))
	})
	f.endHub(0, 1, 0)
	if strings.Contains(f.hub.Stderr.Text(), poolToken) {
		t.Errorf("the log of the hub contains the token:\n%s", f.hub.Stderr.Text())
	}
}

func TestPoolListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"0.0.0.0:5019", ":5019", "[::]:5019"} {
		dir := t.TempDir()
		path := write(t, dir, "p.yaml", `
inputs: {in: {stdin: {}}}
processors: [{pool: {name: embed, workers: remote, do: [{set: {a: 1}}]}}]
outputs: {out: {stdout: {}}}
service: {cluster: {listen: "`+listen+`"}}
`)
		for _, args := range [][]string{{"lint", path}, {"-c", path}} {
			if r := flowd(t, dir, "", args...); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr,
				"is not a loopback address") || !strings.Contains(r.Stdout+r.Stderr, "set token") {
				t.Errorf("%s: %q exits with %d, want an error about the address:\n%s%s", listen, args, r.Code, r.Stdout, r.Stderr)
			}
		}
	}
}

func TestPoolAllowList(t *testing.T) {
	t.Parallel()
	f := serveOnLoopback(t, pipeline{do: job + ", {set: {a: 1}}"})
	args := []string{"worker", "--join", f.addr, "--pool", "embed", "--token-file", "token", "--allow"}
	flowd(t, f.dir, "", append(args, "set")...).Want(t, 1, "pool embed", "exec", "--allow")
	flowd(t, f.dir, "", append(args, "nonsense")...).Want(t, 2, "--allow", `no processor "nonsense"`)
	w := startAs(t, f.dir, binary, append(args, "set,exec")...)
	f.waitForWorker(w)
	f.leave(w)
	if n := len(f.jobRuns()); n != 0 {
		t.Errorf("%d jobs ran, want none", n)
	}
	f.endHub(0, 1, 0)
}

// TestPoolAllowListWhenStepsChange reloads the pipeline with steps that a worker does not allow.
// The worker must not run them, and pool ls must show why.
func TestPoolAllowListWhenStepsChange(t *testing.T) {
	t.Parallel()
	f := serveOnLoopback(t, pipeline{do: "{set: {a: 1}}"})
	f.join(1, "--allow", "set")
	f.file(pipeline{do: job, pool: "timeout: 300ms, retries: 0"})
	f.hub.Signal(syscall.SIGHUP)
	f.hub.Says("reloaded")
	f.workers[0].Says("takes no more jobs")
	f.eventually("pool ls shows the reason", func() bool { return strings.Contains(f.ls().Stdout, "takes no jobs: ") })
	f.hub.Send("1\n")
	f.endHub(0, 1, 0)
	f.wantDeadLetter("1", "timeout", "no worker")
	if n := len(f.jobRuns()); n != 0 {
		t.Errorf("%d jobs ran, want none", n)
	}
	f.leave(f.workers[0])
}

// TestPoolRefusedJobsGoToOthers: a worker that does not allow the new steps may still receive
// jobs that it requested before. It returns them, which does not count as an attempt.
func TestPoolRefusedJobsGoToOthers(t *testing.T) {
	t.Parallel()
	f := serveOnLoopback(t, pipeline{do: "{set: {a: 1}}"})
	f.join(1, "--allow", "set", "--slots", "32")
	f.file(pipeline{do: "{meta: {a: n}}, {set: {b: n}}", pool: "retries: 0"})
	f.hub.Signal(syscall.SIGHUP)
	f.workers[0].Says("takes no more jobs")
	f.join(1)
	for n := range 64 {
		f.hub.Send(fmt.Sprintf("{\"n\":%d}\n", n))
	}
	f.hub.Stdin.Close()
	f.hub.Wait().Want(t, 0, "64 received: 64 delivered")
	for payload, l := range f.deadLetters() {
		t.Errorf("%s is a dead letter: %+v", payload, l.Meta)
	}
}

// authority creates a CA, and a certificate for loopback signed by it.
func authority(t *testing.T, dir string) (ca, cert, key string) {
	t.Helper()
	file := func(name, kind string, der []byte) string {
		return write(t, dir, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	made := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if by == nil {
			by = private
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		return der, private
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	rootDER, rootKey := made(root, root, nil)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	leafDER, leafKey := made(leaf, root, rootKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	return file("ca.pem", "CERTIFICATE", rootDER), file("cert.pem", "CERTIFICATE", leafDER),
		file("key.pem", "PRIVATE KEY", keyDER)
}

func TestPoolTLS(t *testing.T) {
	t.Parallel()
	ca, cert, key := authority(t, t.TempDir())
	other, _, _ := authority(t, t.TempDir())
	f := serveOnLoopback(t, pipeline{cluster: "tls: {cert: \"" + cert + "\", key: \"" + key + "\"}"})
	f.doesOneJob(f.startWorker("--ca", ca))
	for what, args := range map[string][]string{"another authority": {"--ca", other}, "the system's authorities": nil} {
		w := f.startWorker(args...)
		line := w.Says("certificate")
		if !strings.Contains(line, "unknown authority") {
			t.Errorf("%s: %s", what, line)
		}
		w.Signal(syscall.SIGTERM)
		w.Wait()
	}
	f.endHub(0, 1, 0)
	if n := strings.Count(f.hub.Stderr.Text(), "has joined the pool"); n != 1 {
		t.Errorf("%d workers joined, want 1:\n%s", n, f.hub.Stderr.Text())
	}
}

func TestPoolSurvivesGarbage(t *testing.T) {
	t.Parallel()
	f := serveOnLoopback(t, pipeline{})
	f.join(1)
	for _, garbage := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		strings.Repeat("\x00\xff", 1<<20),
		"CONNECT {\"auth_token\":\"", "CONNECT " + strings.Repeat("{", 1<<20) + "\r\n",
		"PUB flowd.jobs.embed.x 99999999999999\r\n", "SUB > 1\r\nPING\r\n",
	} {
		c, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(garbage)) // the hub may close the connection meanwhile
		_ = c.SetReadDeadline(time.Now().Add(deadline))
		for buf := make([]byte, 4096); err == nil; _, err = c.Read(buf) { // until the hub closes it
		}
		if errors.Is(err, syscall.ETIMEDOUT) || strings.Contains(err.Error(), "timeout") {
			t.Errorf("%.20q: the hub does not close the connection", garbage)
		}
		c.Close()
	}
	f.hub.Send(numbers(1, 3))
	f.finish(1, 3, f.workers[0])
}

// connectIntruder connects a client that has the token but is not a worker.
func (f *fleet) connectIntruder() (*nats.Conn, <-chan error) {
	f.t.Helper()
	told := make(chan error, 64)
	const id = "0123456789abcdef" // part of the connection's inbox subjects
	nc, err := nats.Connect("nats://"+f.addr, nats.Token(poolToken), nats.Name("intruder "+id),
		nats.CustomInboxPrefix("_INBOX."+id), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			told <- err
		}))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(nc.Close)
	return nc, told
}

func TestPoolPermissions(t *testing.T) {
	t.Parallel()
	f := serveOnLoopback(t, pipeline{})
	nc, told := f.connectIntruder()
	refused := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-told:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(deadline):
			t.Errorf("%s is allowed", what)
		}
	}
	for _, subject := range []string{
		"flowd.jobs.embed.any", "flowd.down.embed", "$JS.API.STREAM.DELETE.flowd-embed",
		"$JS.API.STREAM.PURGE.flowd-embed",
		"$JS.API.STREAM.MSG.GET.flowd-embed", "$JS.API.DIRECT.GET.flowd-embed",
		"$JS.API.CONSUMER.DELETE.flowd-embed.workers",
		"$JS.API.CONSUMER.CREATE.flowd-embed.mine", "$SYS.REQ.SERVER.PING", "_INBOX.any.one",
	} {
		refused("publishing to "+subject, nc.Publish(subject, []byte("{}")))
	}
	for _, subject := range []string{"flowd.hub.>", "flowd.jobs.>", "flowd.beat.*", "flowd.join.*", ">", "$JS.>",
		"$JS.ACK.>", "$SYS.>"} {
		_, err := nc.SubscribeSync(subject)
		refused("subscribing to "+subject, err)
	}
	f.join(1)
	f.hub.Send("1\n")
	f.finish(1, 1, f.workers[0])
}

// TestPoolJobsAreForOneWorker: a client with the token must not receive the jobs of workers.
func TestPoolJobsAreForOneWorker(t *testing.T) {
	t.Parallel()
	f := serveOnLoopback(t, pipeline{})
	nc, told := f.connectIntruder()
	var seen atomic.Int64
	if _, err := nc.Subscribe("_INBOX.>", func(m *nats.Msg) {
		if strings.Contains(string(m.Data), "confidential") {
			seen.Add(1)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	f.join(1)
	f.hub.Send("confidential\n")
	if got := f.hub.Line(); got != "confidential" {
		t.Errorf("got %q on stdout", got)
	}
	if err := nc.Flush(); err != nil { // the client has now received all earlier messages
		t.Fatal(err)
	}
	if seen.Load() > 0 {
		t.Error("a client that subscribes to _INBOX.> receives the jobs of workers")
	}
	select {
	case err := <-told:
		t.Log("refused:", err)
	default:
	}
	f.finish(1, 0, f.workers[0])
}

// TestPoolVersions: a worker of another version is rejected, with a remedy.
func TestPoolVersions(t *testing.T) {
	t.Parallel()
	f := serveOnLoopback(t, pipeline{})
	f.join(1)
	nc, _ := f.connectIntruder()
	m, err := nc.Request("flowd.join.embed.0123456789abcdef",
		[]byte(`{"Protocol":2,"Version":"v0.0.1","Worker":"old/1"}`), deadline)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(m.Data); !strings.Contains(s, "v0.0.1") || !strings.Contains(s, "install the same version") ||
		strings.Contains(s, "job.sh") {
		t.Errorf("the hub answers %s", s)
	}
	f.finish(1, 0, f.workers[0])
	if !strings.Contains(f.hub.Stderr.Text(), "another version") {
		t.Errorf("the log of the hub lacks the rejection:\n%s", f.hub.Stderr.Text())
	}
}

// TestPoolRefusalsAreLoggedOnce: workers of another version try to join again and again.
func TestPoolRefusalsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	f := serveOnLoopback(t, pipeline{})
	f.join(1) // so that the pool exists
	nc, _ := f.connectIntruder()
	for i := range 40 {
		ask := fmt.Sprintf(`{"Protocol":2,"Version":"v0.0.1","Worker":"old/%d"}`, i%2)
		if _, err := nc.Request("flowd.join.embed.0123456789abcdef", []byte(ask), deadline); err != nil {
			t.Fatal(err)
		}
	}
	f.leave(f.workers[0])
	r := f.endHub(0, 1, 0)
	if n := strings.Count(r.Stderr, "a worker of another version was refused"); n != 2 {
		t.Errorf("the rejection of 2 workers is logged %d times, want 2:\n%s", n, r.Stderr)
	}
}
