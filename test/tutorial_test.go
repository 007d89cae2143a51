package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
)

// TestTutorial follows docs/tutorial.md. Its sections about RabbitMQ and a second machine need a server.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("runs flowd many times")
	}
	t.Parallel()
	tutorial := read(t, repo, "docs", "tutorial.md")
	dir := t.TempDir()
	follow(t, dir, "tutorial.md", strings.ReplaceAll(tutorial, "127.0.0.1:5019", freeAddress(t)))
	if t.Failed() {
		return
	}
	t.Run("with RabbitMQ", func(t *testing.T) { tutorialWithRabbitMQ(t, dir, tutorial) })
}

// tutorialWithRabbitMQ runs two processes of the tutorial's last shop.yaml, with the input that the tutorial replaces, while a
// third one publishes the orders.
func tutorialWithRabbitMQ(t *testing.T, dir, tutorial string) {
	_, part, _ := strings.Cut(tutorial, "```yaml part\n")
	part, _, found := strings.Cut(part, "```")
	shop, publish := read(t, dir, "shop.yaml"), read(t, dir, "publish.yaml")
	const file = "inputs:\n  orders: {file: orders.ndjson}\n"
	if !found || !strings.Contains(shop, file) {
		t.Fatal("the tutorial shows no input to replace, or no input to replace it with")
	}
	b := brokertest.RabbitMQ(t)
	queue := b.Queue(t, amqp091.Table{"x-queue-type": "quorum"})
	rename := strings.NewReplacer("shop-orders", queue, "amqp://guest:guest@localhost:5672", b.URL)
	shop = rename.Replace(strings.Replace(shop, file, part, 1))

	machines := []string{t.TempDir(), t.TempDir()}
	var running []*process
	for _, machine := range machines {
		write(t, machine, "shop.yaml", shop)
		running = append(running, start(t, machine, "-c", "shop.yaml"))
	}
	write(t, dir, "publish.yaml", rename.Replace(publish))
	flowd(t, dir, "", "-c", "publish.yaml").Want(t, 0, "6 delivered")

	want := []string{"1", "2", "4", "5", "dead"}
	got := arrived(t, machines)
	for late := time.After(deadline); !slices.Equal(got, want); got = arrived(t, machines) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-late:
			t.Fatalf("orders %v arrived, want %v", got, want)
		}
	}
	for _, p := range running {
		p.Signal(syscall.SIGTERM)
		p.Wait().Want(t, 0)
	}
}

// arrived returns the ids of the orders in the files of all machines, sorted, and "dead" for each dead letter.
func arrived(t *testing.T, machines []string) (ids []string) {
	t.Helper()
	for _, machine := range machines {
		files, err := filepath.Glob(filepath.Join(machine, "out", "*.ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for line := range strings.Lines(read(t, file)) {
				id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id": `), ",")
				ids = append(ids, id)
			}
		}
		if dead, err := os.ReadFile(filepath.Join(machine, "dead.ndjson")); err == nil {
			ids = append(ids, slices.Repeat([]string{"dead"}, strings.Count(string(dead), "\n"))...)
		}
	}
	slices.Sort(ids)
	return ids
}
