package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/systems/queue"
)

// dlq runs a command and checks its code and parts of what it says.
func dlq(t *testing.T, code int, says string, args ...string) (stdout string) {
	t.Helper()
	stdout, stderr, got := flowd(t.Context(), append([]string{"dlq"}, args...)...)
	if got != code || !strings.Contains(stdout+stderr, says) {
		t.Errorf("flowd dlq %q: code %d, want %d and %q\nstdout %s\nstderr %s", args, got, code, says, stdout, stderr)
	}
	if strings.Contains(stdout+stderr, "cr/et") || strings.Contains(stdout+stderr, "cr%2Fet") {
		t.Errorf("flowd dlq %q shows the password: %s%s", args, stdout, stderr)
	}
	return stdout
}

// deadLetter is a message in a queue of dead letters.
func deadLetter(payload, output, reason string) queue.Message {
	return queue.Message{Payload: []byte(payload), Meta: map[string]any{"error_class": "rejected", "error_output": output,
		"error_message": reason, "trace": "t1"}}
}

func TestDlqOnAQueue(t *testing.T) {
	b := fakeBroker(t, "dead")
	b.PutMessage("dead", deadLetter(`{"id":1}`, "crm", `order 1: \x1b[2J`+"\x1b[2J"))
	b.PutMessage("dead", deadLetter(`{"id":2}`, "crm", "order 2: \\x1b[2J\x1b[2J"))
	b.PutMessage("dead", deadLetter(`{"id":3}`, "", "no"))
	b.Put("dead", "without a reason")

	if out := dlq(t, clean, "dead: 4 dead letters in 3 groups", "ls", "dead"); strings.Contains(out, "\x1b") ||
		!strings.Contains(out, "2 letters  rejected  output crm") || !strings.Contains(out, "no reason is recorded") {
		t.Errorf("got %s", out)
	}
	var list struct {
		Letters int
		Groups  []struct {
			ID      string
			Letters int
			Example struct{ Meta map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(dlq(t, clean, "", "ls", "dead", "--json")), &list); err != nil || list.Letters != 4 ||
		list.Groups[0].Letters != 2 || list.Groups[0].Example.Meta["trace"] != "t1" {
		t.Errorf("%v: %+v", err, list)
	}
	dlq(t, clean, "the first 2 dead letters", "ls", "dead", "-n", "2")
	dlq(t, clean, `"id": 2`, "show", "dead", "--where", "id == 2")
	dlq(t, clean, "no such dead letters", "show", "dead", "--where", "id == 9")
	dlq(t, invalid, "--where: ", "show", "dead", "--where", "id ==")
	same(t, "after reading", b.Payloads("dead"), []string{`{"id":1}`, `{"id":2}`, `{"id":3}`, "without a reason"})

	dlq(t, invalid, "Permanently remove the chosen dead letters of dead? (add --yes)", "drop", "dead", "--where", "id == 3")
	dlq(t, clean, "dead: 1 dead letter removed", "drop", "dead", "--where", "id == 3", "--yes")
	dlq(t, clean, "dead: 2 dead letters removed", "drop", "dead", "--group", list.Groups[0].ID, "--yes")
	same(t, "after dropping", b.Payloads("dead"), []string{"without a reason"})
	dlq(t, failed, `there is no queue "other"`, "ls", "other")
}

func TestDlqReplaysToARunningPipeline(t *testing.T) {
	b := fakeBroker(t, "dead")
	for _, m := range []queue.Message{deadLetter("a", "", "no"), deadLetter("bad", "", "no"), deadLetter("drop", "", "no"),
		deadLetter("slow", "", "no"), deadLetter("b", "crm", "no")} {
		b.PutMessage("dead", m)
	}
	var got []string
	target := serves(t, pushed(&got))
	replay := func(code int, says string, args ...string) {
		t.Helper()
		dlq(t, code, says, slices.Concat([]string{"replay", "dead"}, target, args)...)
	}
	replay(failed, "dead: 2 replayed, 3 stay in ", "--to", "orders", "--rate", "1000/s")
	same(t, "pushed", got, []string{"orders/web a map[trace:t1]", "orders/web bad map[trace:t1]", "orders/web drop map[trace:t1]",
		"orders/web slow map[trace:t1]"})
	same(t, "left", b.Payloads("dead"), []string{"bad", "slow", "b"})
	replay(failed, "dead: 1 replayed, 2 stay in ", "--to", "orders/web", "--from-start")
	same(t, "left", b.Payloads("dead"), []string{"bad", "slow"})
	replay(failed, `there is no pipeline "other"`, "--to", "other")
	same(t, "left", b.Payloads("dead"), []string{"bad", "slow"})
	replay(invalid, "exclude it", "--to", "orders", "--dry-run")
}

func TestDlqCompletesGroups(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.ndjson")
	line := `{"payload":{},"meta":{"error_class":"rejected","error_message":"order 1 is unknown"}}` + "\n"
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, _, _ := flowd(t.Context(), "__complete", "dlq", "drop", path, "--group", "")
	if id, rest, _ := strings.Cut(stdout, "\t"); len(id) != 6 || !strings.HasPrefix(rest, "order 1 is unknown\n:4\n") {
		t.Errorf("got %q", stdout)
	}
	if stdout, _, _ := flowd(t.Context(), "__complete", "dlq", "ls", ""); stdout != ":0\n" {
		t.Errorf("files are not completed: %q", stdout)
	}
}
