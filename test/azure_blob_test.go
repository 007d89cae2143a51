package test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/npm"
)

// azuriteKey is the well-known key of Azurite's account.
const azuriteKey = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

var azurite *daemon.Process // runs as long as the tests

// startAzurite returns the URL of an emulator's account, from FLOWD_TEST_AZURE or by starting Azurite, which npm installs
// into the user's cache once.
var startAzurite = sync.OnceValues(func() (string, error) {
	if address := os.Getenv("FLOWD_TEST_AZURE"); address != "" {
		return address, nil
	}
	if major, err := npm.Node(); err != nil || major < 20 {
		return "", fmt.Errorf("the version of node is %d: %w", major, err)
	}
	dir, err := npm.Install("azurite@3.35.0")
	if err != nil {
		return "", err
	}
	home, err := daemon.Home("azurite", false)
	if err != nil {
		return "", err
	}
	ports, err := daemon.Ports(1)
	if err != nil {
		return "", err
	}
	azurite, err = daemon.Start(daemon.Server{Home: home, Address: "127.0.0.1:" + ports[0],
		Command: []string{"node", filepath.Join(dir, "node_modules/azurite/dist/src/blob/main.js"), "--silent",
			"--skipApiVersionCheck", "--disableTelemetry", "--inMemoryPersistence", "--blobPort", ports[0]}})
	return "http://127.0.0.1:" + ports[0] + "/devstoreaccount1", err
})

// withAzurite returns a new container and the config fields that name it, or skips the test.
func withAzurite(t *testing.T, name string) (c *container.Client, fields string) {
	t.Helper()
	address, err := startAzurite()
	if err != nil {
		t.Skipf("SKIPPED: no Azure Storage to test against: %v (install Node 20 or newer with npm, or set FLOWD_TEST_AZURE to the URL of the "+
			"account of an emulator)", err)
	}
	key, err := container.NewSharedKeyCredential("devstoreaccount1", azuriteKey)
	if err != nil {
		t.Fatal(err)
	}
	network := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(network.CloseIdleConnections)
	o := &container.ClientOptions{}
	o.Transport = network
	if c, err = container.NewClientWithSharedKeyCredential(address+"/"+name, key, o); err != nil {
		t.Fatal(err)
	}
	_, _ = c.Delete(t.Context(), nil) // may exist from an earlier run
	if _, err := c.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return c, fmt.Sprintf("account: devstoreaccount1, endpoint: %q, account_key: %q, container: %s", address, azuriteKey, name)
}

// blobs returns the names of all blobs.
func blobs(t *testing.T, c *container.Client) (names []string) {
	t.Helper()
	page, err := c.NewListBlobsFlatPager(nil).NextPage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range page.Segment.BlobItems {
		names = append(names, *b.Name)
	}
	return names
}

// TestAzureBlobRoundTrip writes blobs in one request and in blocks, and reads them with different actions afterwards.
func TestAzureBlobRoundTrip(t *testing.T) {
	t.Parallel()
	c, fields := withAzurite(t, "roundtrip")
	dir := t.TempDir()
	long := strings.Repeat("0123456789abcdef", 12<<20/16)
	out := write(t, dir, "out.yaml", `
inputs: {in: {stdin: {max_record: 32MiB}}}
outputs:
  out:
    azure_blob:
      `+strings.ReplaceAll(fields, ", ", "\n      ")+`
      key: in/$(id)/ü+ %.json
      part_size: 5MiB
      if_absent: true
      access_tier: Cool
      metadata: {made-by: "flöwd"}
      tags: {state: "new"}
`)
	in := fmt.Sprintf("{\"id\": 1, \"x\": %q}\n{\"id\": 2, \"x\": \"y\"}\n", long)
	mustRun(t, dir, in, "-c", out)
	names := []string{"in/1/ü+ %.json", "in/2/ü+ %.json"}
	if got := blobs(t, c); !slices.Equal(got, names) {
		t.Fatalf("the container has %q, want %q", got, names)
	}
	again := flowd(t, dir, in, "-c", out)
	again.Want(t, 1)
	if !strings.Contains(again.Stderr, "exists already") {
		t.Errorf("writing an existing blob: %s", again.Stderr)
	}
	read := func(after string) string {
		return mustRun(t, dir, "", "-c", write(t, dir, "in.yaml", `
inputs:
  in:
    azure_blob:
      `+strings.ReplaceAll(fields, ", ", "\n      ")+`
      prefix: in/
      max_record: 32MiB
      after: `+after+`
processors: [map: '{"id": id, "size": len(x), "key": meta("key"), "by": meta("made_by")}']
outputs: {out: {stdout: {}}}
engine: {workers: 1}
`))
	}
	want := fmt.Sprintf(`{"by":"flöwd","id":1,"key":"in/1/ü+ %%.json","size":%d}
{"by":"flöwd","id":2,"key":"in/2/ü+ %%.json","size":1}
`, len(long))
	if got := read(`{tag: {seen: "yes"}}`); got != want {
		t.Errorf("read %s, want %s", got, want)
	}
	has, err := c.NewBlobClient(names[1]).GetTags(t.Context(), nil)
	if err != nil || len(has.BlobTagSet) != 2 {
		t.Errorf("the blob has %d tags, want 2 (error %v)", len(has.BlobTagSet), err)
	}
	if got := read(`{move: "done/"}`); got != want {
		t.Errorf("read %s", got)
	}
	if got := blobs(t, c); !slices.Equal(got, []string{"done/1/ü+ %.json", "done/2/ü+ %.json"}) {
		t.Errorf("after the move, the container has %q", got)
	}
	has, err = c.NewBlobClient("done/2/ü+ %.json").GetTags(t.Context(), nil)
	if err != nil || len(has.BlobTagSet) != 2 {
		t.Errorf("the moved blob has %d tags, want 2 (error %v)", len(has.BlobTagSet), err)
	}
}

// TestAzureErrors uses a container that does not exist, and a wrong key.
func TestAzureErrors(t *testing.T) {
	t.Parallel()
	_, fields := withAzurite(t, "wrong")
	for _, tt := range []struct{ name, old, new, want string }{
		{"container", "container: wrong", "container: missing", "container missing: the container does not exist"},
		{"key", azuriteKey, "d3Jvbmc=", "403 AuthorizationFailure (check the key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			got := flowd(t, dir, "", "-c", write(t, dir, "p.yaml", "inputs: {in: {azure_blob: {"+
				strings.ReplaceAll(fields, tt.old, tt.new)+"}}}\noutputs: {out: {stdout: {}}}\nengine: {restart: {max_attempts: 1}}\n"))
			if got.Code == 0 || !strings.Contains(got.Stderr, tt.want) {
				t.Errorf("exit %d: %s", got.Code, got.Stderr)
			}
		})
	}
}
