package test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/daemon"
)

// startGCS returns the URL of an emulator, from FLOWD_TEST_GCS or by starting fake-gcs-server.
var startGCS = sync.OnceValues(func() (string, error) {
	if address := os.Getenv("FLOWD_TEST_GCS"); address != "" {
		return address, nil
	}
	program, err := goProgram("github.com/fsouza/fake-gcs-server@v1.56.1")
	if err != nil {
		return "", err
	}
	home, err := daemon.Home("gcs", false)
	if err != nil {
		return "", err
	}
	ports, err := daemon.Ports(1)
	if err != nil {
		return "", err
	}
	address := "127.0.0.1:" + ports[0]
	_, err = daemon.Start(daemon.Server{Home: home, Address: address,
		Command: []string{program, "-scheme", "http", "-host", "127.0.0.1", "-port", ports[0],
			"-backend", "memory", "-public-host", address, "-log-level", "error"}})
	return "http://" + address, err
})

// withGCS returns the address of an emulator, with a new bucket, or skips the test.
func withGCS(t *testing.T, bucket string) (address string) {
	t.Helper()
	address, err := startGCS()
	if err != nil {
		skip(t, "no Cloud Storage to test against", fmt.Errorf("%w, or set FLOWD_TEST_GCS to the URL of an emulator", err))
	}
	res, err := http.Post(address+"/storage/v1/b?project=test", "application/json",
		strings.NewReader(fmt.Sprintf(`{"name": %q}`, bucket)))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return address
}

// listObjects returns the names of all objects in a bucket, as JSON.
func listObjects(t *testing.T, address, bucket string) string {
	t.Helper()
	res, err := http.Get(address + "/storage/v1/b/" + bucket + "/o?fields=" + url.QueryEscape("items(name)"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGCSRoundTrip writes objects in one request and in parts, and reads them with different actions afterwards.
func TestGCSRoundTrip(t *testing.T) {
	t.Parallel()
	address := withGCS(t, "roundtrip")
	dir := t.TempDir()
	long := strings.Repeat("0123456789abcdef", 12<<20/16)
	out := write(t, dir, "out.yaml", fmt.Sprintf(`
inputs: {in: {stdin: {max_record: 32MiB}}}
outputs:
  out:
    gcs:
      bucket: roundtrip
      endpoint: %q
      anonymous: true
      key: in/$(id)/ü+ %%.json
      part_size: 5MiB
      if_absent: true
      storage_class: NEARLINE
      metadata: {made_by: "flöwd"}
      tags: {state: "new"}
`, address))
	in := fmt.Sprintf("{\"id\": 1, \"x\": %q}\n{\"id\": 2, \"x\": \"y\"}\n", long)
	mustRun(t, dir, in, "-c", out)
	again := flowd(t, dir, in, "-c", out)
	again.Want(t, 1)
	if !strings.Contains(again.Stderr, "exists already") {
		t.Errorf("writing an existing object: %s", again.Stderr)
	}
	want := fmt.Sprintf(`{"by":"flöwd","id":1,"key":"in/1/ü+ %%.json","size":%d}
{"by":"flöwd","id":2,"key":"in/2/ü+ %%.json","size":1}
`, len(long))
	for _, after := range []string{`{tag: {seen: "yes"}}`, `{move: "done/"}`} {
		got := mustRun(t, dir, "", "-c", write(t, dir, "in.yaml", fmt.Sprintf(`
inputs:
  in: {gcs: {bucket: roundtrip, endpoint: %q, anonymous: true, prefix: in/, max_record: 32MiB, after: %s}}
processors: [map: '{"id": id, "size": len(x), "key": meta("key"), "by": meta("made_by")}']
outputs: {out: {stdout: {}}}
engine: {workers: 1}
`, address, after)))
		if got != want {
			t.Errorf("after %s: read %s, want %s", after, got, want)
		}
	}
	if all := listObjects(t, address, "roundtrip"); strings.Contains(all, "in/") || !strings.Contains(all, "done/1/ü+ %.json") ||
		!strings.Contains(all, "done/2/ü+ %.json") {
		t.Errorf("the bucket has %s, want the objects in done/ only", all)
	}
	wrong := flowd(t, dir, "", "-c", write(t, dir, "wrong.yaml", fmt.Sprintf(`
inputs: {in: {gcs: {bucket: missing, endpoint: %q, anonymous: true}}}
outputs: {out: {stdout: {}}}
engine: {restart: {max_attempts: 1}}
`, address)))
	if wrong.Code == 0 || !strings.Contains(wrong.Stderr, "bucket missing: the bucket does not exist") {
		t.Errorf("a missing bucket: exit %d, %s", wrong.Code, wrong.Stderr)
	}
}
