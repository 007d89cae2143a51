//go:build linux

package test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// unpackedImage runs programs from an unpacked image.
type unpackedImage struct {
	t      *testing.T
	root   string
	config imageConfig
}

// imageConfig is what an image tells container engines.
type imageConfig struct {
	User, WorkingDir     string
	Env, Entrypoint, Cmd []string
	Volumes              map[string]struct{}
	Healthcheck          struct {
		Test              []string
		Interval, Timeout time.Duration
	}
}

// unpack makes the image of a binary, and unpacks the archive for docker load.
func unpack(t *testing.T, binary string) *unpackedImage {
	t.Helper()
	dir := t.TempDir()
	layout, archive, root := filepath.Join(dir, "image"), filepath.Join(dir, "archive"), filepath.Join(dir, "root")
	if err := errors.Join(os.Mkdir(archive, 0o700), os.Mkdir(root, 0o755)); err != nil { //nolint:gosec // the image's user reads it
		t.Fatal(err)
	}
	within(t, compiling, repo, "", "go", "run", "-modfile=packaging/tools.mod", "packaging/image/main.go", layout, "flowd:test",
		binary).Want(t, 0)
	command(t, dir, "", "tar", "xf", layout+"-"+runtime.GOARCH+".tar", "-C", archive).Want(t, 0)

	var index struct {
		Manifests []struct {
			Platform struct{ OS, Architecture string }
		}
	}
	decodeJSON(t, filepath.Join(layout, "index.json"), &index)
	if len(index.Manifests) != 1 || index.Manifests[0].Platform.OS != "linux" || index.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Errorf("the OCI layout has %+v, want one image for linux/%s", index.Manifests, runtime.GOARCH)
	}
	var manifests []struct {
		Config           string
		RepoTags, Layers []string
	}
	decodeJSON(t, filepath.Join(archive, "manifest.json"), &manifests)
	if !slices.Equal(manifests[0].RepoTags, []string{"flowd:test"}) {
		t.Errorf("the archive has the tags %q, want flowd:test", manifests[0].RepoTags)
	}
	var config struct{ Config imageConfig }
	decodeJSON(t, filepath.Join(archive, manifests[0].Config), &config)
	for _, layer := range manifests[0].Layers {
		command(t, dir, "", "tar", "xzpf", filepath.Join(archive, layer), "--same-owner", "-C", root).Want(t, 0)
	}
	return &unpackedImage{t, root, config.Config}
}

func decodeJSON(t *testing.T, file string, to any) {
	t.Helper()
	if err := json.Unmarshal(readBytes(t, file), to); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// start runs a program as container engines do with a read-only root: as the image's user, in its environment and folder,
// with nothing writable but its volumes.
func (c *unpackedImage) start(program ...string) *process {
	c.t.Helper()
	uid, gid, _ := strings.Cut(c.config.User, ":")
	script := `mount --bind "$1" "$1"`
	for volume := range c.config.Volumes {
		script += ` && mount --bind "$1` + volume + `" "$1` + volume + `"`
	}
	script += ` && mount -o remount,bind,ro "$1" && root=$1 && shift && exec "$@" --root="$root" --wd=` + c.config.WorkingDir
	script += ` --setuid=` + uid + ` --setgid=` + gid + ` -- ` + strings.Join(program, " ")
	args := slices.Concat([]string{"--mount", "sh", "-c", script, "sh", c.root, "env", "-i"}, c.config.Env, []string{"unshare"})
	return startAs(c.t, c.root, "unshare", args...)
}

// TestImage runs the entry point of the slim image.
func TestImage(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		skipLoudly(t, "an image is unpacked and run in a chroot, which needs root")
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		skipLoudly(t, fmt.Sprintf("unshare --mount: %v\n%s", err, out))
	}
	buildSlimRelease(t)
	c := unpack(t, slimRelease.first)
	if c.config.User != "65532:65532" {
		t.Errorf("the image's user is %q, want a number other than root's", c.config.User)
	}
	checkImageFiles(t, c.root)

	received := make(chan string, 1)
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- string(body)
	}))
	defer server.Close()
	trust(t, filepath.Join(c.root, "etc/ssl/certs/ca-certificates.crt"), server)
	file, pipeline := filepath.Join(c.root, "etc/flowd/pipelines/p.yaml"), fmt.Sprintf(`
inputs: {in: {stdin: {}}}
processors: [{set: {at: 'format_time(parse_time("2026-07-01T12:00:00Z"), "%%H:%%M", "Europe/Zurich")'}}]
outputs: {out: {http: {url: %q}}}
service: {listen: "127.0.0.1:0"}
`, server.URL)
	if err := os.WriteFile(file, []byte(pipeline), 0o644); err != nil { //nolint:gosec // the image's user reads it
		t.Fatal(err)
	}

	p := c.start(slices.Concat(c.config.Entrypoint, c.config.Cmd)...)
	_, address, _ := strings.Cut(p.Says("admin API listening"), "address=")
	address, _, _ = strings.Cut(address, " ")
	check := c.config.Healthcheck
	if len(check.Test) < 2 || check.Test[0] != "CMD" || check.Interval == 0 || check.Timeout == 0 {
		t.Fatalf("the image's health check is %+v, want a command without a shell", check)
	}
	c.start(append(check.Test[1:], "--addr", address)...).Wait().Want(t, 0)
	c.start("flowd", "ctl", "pause", "--addr", address).Wait().Want(t, 0) // which finds the token
	c.start("flowd", "ctl", "resume", "--addr", address).Wait().Want(t, 0)
	p.Send("{}\n")
	p.Stdin.Close()
	p.Wait().Want(t, 0, "1 received: 1 delivered")
	if got, want := <-received, `{"at":"14:00"}`; strings.TrimSpace(got) != want {
		t.Errorf("the server received %q, want %q", got, want)
	}
}

// trust adds the server's certificate to a file with those of all authorities.
func trust(t *testing.T, file string, server *httptest.Server) {
	t.Helper()
	text := read(t, file)
	if n := strings.Count(text, "BEGIN CERTIFICATE"); n < 100 {
		t.Errorf("the image has %d certificates of authorities, want at least 100", n)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	write(t, filepath.Dir(file), filepath.Base(file), text+string(certificate))
}

// checkImageFiles checks that the image has no other program than flowd, and nothing that others may write. It also checks
// the size of the slim image, and that of the image with all components, whose binary is larger.
func checkImageFiles(t *testing.T, root string) {
	t.Helper()
	var slim int64
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		slim += info.Size()
		if perm := info.Mode().Perm(); perm&0o022 != 0 {
			t.Errorf("%s can be written by others than its owner: %v", path, perm)
		} else if !info.IsDir() && perm&0o111 != 0 && info.Name() != "flowd" {
			t.Errorf("the image has another program: %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	all := slim - fileSize(t, slimRelease.first) + fileSize(t, binary)
	if slim >= 60e6 || all >= 110e6 {
		t.Errorf("the slim image has %d bytes and the full one %d, want less than 60 MB and 110 MB", slim, all)
	}
}

func fileSize(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
