package test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/flowd-io/flowd/internal/testing/fakeazure"
	"github.com/flowd-io/flowd/internal/testing/fakegcs"
	"github.com/flowd-io/flowd/internal/testing/fakes3"
)

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// stores start a fake of each object store.
var stores = map[string]func(t *testing.T) store{
	"s3": func(t *testing.T) store {
		s := fakes3.Start(t)
		s.Page = 3
		return store{s.Fields(), func(key, body string) { s.Put(t, key, body) }, func() []string { return s.Keys(t) }}
	},
	"gcs": func(t *testing.T) store {
		s := fakegcs.Start(t)
		s.Page = 3
		return store{fmt.Sprintf("bucket: bucket, endpoint: %q, anonymous: true", s.URL), s.Put, s.Keys}
	},
	"azure_blob": func(t *testing.T) store {
		s := fakeazure.Start(t)
		s.Page = 3
		return store{fmt.Sprintf("account: account, container: container, endpoint: %q, account_key: %q", s.URL, azuriteKey),
			s.Put, s.Keys}
	},
}

type store struct {
	fields string // config fields of its components
	put    func(key, body string)
	keys   func() []string
}

// TestAKilledObjectReaderLosesNothing kills flowd several times. Together, the processes must
// deliver each line, few of them twice, and in the end all objects have been moved.
func TestAKilledObjectReaderLosesNothing(t *testing.T) {
	t.Parallel()
	const files, each, lives = 8, 8_000, 4
	for kind, open := range stores {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for i := range files {
				var text strings.Builder
				for n := range each {
					fmt.Fprintf(&text, "object %d line %d %s\n", i, n, strings.Repeat("x", 50))
				}
				if i%2 == 0 {
					s.put(fmt.Sprintf("in/%d.log", i), text.String())
				} else {
					s.put(fmt.Sprintf("in/%d.log.gz", i), gzipped(t, text.String()))
				}
			}
			dir := t.TempDir()
			config := write(t, dir, "p.yaml", `
inputs:
  in: {`+kind+`: {`+s.fields+`, prefix: in/, checkpoint: cp, after: {move: done/}}}
outputs:
  out: {stdout: {}}
`)
			seen, times := map[string]bool{}, 0
			take := func(text string) {
				for line := range strings.Lines(text) {
					if whole, ok := strings.CutSuffix(line, "\n"); ok { // the last line may be incomplete
						seen[whole] = true
						times++
					}
				}
			}
			for range lives {
				p := start(t, dir, "-c", config)
				for range files * each / (lives + 2) {
					take(p.Line() + "\n")
				}
				p.Signal(syscall.SIGKILL)
				take(p.Wait().Stdout)
			}
			last := flowd(t, dir, "", "-c", config)
			last.Want(t, 0)
			take(last.Stdout)
			if len(seen) != files*each {
				t.Errorf("%d lines arrived, want %d", len(seen), files*each)
			}
			if times > files*each*2 {
				t.Errorf("%d lines were written, want less than twice %d: the checkpoint is not used", times, files*each)
			}
			for _, key := range s.keys() {
				if !strings.HasPrefix(key, "done/") {
					t.Errorf("%s was read but not moved", key)
				}
			}
			again := flowd(t, dir, "", "-c", config)
			if again.Want(t, 0); again.Stdout != "" {
				t.Errorf("all objects had been read, but %d bytes were read again", len(again.Stdout))
			}
		})
	}
}

// TestObjectsAreDeliveredOnce pauses and resumes the input, and replaces it by a reload.
func TestObjectsAreDeliveredOnce(t *testing.T) {
	t.Parallel()
	s := stores["s3"](t)
	dir := t.TempDir()
	config := func(interval string) string {
		return write(t, dir, "p.yaml", `
inputs:
  in: {s3: {`+s.fields+`, interval: `+interval+`}, concurrency: 2}
outputs:
  out: {stdout: {}}
`)
	}
	p := start(t, dir, "-c", config("10ms"))
	next := 0
	arrive := func(n int) {
		t.Helper()
		var got, want []string
		for range n {
			next++
			line := fmt.Sprintf(`{"n":%d}`, next)
			want = append(want, line)
			s.put(fmt.Sprintf("%03d", next), line+"\n")
		}
		for range n {
			got = append(got, p.Line())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	arrive(7)
	p.Signal(syscall.SIGTSTP)
	p.Says("paused")
	p.Signal(syscall.SIGCONT)
	p.Says("resumed")
	arrive(1)
	for _, interval := range []string{"20ms", "30ms"} {
		config(interval)
		p.Signal(syscall.SIGHUP)
		p.Says("reloaded")
		arrive(1)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "10 received: 10 delivered")
}

// gateway starts versitygw, an S3 server that shares no code with the fake. Objects are files below the returned directory.
func gateway(t *testing.T) (dir, fields string, client *s3.Client) {
	t.Helper()
	program, err := goProgram("github.com/versity/versitygw/cmd/versitygw@v1.8.0")
	if err != nil {
		skip(t, "no second S3 to test against", err)
	}
	address := freeAddress(t)
	dir = t.TempDir()
	server := exec.CommandContext(t.Context(),
		program, "--access", "test", "--secret", "testtest", "--port", address, "--quiet", "posix", dir)
	var out bytes.Buffer
	server.Stdout, server.Stderr = &out, &out
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	url := "http://" + address
	client = s3.New(s3.Options{Region: "us-east-1", UsePathStyle: true, BaseEndpoint: &url,
		Credentials: credentials.NewStaticCredentialsProvider("test", "testtest", "")})
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	up, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for {
		if _, err = client.CreateBucket(up, &s3.CreateBucketInput{Bucket: aws.String("lake")}); err == nil {
			break
		}
		if up.Err() != nil {
			t.Fatalf("versitygw does not answer: %v\n%s", err, out.String())
		}
	}
	return dir, fmt.Sprintf(
		"bucket: lake, endpoint: %q, region: us-east-1, credentials: {access_key_id: test, secret_access_key: testtest}",
		url,
	), client
}

// TestS3AgainstAnotherServer writes and reads with a server that keeps objects as files.
func TestS3AgainstAnotherServer(t *testing.T) {
	t.Parallel()
	dir, fields, client := gateway(t)
	work := t.TempDir()
	var in strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&in, `{"id": %d, "tenant": "t%d", "pad": %q}`+"\n", i, i%3, strings.Repeat("x", 6000))
	}
	write(t, work, "out.yaml", `
inputs: {in: {stdin: {}}}
batchers:
  tenant: {key: tenant, batch: {size: 1000}, processors: [archive: lines], output: lake}
outputs:
  lake: {s3: {`+fields+`, key: "in/$(batch_key())/all é+.ndjson", part_size: 5MiB, metadata: {tenant: $(batch_key())}, tags: {kind: test}}}
`)
	mustRun(t, work, in.String(), "-c", "out.yaml")
	sizes := map[string]int{}
	for i := range 3 {
		tenant := fmt.Sprintf("t%d", i)
		text, err := os.ReadFile(filepath.Join(dir, "lake", "in", tenant, "all é+.ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		sizes[tenant] = bytes.Count(text, []byte("\n"))
		key := "in/" + tenant + "/all é+.ndjson"
		head, err := client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String("lake"), Key: &key})
		if err != nil || head.Metadata["tenant"] != tenant ||
			aws.ToString(head.ContentType) != "application/x-ndjson" {
			t.Errorf("%s: %v %+v", key, err, head)
		}
		tags, err := client.GetObjectTagging(
			t.Context(),
			&s3.GetObjectTaggingInput{Bucket: aws.String("lake"), Key: &key},
		)
		if err != nil || len(tags.TagSet) != 1 {
			t.Errorf("%s: tags %v, %v", key, tags, err)
		}
	}
	for tenant, n := range sizes {
		if n != 1000 && n != 999 {
			t.Errorf("%s has %d lines, want 999 or 1000", tenant, n)
		}
	}

	for _, after := range []string{"{tag: {state: read}}", "{move: done/}", "delete"} {
		write(t, work, "in.yaml", `
inputs: {in: {s3: {`+fields+`, prefix: "`+map[bool]string{true: "done/", false: "in/"}[after == "delete"]+`", after: `+after+`}}}
processors: [keep: [id]]
outputs: {out: {stdout: {}}}
`)
		got := mustRun(t, work, "", "-c", "in.yaml")
		ids := map[string]bool{}
		for line := range strings.Lines(got) {
			ids[line] = true
		}
		if len(ids) != 3000 {
			t.Errorf("after %s: %d messages, want 3000", after, len(ids))
		}
	}
	left, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("lake")})
	if err != nil || len(left.Contents) != 0 {
		t.Errorf("%d objects are left, %v", len(left.Contents), err)
	}
	uploads, err := client.ListMultipartUploads(
		t.Context(),
		&s3.ListMultipartUploadsInput{Bucket: aws.String("lake")},
	)
	if err != nil || len(uploads.Uploads) != 0 {
		t.Errorf("%d uploads are left, %v", len(uploads.Uploads), err)
	}
}

// mustRun runs flowd, wants exit code 0, and returns its stdout.
func mustRun(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	got := flowd(t, dir, stdin, args...)
	got.Want(t, 0)
	return got.Stdout
}
