package test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/fakes3"
	"github.com/flowd-io/flowd/internal/testing/kafkatest"
	"github.com/flowd-io/flowd/internal/testing/pgtest"
	"github.com/twmb/franz-go/pkg/kadm"
)

// example returns the path of a file in the directory of an example.
func example(folder, name string) string { return filepath.Join("examples", folder, name) }

// TestExamplesOfStoresAreClean lints the examples, and runs their tests with the command in their README.md.
func TestExamplesOfStoresAreClean(t *testing.T) {
	t.Setenv("DSN", "postgres://localhost/shop")
	for _, path := range []string{example("csv-to-postgres", "pipeline.yaml"), example("kafka-to-s3", "orders.yaml"),
		example("kafka-to-s3", "pipeline.yaml"), example("cdc-to-kafka", "pipeline.yaml")} {
		flowd(t, repo, "", "lint", path).Want(t, 0, "0 errors, 0 warnings")
		if filepath.Base(path) == "pipeline.yaml" {
			readme := blocks(read(t, repo, filepath.Dir(path), "README.md"))
			flowd(t, repo, "", words(t, readme[len(readme)-1].text)...).Want(t, 0, "2 passed, 0 failed")
		}
	}
}

// TestCSVToPostgres runs the command in the example's README.md twice.
func TestCSVToPostgres(t *testing.T) {
	t.Parallel()
	pg, dsn := pgtest.Server(t), pgtest.Database(t)
	pg.Exec(t, dsn, read(t, repo, "examples", "csv-to-postgres", "schema.sql"))
	dir := t.TempDir()
	refused := filepath.Join(dir, "refused.ndjson")
	for range 2 {
		got := within(t, compiling, repo, "", "env", "DSN="+dsn, "REFUSED="+refused, binary, "-c",
			example("csv-to-postgres", "pipeline.yaml"))
		got.Want(t, 0, "6 received: 4 delivered, 2 dead-lettered")
		rows := pg.Exec(t, dsn, "SELECT id, name, email, balance, joined FROM customers ORDER BY id")
		if want := "1|Ada Lovelace|ada@example.com|1300.00|2024-03-01\n2|Kim Lee|kim@example.com|0.10|2025-11-30\n" +
			"3|Sam Roe|sam@example.com|-12.00|2026-02-14"; rows != want {
			t.Errorf("the table has\n%s\nwant\n%s", rows, want)
		}
	}
	reasons := read(t, refused)
	if strings.Count(reasons, "\n") != 4 || !strings.Contains(reasons, "2026-02-30") ||
		!strings.Contains(reasons, "a lot") {
		t.Errorf("the rejected rows are %s", reasons)
	}
}

// TestKafkaToS3 runs the commands in the example's README.md, and reads the files in the bucket.
func TestKafkaToS3(t *testing.T) {
	c, store := kafkatest.Start(t), fakes3.Start(t)
	for name, value := range map[string]string{"BROKERS": c.Brokers, "S3": store.URL, "BUCKET": fakes3.Bucket,
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull} {
		t.Setenv(name, value)
	}
	readme := blocks(read(t, repo, "examples", "kafka-to-s3", "README.md"))
	flowd(t, repo, "", words(t, readme[1].text)...).Want(t, 0, "1,000 delivered")
	p := start(t, repo, words(t, readme[2].text)...)
	waitForRecords(t, c, "orders-dead", 10)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "990 delivered, 10 dead-lettered")

	var folders []string
	for _, key := range store.Keys(t) {
		folders = append(folders, filepath.Dir(key))
	}
	if len(folders) != 12 || !slices.Contains(folders, "orders/day=2026-01-01/tenant=blue-ltd") {
		t.Errorf("the bucket has the folders %q, want 12", folders)
	}
	got := flowd(t, t.TempDir(), "", "-c", write(t, t.TempDir(), "back.yaml", `
inputs:
  files: {s3: {bucket: `+fakes3.Bucket+`, endpoint: "${S3}", path_style: true, framing: whole}}
processors:
  - decode: parquet
  - split: this
  - map: id
outputs:
  out: {stdout: {}}
engine: {order_by: nil}
`))
	got.Want(t, 0)
	if ids := lines(got.Stdout); len(ids) != 990 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 990 {
		t.Errorf("the files have %d rows, want 990 different ones", len(ids))
	}
}

// TestCDCToKafka runs the command in the example's README.md, changes rows, and runs it again.
func TestCDCToKafka(t *testing.T) {
	pg, dsn := pgtest.Server(t), pgtest.Database(t)
	c := kafkatest.Start(t)
	pg.Exec(t, dsn, read(t, repo, "examples", "cdc-to-kafka", "schema.sql"))
	t.Setenv("DSN", dsn)
	t.Setenv("BROKERS", c.Brokers)
	command := words(t, blocks(read(t, repo, "examples", "cdc-to-kafka", "README.md"))[1].text)
	p := start(t, repo, command...)
	waitForRecords(t, c, "shop.orders", 2)
	pg.Exec(t, dsn, "UPDATE orders SET total = 13 WHERE id = 1", "DELETE FROM orders WHERE id = 2")
	waitForRecords(t, c, "shop.orders", 4)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)

	pg.Exec(t, dsn, "INSERT INTO orders VALUES (3, 2, 0.10)")
	p = start(t, repo, command...)
	waitForRecords(t, c, "shop.orders", 5)
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
	got := map[string]string{}
	for _, r := range c.Read(t, "shop.orders") {
		got[string(r.Key)] = string(r.Value)
	}
	want := map[string]string{`{"id":1}`: `{"id":1,"customer":1,"total":13.00}`, `{"id":2}`: "",
		`{"id":3}`: `{"id":3,"customer":2,"total":0.10}`}
	if !maps.Equal(got, want) {
		t.Errorf("the latest rows are %q, want %q", got, want)
	}
}

// waitForRecords waits until a topic has n messages.
func waitForRecords(t *testing.T, c *kafkatest.Cluster, topic string, n int64) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	has := int64(0)
	for range 60 * 50 {
		has = 0
		if ends, err := c.Admin.ListEndOffsets(t.Context(), topic); err == nil {
			ends.Each(func(o kadm.ListedOffset) { has += max(o.Offset, 0) })
		}
		if has >= n {
			return
		}
		<-tick.C
	}
	t.Fatalf("topic %s has %d messages after a minute, want %d", topic, has, n)
}
