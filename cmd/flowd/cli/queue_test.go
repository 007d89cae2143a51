package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/systems/queue"
	"github.com/flowd-io/flowd/internal/testing/queuetest"
)

// brokers are the fakes in use, by the host of their URL.
var brokers = map[string]*queuetest.Broker{}

func init() {
	queue.Register("fake", func(ctx context.Context, u *url.URL) (queue.Server, error) {
		b, ok := brokers[u.Host]
		if !ok {
			return nil, fmt.Errorf("dial %s: connection refused", u)
		}
		return b.Dial(ctx, u)
	})
}

const secret = "s3cr/et"

// fakeBroker makes a broker; it checks at the end that nothing is left open.
func fakeBroker(t *testing.T, names ...string) *queuetest.Broker {
	t.Helper()
	b := queuetest.New(names...)
	brokers[t.Name()] = b
	t.Setenv(queueURL, "fake://user:"+url.QueryEscape(secret)+"@"+t.Name()+"/")
	t.Cleanup(func() {
		if n := b.Open(); n != 0 {
			t.Errorf("%d readers, writers and connections are not closed", n)
		}
		for _, name := range names {
			if n := b.InFlight(name); n != 0 {
				t.Errorf("%d messages of %s are neither removed nor given back", n, name)
			}
		}
	})
	return b
}

func numbers(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("m%d", i+1))
	}
	return all
}

// queues runs a command and checks its code and parts of what it says.
func queues(t *testing.T, code int, says string, args ...string) (stdout string) {
	t.Helper()
	stdout, stderr, got := flowd(t.Context(), append([]string{"queue"}, args...)...)
	if got != code || !strings.Contains(stdout+stderr, says) {
		t.Errorf("flowd queue %q: code %d, want %d and %q\nstdout %s\nstderr %s", args, got, code, says, stdout, stderr)
	}
	if strings.Contains(stdout+stderr, "cr/et") || strings.Contains(stdout+stderr, "cr%2Fet") {
		t.Errorf("flowd queue %q shows the password: %s%s", args, stdout, stderr)
	}
	return stdout
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d messages, want %d\ngot  %.200q\nwant %.200q", what, len(got), len(want), got, want)
	}
}

func TestQueueLs(t *testing.T) {
	b := fakeBroker(t, "orders", "orders-dead", "mail")
	b.Put("orders", numbers(1234)...)
	b.DeadLetters("orders", "orders-dead")
	want := `NAME         KIND    READY  IN FLIGHT  DELAYED  DEAD LETTERS
orders       memory  1,234  0          0        orders-dead
orders-dead  memory  0      0          0        
`
	if got := queues(t, clean, "", "ls", "orders*"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	var all []queueJSON
	if err := json.Unmarshal([]byte(queues(t, clean, "", "ls", "--json")), &all); err != nil || len(all) != 3 ||
		all[1].Name != "orders" || *all[1].Ready != 1234 || all[1].DeadLetters != "orders-dead" {
		t.Errorf("%v, %+v", err, all)
	}
	queues(t, clean, "[]", "ls", "--json", "nothing*")
	queues(t, clean, "no queues", "ls", "nothing*")
	queues(t, invalid, "is not a pattern", "ls", "[")
	text, err := json.Marshal(jsonQueues([]queue.Info{{Name: "x", Ready: -1}}))
	if err != nil || !strings.Contains(string(text), `"ready":null,"in_flight":0`) {
		t.Errorf("%v, %s", err, text)
	}
}

func TestQueueURLs(t *testing.T) {
	t.Setenv(queueURL, "")
	queues(t, invalid, "set FLOWD_QUEUE_URL", "ls")
	queues(t, failed, `no broker is known for "nope://"`, "ls", "nope://host/")
	queues(t, failed, "***@nowhere", "ls", "fake://user:"+url.QueryEscape(secret)+"@nowhere/")
	queues(t, failed, "is not a URL", "ls", "fake://user:s3cr/et@no where:port/")
	queues(t, invalid, `did you mean "redrive"?`, "redriv")
	queues(t, invalid, "there are dump, load, ls, mv, peek, purge, redrive", "frobnicate")
	t.Setenv(queueURL, "broker.local")
	queues(t, invalid, "FLOWD_QUEUE_URL is not a URL", "ls")
	t.Setenv(queueURL, "")
	b := queuetest.New("a")
	brokers["byargument"] = b
	queues(t, clean, "a     memory", "ls", "fake://byargument/")
	t.Setenv(queueURL, "fake://byargument/")
	queues(t, failed, "there is no queue \"https://sqs.eu/1/a\"", "purge", "https://sqs.eu/1/a", "--yes") // a name that looks like one
	queues(t, invalid, "takes FROM and TO after the broker's URL, not 1 argument", "mv", "a")
	queues(t, invalid, "an argument is empty", "purge", "", "--yes")
}

func TestQueueMv(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	b.Put("a", numbers(1234)...)
	queues(t, clean, "a → b: 1,234 moved in ", "mv", "a", "b", "--yes")
	same(t, "a", b.Payloads("a"), []string{})
	same(t, "b", b.Payloads("b"), numbers(1234))
	queues(t, clean, "b → a: 250 moved", "mv", "b", "a", "-n", "250", "--yes")
	same(t, "a", b.Payloads("a"), numbers(1234)[:250])
	same(t, "b", b.Payloads("b"), numbers(1234)[250:])

	queues(t, invalid, "FROM and TO are the same queue", "mv", "a", "a", "--yes")
	queues(t, failed, `queue c: there is no queue "c"`, "mv", "a", "c", "--yes")
	queues(t, failed, `queue c: there is no queue "c"`, "mv", "c", "a", "--yes")
	same(t, "a after mistakes", b.Payloads("a"), numbers(1234)[:250])
}

func TestQueueMvKeepsMetadata(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	meta := map[string]any{"message_id": "x", "headers": map[string]any{"n": 7}}
	b.PutMessage("a", queue.Message{Payload: []byte("p"), Meta: meta})
	queues(t, clean, "1 moved", "mv", "a", "b", "--yes")
	if got := b.Messages("b"); len(got) != 1 || fmt.Sprint(got[0].Meta) != fmt.Sprint(meta) {
		t.Errorf("got %+v", got)
	}
}

func TestWhatCannotBeSentIsListedAndStays(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	b.Put("a", numbers(300)...)
	b.PutMessage("a", queue.Message{Payload: []byte("big"), Meta: map[string]any{"message_id": "id-9"}})
	b.FailWrite = func(_ string, m queue.Message) error {
		if p := string(m.Payload); strings.HasSuffix(p, "77") || p == "big" {
			return errors.New("too large for " + secret)
		}
		return nil
	}
	_, stderr, code := flowd(t.Context(), "queue", "mv", "a", "b", "--yes")
	want := `message 77: too large for ***
message 177: too large for ***
message 277: too large for ***
message 301 (message_id "id-9"): too large for ***
a → b: 297 moved, 4 failed in `
	if code != failed || !strings.HasPrefix(stderr, want) {
		t.Errorf("code %d\n%s", code, stderr)
	}
	same(t, "a", b.Payloads("a"), []string{"m77", "m177", "m277", "big"})
}

func TestATransferGivesUpWhenAllFails(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	b.Put("a", numbers(1000)...)
	b.FailWrite = func(string, queue.Message) error { return errors.New("b is full") }
	queues(t, failed, "gave up after 210 messages had failed", "mv", "a", "b", "--yes")
	same(t, "a", b.Payloads("a"), numbers(1000))
}

func TestWhatMayBeInBothPlacesIsSaid(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	b.Put("a", numbers(150)...)
	calls := 0
	b.FailDone = func(string, []uint64) error {
		if calls++; calls == 2 {
			return errors.New("connection lost")
		}
		return nil
	}
	queues(t, failed, "40 messages were moved, but may still be in the queue, too: connection lost", "mv", "a", "b",
		"--yes")
	same(t, "a", b.Payloads("a"), numbers(150)[10:])
	same(t, "b", b.Payloads("b"), numbers(150)[:50])
}

func TestAReadThatFailsEndsTheTransfer(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	b.Put("a", numbers(150)...)
	calls := 0
	b.FailRead = func(string) error {
		if calls++; calls == 2 {
			return errors.New("connection lost")
		}
		return nil
	}
	_, stderr, code := flowd(t.Context(), "queue", "mv", "a", "b", "--yes")
	if code != failed || !strings.Contains(stderr, "a → b: 10 moved") ||
		!strings.Contains(stderr, "flowd: queue a: connection lost") {
		t.Errorf("code %d\n%s", code, stderr)
	}
}

func TestASignalGivesBackWhatWasTaken(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	b.Put("a", numbers(1000)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reads := 0
	b.OnRead = func(string, int) {
		if reads++; reads == 4 {
			cancel() // as SIGINT does
		}
	}
	_, stderr, code := flowd(ctx, "queue", "mv", "a", "b", "--yes")
	if code != handedBack || !strings.Contains(stderr, "a → b: 210 moved in ") ||
		!strings.Contains(stderr, "interrupted: the other messages that were taken are handed back") {
		t.Errorf("code %d\n%s", code, stderr)
	}
	same(t, "a", b.Payloads("a"), numbers(1000)[210:])
	same(t, "b", b.Payloads("b"), numbers(1000)[:210])
}

func TestASignalLetsTheWriteUnderWayFinish(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	b.Put("a", numbers(250)...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.FailWrite = func(_ string, m queue.Message) error {
		if string(m.Payload) == "m11" {
			cancel()
		}
		return nil
	}
	if _, stderr, code := flowd(ctx, "queue", "mv", "a", "b", "--yes"); code != handedBack ||
		!strings.Contains(stderr, "50 moved") {
		t.Errorf("code %d\n%s", code, stderr)
	}
	same(t, "a", b.Payloads("a"), numbers(250)[50:])
}

func TestLargeMessagesAreReadAFewAtATime(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	for range 20 {
		b.Put("a", strings.Repeat("x", 1<<20))
	}
	most := 0
	first := true
	b.OnRead = func(_ string, n int) {
		if !first {
			most = max(most, n)
		}
		first = false
	}
	b.Put("a", numbers(1)...)
	queues(t, clean, "21 moved", "mv", "a", "b", "--yes")
	if most > bytesAtOnce>>20+1 {
		t.Errorf("%d messages of 1 MiB in a read", most)
	}
}

func TestQueueRedrive(t *testing.T) {
	b := fakeBroker(t, "dead", "orders", "mail")
	b.Came = func(_ string, m queue.Message) (string, error) {
		switch p := string(m.Payload); p[0] {
		case 'o':
			return "orders", nil
		case 'm':
			return "mail", nil
		case 'x':
			return "dead", nil
		case 'e':
			return "", errors.New("its x-death is broken")
		}
		return "", nil
	}
	b.Put("dead", "o1", "m1", "o2", "x1", "e1", "?", "m2")
	_, stderr, code := flowd(t.Context(), "queue", "redrive", "dead")
	want := `message 4: it came from this queue itself (add --to QUEUE)
message 5: its x-death is broken
message 6: it does not say where it came from (add --to QUEUE)
dead: 4 sent back, 3 failed in `
	if code != failed || !strings.HasPrefix(stderr, want) {
		t.Errorf("code %d\n%s", code, stderr)
	}
	same(t, "orders", b.Payloads("orders"), []string{"o1", "o2"})
	same(t, "mail", b.Payloads("mail"), []string{"m1", "m2"})
	same(t, "dead", b.Payloads("dead"), []string{"x1", "e1", "?"})

	queues(t, invalid, "--to is the queue of the dead letters itself", "redrive", "dead", "--to", "dead")
	queues(t, clean, "dead: 1 sent back", "redrive", "dead", "--to", "mail", "-n", "1")
	queues(t, clean, "dead: 2 sent back", "redrive", "dead", "--to", "mail")
	same(t, "mail", b.Payloads("mail"), []string{"m1", "m2", "x1", "e1", "?"})
	b.Put("dead", "o3")
	b.Came = func(string, queue.Message) (string, error) { return "gone", nil }
	queues(t, failed, `message 1: to gone: queue gone: there is no queue "gone"`, "redrive", "dead")
}

func TestARedriveEndsThoughDeadLettersComeBack(t *testing.T) {
	b := fakeBroker(t, "dead", "orders")
	b.Put("dead", numbers(10)...)
	b.Came = func(string, queue.Message) (string, error) { return "orders", nil }
	b.FailWrite = func(string, queue.Message) error {
		b.Put("dead", "again")
		return nil
	}
	queues(t, clean, "dead: 10 sent back", "redrive", "dead")
	if n := len(b.Payloads("dead")); n != 10 {
		t.Errorf("%d dead letters are left, want those that came meanwhile", n)
	}
}

func TestRedriveNeedsATargetWhereTheBrokerKnowsNone(t *testing.T) {
	b := fakeBroker(t, "dead", "orders")
	b.Put("dead", "x")
	queues(t, invalid, "(add --to QUEUE)", "redrive", "dead")
	queues(t, clean, "1 sent back", "redrive", "dead", "--to", "orders")
	same(t, "orders", b.Payloads("orders"), []string{"x"})
}

func TestDumpAndLoadKeepEveryMessage(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	b.Put("a", numbers(250)...)
	odd := []queue.Message{
		{Payload: []byte{}},
		{Payload: []byte("\xff\x00\n binary")},
		{Payload: []byte("{\"a\": 1}")},
		{Payload: []byte("two\nlines"), Meta: map[string]any{
			"n": 7, "f": 1.0, "t": time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), "b": "\xff", "l": []any{true, nil},
			"headers": map[string]any{"x-death": []any{map[string]any{"queue": "a", "count": 2}}},
			"$":       map[string]any{"$time": "no"},
		}},
	}
	for _, m := range odd {
		b.PutMessage("a", m)
	}
	file := filepath.Join(t.TempDir(), "saved.jsonl")
	queues(t, clean, ": 254 written", "dump", "a", file)
	if n := len(b.Payloads("a")); n != 254 {
		t.Errorf("dump left %d messages in the queue", n)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", err, info.Mode())
	}
	queues(t, invalid, "already exists, and is not overwritten", "dump", "a", file)
	queues(t, clean, ": 254 written", "dump", "a", file+"2", "--delete", "--yes")
	same(t, "a", b.Payloads("a"), []string{})

	queues(t, clean, ": 254 sent", "load", "b", file+"2")
	got := b.Messages("b")
	if len(got) != 254 {
		t.Fatalf("%d messages", len(got))
	}
	for i, want := range odd {
		if m := got[250+i]; string(m.Payload) != string(want.Payload) || fmt.Sprint(m.Meta) != fmt.Sprint(want.Meta) &&
			len(m.Meta)+len(want.Meta) > 0 {
			t.Errorf("%q %v, want %q %v", m.Payload, m.Meta, want.Payload, want.Meta)
		}
	}
	queues(t, clean, ": 4 sent", "load", "a", file, "--skip", "250")
	queues(t, clean, ": 10 sent", "load", "a", file, "-n", "10")
	if n := len(b.Payloads("a")); n != 14 {
		t.Errorf("%d messages", n)
	}
}

func TestDumpToStdout(t *testing.T) {
	b := fakeBroker(t, "a")
	b.PutMessage("a", queue.Message{Payload: []byte("x"), Meta: map[string]any{"n": 1}})
	if got := queues(t, clean, "1 written", "dump", "a", "-"); got != `{"payload":"x","meta":{"n":1}}`+"\n" {
		t.Errorf("got %s", got)
	}
	queues(t, invalid, "--delete needs a file", "dump", "a", "-", "--delete", "--yes")
}

func TestADumpOfNothingLeavesNoFile(t *testing.T) {
	fakeBroker(t, "a")
	file := filepath.Join(t.TempDir(), "x")
	queues(t, clean, "0 written", "dump", "a", file)
	queues(t, failed, "there is no queue", "dump", "b", file)
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestADumpThatCannotBeWrittenRemovesNothing(t *testing.T) {
	b := fakeBroker(t, "a")
	b.Put("a", numbers(250)...)
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full here")
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var stderr bytes.Buffer
	if code := execute(t.Context(), []string{"queue", "dump", "a", "-"}, full, &stderr); code != failed ||
		!strings.Contains(stderr.String(), "no space left") {
		t.Errorf("code %d\n%s", code, &stderr)
	}
	same(t, "a", b.Payloads("a"), numbers(250))
}

func TestTheFileOfADumpIsNamedAfterItsQueue(t *testing.T) {
	for name, want := range map[string]string{
		"orders": "orders", "a/b c": "a_b c", "../../etc/passwd": "_.._etc_passwd",
		"https://sqs.eu-1.amazonaws.com/123/orders.fifo": "orders.fifo", "a\x00b\n": "a_b_", "-x": "x",
	} {
		if got := fileName(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	b := fakeBroker(t, "a:b")
	b.Put("a:b", "x")
	t.Chdir(t.TempDir())
	queues(t, clean, "1 written", "dump", "a:b")
	if found, err := filepath.Glob("a_b-2*.jsonl"); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestLoadListsWhatIsNoMessage(t *testing.T) {
	b := fakeBroker(t, "a")
	b.FailWrite = func(_ string, m queue.Message) error {
		if string(m.Payload) == "refused" {
			return errors.New("too large")
		}
		return nil
	}
	file := filepath.Join(t.TempDir(), "x")
	text := `{"payload":"one"}
not json

{"payload":"refused","meta":{"message_id":"7"}}
{"payload":"two"}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := flowd(t.Context(), "queue", "load", "a", file)
	if code != failed || !strings.Contains(stderr, "line 2: not a message in the form that framing messages writes") ||
		!strings.Contains(stderr, `line 4 (message_id "7"): too large`) ||
		!strings.Contains(stderr, "2 sent, 2 failed") {
		t.Errorf("code %d\n%s", code, stderr)
	}
	same(t, "a", b.Payloads("a"), []string{"one", "two"})
	queues(t, failed, "no such file", "load", "a", file+"x")
}

func TestAnInterruptedLoadSaysHowItGoesOn(t *testing.T) {
	b := fakeBroker(t, "a")
	var text strings.Builder
	for _, p := range numbers(5000) {
		fmt.Fprintf(&text, "{\"payload\":%q}\n\n", p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.FailWrite = func(_ string, m queue.Message) error {
		if string(m.Payload) == "m250" {
			cancel()
		}
		return nil
	}
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := flowd(ctx, "queue", "load", "a", file)
	if code != handedBack || !strings.Contains(stderr, "2,000 sent") ||
		!strings.Contains(stderr, "continue with --skip 3999\n") {
		t.Errorf("code %d\n%s", code, stderr)
	}
	queues(t, clean, "3,000 sent", "load", "a", file, "--skip", "3999")
	same(t, "a", b.Payloads("a"), numbers(5000))
}

func TestASignalEndsALoadThatWaitsForStdin(t *testing.T) {
	b := fakeBroker(t, "a")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	root := newRoot(io.Discard, io.Discard)
	root.SetIn(r)
	root.SetArgs([]string{"queue", "load", "a", "-"})
	var stderr bytes.Buffer
	root.SetErr(&stderr)
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	if _, err := io.WriteString(w, "{\"payload\":\"x\"}\n"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, exit(handedBack)) || !strings.Contains(stderr.String(),
		"continue with --skip 0") || strings.Contains(stderr.String(), "closed pipe") {
		t.Errorf("%v\n%s", err, &stderr)
	}
	same(t, "a", b.Payloads("a"), []string{})
	w.Close()
}

func TestPurge(t *testing.T) {
	b := fakeBroker(t, "a")
	b.Put("a", numbers(7)...)
	queues(t, invalid, "Permanently remove 7 messages from a? (add --yes)", "purge", "a")
	same(t, "a", b.Payloads("a"), numbers(7))
	queues(t, clean, "a: 7 messages removed", "purge", "a", "--yes")
	same(t, "a", b.Payloads("a"), []string{})
}

func TestWhereNobodyCanBeAskedNothingIsDone(t *testing.T) {
	b := fakeBroker(t, "a", "b")
	b.Put("a", numbers(7)...)
	for want, args := range map[string][]string{
		"Move 7 messages from a to b? (add --yes)":         {"mv", "a", "b"},
		"Move at most 3 messages from a to b? (add --yes)": {"mv", "a", "b", "-n", "3"},
		"Remove messages from a (7 messages) once they are in ": {"dump", "a", filepath.Join(t.TempDir(), "x"),
			"--delete"},
	} {
		queues(t, invalid, want, args...)
	}
	same(t, "a", b.Payloads("a"), numbers(7))
}

func TestTheAnswerCounts(t *testing.T) {
	for answer, want := range map[string]int{"y\n": clean, "YES\n": clean, "n\n": failed, "\n": failed, "": failed,
		"yep\n": failed} {
		var out bytes.Buffer
		c := &queueCall{con: &console{out: newScreen(&out)}, stop: t.Context()}
		err := c.askYesNo(strings.NewReader(answer), "Sure?")
		var code exit
		if errors.As(err, &code); int(code) != want {
			t.Errorf("%q: %v, want code %d", answer, err, want)
		}
		if said := strings.Contains(out.String(), "nothing was done"); said != (want != clean) ||
			!strings.HasPrefix(out.String(), "Sure? [y/N] ") {
			t.Errorf("%q: %q", answer, &out)
		}
	}
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	wait, end := io.Pipe()
	defer end.Close()
	c := &queueCall{con: &console{out: newScreen(io.Discard)}, stop: stop}
	if err := c.askYesNo(wait, "Sure?"); !errors.Is(err, exit(handedBack)) {
		t.Errorf("a signal: %v", err)
	}
}

func TestTheProgressLine(t *testing.T) {
	tests := []struct {
		done, total int64
		want        string
	}{
		{0, 100, "[>                   ] 0 of 100 (0/s)"},
		{50, 100, "[==========>         ] 50 of 100 (50/s)"},
		{100, 100, "[====================] 100 of 100 (100/s)"},
		{150, 100, "[====================] 150 of 100 (150/s)"},
		{1500, -1, "1,500 (1.5 k/s)"},
	}
	for _, tt := range tests {
		if got := bar(tt.done, tt.total, time.Second); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
	var out bytes.Buffer
	tr := &transfer{queueCall: &queueCall{con: &console{out: newScreen(&out), terminal: true}}, seen: 5, total: 10}
	tr.show()
	tr.show()
	if n := strings.Count(out.String(), "5 of 10"); n != 1 {
		t.Errorf("drawn %d times at once: %q", n, &out)
	}
}
