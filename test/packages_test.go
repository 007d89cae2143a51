//go:build linux

package test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/debian"
	"gopkg.in/yaml.v3"
)

// packageBuilder makes packages of the flowd under test, as GoReleaser does from .goreleaser.yaml: both use nfpm.
type packageBuilder struct {
	t      *testing.T
	config map[string]any
	dir    string
}

func newPackageBuilder(t *testing.T) *packageBuilder {
	t.Helper()
	b := &packageBuilder{t: t, dir: t.TempDir()}
	text, err := os.ReadFile(filepath.Join(repo, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	pages := filepath.Join(b.dir, "pages")
	b.run("go", "run", "./packaging/pages", pages)
	text = bytes.ReplaceAll(text, []byte("packaging/out/"), []byte(pages+"/"))
	text = bytes.ReplaceAll(text, []byte("{{ .CommitDate }}"), []byte("2026-01-01T00:00:00Z"))
	var release struct {
		Nfpms []map[string]any `yaml:"nfpms"`
	}
	if err := yaml.Unmarshal(text, &release); err != nil {
		t.Fatal(err)
	}
	b.config = release.Nfpms[0]
	delete(b.config, "formats")
	delete(b.config, "ids")
	b.config["deb"], b.config["rpm"] = map[string]any{"compression": "none"}, map[string]any{"compression": "gzip:1"} // CPU time
	b.config["name"], b.config["arch"] = "flowd", runtime.GOARCH
	b.config["contents"] = append(b.config["contents"].([]any), map[string]any{"src": binary, "dst": "/usr/bin/flowd"})
	return b
}

// run runs a program in the repository.
func (b *packageBuilder) run(name string, args ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), name, args...)
	cmd.Dir = repo
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// build makes a package of a format, and returns its file.
func (b *packageBuilder) build(format, version string) string {
	b.t.Helper()
	config := maps.Clone(b.config)
	config["version"] = version
	text, err := yaml.Marshal(config)
	if err != nil {
		b.t.Fatal(err)
	}
	file := filepath.Join(b.dir, "flowd-"+version+"."+format)
	b.run("go", "tool", "-modfile=packaging/tools.mod", "nfpm", "package", "--packager", format, "--target", file,
		"--config", write(b.t, b.dir, "nfpm.yaml", string(text)))
	return file
}

// cleanRoot is a Debian without systemd, whose systemctl writes down how it was called.
type cleanRoot struct {
	t   *testing.T
	dir string
}

// newCleanRoot copies a root that bootstrap has made.
func newCleanRoot(t *testing.T, made string) *cleanRoot {
	t.Helper()
	r := &cleanRoot{t, filepath.Join(t.TempDir(), "root")}
	if out, err := exec.Command("cp", "-a", made, r.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(r.dir, "run/systemd/system"), 0o755),
		os.WriteFile(filepath.Join(r.dir, "usr/bin/systemctl"), []byte("#!/bin/sh\necho \"$@\" >>/calls\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	return r
}

// bootstrap makes a small Debian.
func bootstrap(t *testing.T) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		skipLoudly(t, "packages are installed in a chroot, which needs root")
	}
	dir = filepath.Join(t.TempDir(), "debian")
	out, err := exec.Command(debian.Program(t, "mmdebstrap", "mmdebstrap"), "--variant=essential", "--include=passwd",
		"bookworm", dir).CombinedOutput()
	if err != nil {
		skipLoudly(t, fmt.Sprintf("mmdebstrap: %v\n%s", err, out))
	}
	return dir
}

// TestPackages installs, upgrades and removes the packages of .goreleaser.yaml.
func TestPackages(t *testing.T) {
	t.Parallel()
	b := newPackageBuilder(t)
	t.Run("reproducible", func(t *testing.T) { testReproduciblePackage(t, b) })
	made := bootstrap(t)
	t.Run("deb", func(t *testing.T) { testDebianPackage(newCleanRoot(t, made), b) })
	t.Run("rpm", func(t *testing.T) { testRPMPackage(newCleanRoot(t, made), b) })
}

// testReproduciblePackage makes a package twice, the second time from newer files with other modes.
func testReproduciblePackage(t *testing.T, b *packageBuilder) {
	first := readBytes(t, b.build("deb", "1.0.0"))
	later := time.Now().Add(time.Hour)
	err := filepath.WalkDir(filepath.Join(b.dir, "pages"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		return errors.Join(os.Chmod(path, 0o664), os.Chtimes(path, later, later)) //nolint:gosec // as with another umask
	})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, readBytes(t, b.build("deb", "1.0.0"))) {
		t.Error("two packages of the same files differ")
	}
}

func skipLoudly(t *testing.T, why string) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
	t.Skip(why)
}

// sh runs a command inside.
func (r *cleanRoot) sh(command string) string {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), "chroot", r.dir, "sh", "-c", command).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// dpkg installs a package file.
func (r *cleanRoot) dpkg(file string) {
	r.t.Helper()
	inside := "/" + filepath.Base(file)
	if out, err := exec.Command("cp", file, r.dir+inside).CombinedOutput(); err != nil {
		r.t.Fatalf("%v\n%s", err, out)
	}
	r.sh("dpkg -i " + inside)
}

// calls are the calls of systemctl since the last time.
func (r *cleanRoot) calls() []string {
	file := filepath.Join(r.dir, "calls")
	text, _ := os.ReadFile(file)
	_ = os.Remove(file)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func (r *cleanRoot) wantCalls(when string, want ...string) {
	r.t.Helper()
	if got := r.calls(); !slices.Equal(got, want) {
		r.t.Errorf("%s: systemctl was called with %q, want %q", when, got, want)
	}
}

func testDebianPackage(r *cleanRoot, b *packageBuilder) {
	t := r.t
	r.dpkg(b.build("deb", "1.0.0"))
	r.wantCalls("after the installation", "daemon-reload") // nothing is started: there is no pipeline
	for command, want := range map[string]string{
		"stat -c '%U:%G %a' /etc/flowd":                           "root:flowd 750",
		"stat -c '%U:%G %a' /etc/flowd/pipelines":                 "root:flowd 750",
		"stat -c '%U:%G %a' /etc/flowd/environment":               "root:flowd 640",
		"ls /etc/flowd/pipelines":                                 "",
		"getent passwd flowd | cut -d: -f6,7":                     "/var/lib/flowd:/usr/sbin/nologin",
		"flowd version | cut -d' ' -f1":                           "flowd",
		"flowd lint /etc/flowd/example.yaml 2>&1":                 "0 errors, 0 warnings",
		"ls /usr/share/bash-completion/completions/flowd | wc -l": "1",
		"grep -c TH /usr/share/man/man1/flowd-lint.1":             "1",
		"ls /usr/lib/systemd/system/flowd.service | wc -l":        "1",
		"ls /usr/share/flowd":                                     "alerts.yaml\nflowd.json",
		"dpkg-query -W -f '${Status} ${Version}' flowd":           "install ok installed 1.0.0",
		"dpkg-query -W -f '${Conffiles}' flowd | grep -c /etc":    "2",
	} {
		if got := strings.TrimSpace(r.sh(command)); got != want {
			t.Errorf("%s: got %q, want %q", command, got, want)
		}
	}

	r.sh("echo '# mine' >>/etc/flowd/environment && mkdir -p /var/lib/flowd && echo kept >/var/lib/flowd/data")
	r.dpkg(b.build("deb", "1.1.0"))
	r.wantCalls("after an upgrade", "daemon-reload", "daemon-reload", "--no-block try-restart flowd.service")
	if got := r.sh("tail -n1 /etc/flowd/environment"); got != "# mine\n" {
		t.Errorf("an upgrade replaced the configuration: %q", got)
	}

	r.sh("dpkg --purge flowd")
	r.wantCalls("after a removal", "disable --now flowd.service", "daemon-reload", "daemon-reload")
	if got := r.sh("cat /var/lib/flowd/data; ls /usr/bin/flowd 2>&1 | wc -l; getent group flowd | wc -l"); got != "kept\n1\n1\n" {
		t.Errorf("a removal left %q, want the data and the group", got)
	}
}

// rpm is not Debian's: what is in the package, and its scripts, are run by hand.
func testRPMPackage(r *cleanRoot, b *packageBuilder) {
	t := r.t
	unpack := debian.Program(t, "rpm2cpio", "rpm2cpio")
	debian.Program(t, "cpio", "cpio")
	file := b.build("rpm", "1.0.0")
	list := b.run("sh", "-c", unpack+" "+file+" | cpio -t --quiet")
	for _, want := range []string{"/usr/bin/flowd", "/usr/lib/systemd/system/flowd.service", "/etc/flowd/environment",
		"/etc/flowd/example.yaml", "/usr/share/zsh/site-functions/_flowd", "/usr/share/man/man1/flowd.1"} {
		if !slices.Contains(strings.Split(list, "\n"), want) {
			t.Errorf("the package lacks %s:\n%s", want, list)
		}
	}
	if strings.Contains(list, "vendor-completions/_flowd") {
		t.Error("the package has files of Debian's")
	}
	script := func(name, arg string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(repo, "packaging", "linux", name+".sh"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, r.dir, "script", string(text))
		r.sh("sh /script " + arg)
	}
	script("preinstall", "1")
	script("postinstall", "1")
	r.wantCalls("after the installation", "daemon-reload")
	script("preinstall", "2")
	script("postinstall", "2")
	script("preremove", "1") // of the old version
	script("postremove", "1")
	r.wantCalls("after an upgrade", "daemon-reload", "--no-block try-restart flowd.service", "daemon-reload")
	script("preremove", "0")
	script("postremove", "0")
	r.wantCalls("after a removal", "disable --now flowd.service", "daemon-reload")
}
