package test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/debian"
	"gopkg.in/yaml.v3"
)

// releaseBuild is a build in .goreleaser.yaml.
type releaseBuild struct {
	ID, Main                  string
	Env, Flags, Ldflags, Tags []string
}

// buildRelease runs go build in dir with the flags of a build in .goreleaser.yaml.
func buildRelease(t *testing.T, id, dir, output string) {
	t.Helper()
	var config struct{ Builds []releaseBuild }
	if err := yaml.Unmarshal([]byte(read(t, repo, ".goreleaser.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(config.Builds, func(b releaseBuild) bool { return b.ID == id })
	if at < 0 {
		t.Fatalf(".goreleaser.yaml has no build %q", id)
	}
	b := config.Builds[at]
	args := slices.Concat([]string{"GOFLAGS="}, b.Env, []string{"go", "build"}, b.Flags, []string{"-ldflags=" + strings.Join(b.Ldflags, " "),
		"-tags=" + strings.Join(b.Tags, ","), "-o", output, b.Main})
	within(t, compiling, dir, "", "env", args...).Want(t, 0)
}

// slimRelease is the smaller flowd of a release, built from one commit in two folders.
var slimRelease struct {
	once          sync.Once
	first, second string
}

// buildSlimRelease sets slimRelease. The commit has the working tree's files, whether they are committed or not.
func buildSlimRelease(t *testing.T) {
	t.Helper()
	slimRelease.once.Do(func() {
		folder, copied := clone(t), filepath.Join(t.TempDir(), "deeper", "copy")
		git := []string{"-u", "GIT_DIR", "-u", "GIT_INDEX_FILE", "-u", "GIT_WORK_TREE", // which git sets for hooks
			"git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false", "-c", "core.hooksPath="}
		for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "test"}, {"clone", "-q", ".", copied}} {
			within(t, deadline, folder, "", "env", slices.Concat(git, args)...).Want(t, 0)
		}
		dir := filepath.Dir(binary) // which is removed after all tests
		first, second := filepath.Join(dir, "slim-1"), filepath.Join(dir, "slim-2")
		buildRelease(t, "slim", folder, first)
		buildRelease(t, "slim", copied, second)
		slimRelease.first, slimRelease.second = first, second
	})
	if slimRelease.second == "" {
		t.Fatal("the build has failed in another test")
	}
}

func TestReleasesAreReproducible(t *testing.T) {
	t.Parallel()
	buildSlimRelease(t)
	first, second := readBytes(t, slimRelease.first), readBytes(t, slimRelease.second)
	if !bytes.Equal(first, second) {
		t.Error("two builds of one commit in different folders differ")
	}
	got := command(t, repo, "", slimRelease.first, "version", "--json")
	got.Want(t, 0)
	var version struct{ Version, Revision, Date string }
	if err := json.Unmarshal([]byte(got.Stdout), &version); err != nil {
		t.Fatal(err)
	}
	if version.Version == "" || len(version.Revision) < 7 || version.Date == "" {
		t.Errorf("flowd version shows %+v, want a version, a commit and a date", version)
	}
}

// TestSignature signs checksums and checks the signature as docs/operations.md says.
func TestSignature(t *testing.T) {
	t.Parallel()
	debian.Program(t, "ssh-keygen", "openssh-client")
	dir := t.TempDir()
	command(t, dir, "", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key").Want(t, 0)
	write(t, dir, "allowed_signers", "releases "+read(t, dir, "key.pub"))
	write(t, dir, "file", "content")
	write(t, dir, "checksums.txt", "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73  file\n")
	script := filepath.Join(repo, "packaging", "sign.sh")
	command(t, dir, "", "env", "FLOWD_SIGNING_KEY="+read(t, dir, "key"), "sh", script, "checksums.txt", "checksums.txt.sig").Want(t, 0)

	verify := ""
	for _, b := range blocks(read(t, repo, "docs", "operations.md")) {
		if strings.Contains(b.text, "checksums.txt.sig") {
			verify = b.text
		}
	}
	got := command(t, dir, "", "sh", "-ec", verify)
	got.Want(t, 0)
	if want := "file: OK\n"; !strings.HasSuffix(got.Stdout, want) {
		t.Errorf("stdout %q, want it to end with %q", got.Stdout, want)
	}
	write(t, dir, "checksums.txt", read(t, dir, "checksums.txt")+"\n")
	if got := command(t, dir, "", "sh", "-ec", verify); got.Code == 0 {
		t.Error("changed checksums pass with the old signature")
	}
}

func readBytes(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestGoInstall checks what `go install MODULE@VERSION` requires of go.mod.
func TestGoInstall(t *testing.T) {
	got := command(t, repo, "", "go", "mod", "edit", "-json")
	got.Want(t, 0)
	var mod struct{ Replace, Exclude []any }
	if err := json.Unmarshal([]byte(got.Stdout), &mod); err != nil {
		t.Fatal(err)
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		t.Errorf("go.mod has replace %v and exclude %v, with which go install refuses the module", mod.Replace, mod.Exclude)
	}
}
