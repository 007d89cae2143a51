package test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKafkaExampleIsClean lints both files of the example, and runs its tests with the command in its README.md.
func TestKafkaExampleIsClean(t *testing.T) {
	for _, name := range []string{"pipeline.yaml", "orders.yaml"} {
		flowd(t, repo, "", "lint", filepath.Join("examples", "kafka", name)).Want(t, 0, "0 errors, 0 warnings")
	}
	readme := blocks(read(t, repo, "examples", "kafka", "README.md"))
	flowd(t, repo, "", words(t, readme[len(readme)-1].text)...).Want(t, 0, "2 passed, 0 failed")
}

// TestKafkaExampleOnTwoTerminals runs the commands in the example's README.md. The second process gets half of the
// partitions, the first takes them back, and each order is graded once, in order for each customer.
func TestKafkaExampleOnTwoTerminals(t *testing.T) {
	readme := blocks(read(t, repo, "examples", "kafka", "README.md"))
	if len(readme) != 6 {
		t.Fatalf("README.md has %d blocks, want 6", len(readme))
	}
	c := kafkatest.Start(t)
	t.Setenv("BROKERS", c.Brokers)
	const n = 200
	orders := append(words(t, readme[1].text), "-s", fmt.Sprintf("inputs.orders.generate.count=%d", n), "-s",
		"inputs.orders.generate.interval=1ms")
	flowd(t, repo, "", orders...).Want(t, 0, fmt.Sprintf("%d delivered", n))
	first := start(t, repo, words(t, readme[2].text)...)
	first.Says("partitions=6 now=6")
	second := start(t, repo, words(t, readme[2].text)...)
	first.Says(`msg="partitions were given up"`)
	first.Says("partitions=3 now=3 unfinished=0")
	second.Says("partitions=3 now=3")
	flowd(t, repo, "", orders...).Want(t, 0, fmt.Sprintf("%d delivered", n))
	waitForCommits(t, c, "grading", "orders", 2*n)
	second.Signal(syscall.SIGTERM)
	got := second.Wait()
	got.Want(t, 0)
	if strings.Contains(got.Stderr, " 0 received") {
		t.Errorf("the second process has received no messages:\n%s", got.Stderr)
	}
	flowd(t, repo, "", orders...).Want(t, 0)
	waitForCommits(t, c, "grading", "orders", 3*n)
	first.Signal(syscall.SIGTERM)
	first.Wait().Want(t, 0)
	graded := append(c.Read(t, "orders-large"), c.Read(t, "orders-small")...)
	thriceInOrder(t, graded)
	dead := c.Read(t, "orders-dead")
	for _, r := range dead {
		if !slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool {
			return h.Key == "error_class" && string(h.Value) == "expression"
		}) {
			t.Errorf("a dead letter has the headers %v, want error_class expression", r.Headers)
		}
	}
	if len(graded) != 3*n-6 || len(dead) != 6 {
		t.Errorf("%d orders were graded and %d are dead letters, want %d and 6", len(graded), len(dead), 3*n-6)
	}
}

// thriceInOrder checks the orders of three runs of orders.yaml, each of which numbers them from 1.
func thriceInOrder(t *testing.T, graded []*kgo.Record) {
	t.Helper()
	last, runs, times := map[string]int{}, map[string]int{}, map[int]int{}
	for _, r := range graded {
		var order struct{ ID int }
		if err := json.Unmarshal(r.Value, &order); err != nil {
			t.Fatalf("%v: %s", err, r.Value)
		}
		id := order.ID
		times[id]++
		customer := r.Topic + " " + string(r.Key)
		if id <= last[customer] || runs[customer] == 0 {
			runs[customer]++
		}
		last[customer] = id
	}
	for customer, n := range runs {
		if n != 3 {
			t.Errorf("the numbers of %s restart %d times, want 3: the orders are not in order", customer, n)
		}
	}
	for id, n := range times {
		if n != 3 {
			t.Errorf("order %d has arrived %d times, want once in each of 3 runs", id, n)
		}
	}
}
