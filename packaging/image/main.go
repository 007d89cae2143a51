//go:build ignore

// Command image makes a container image of flowd, without a base image and without a shell:
//
//	go run -modfile=packaging/tools.mod packaging/image/main.go DIR TAG BINARY...
//
// DIR becomes an OCI layout with one image per binary, each of another architecture. DIR-ARCH.tar has the same image for
// `docker load`, which gives it the name TAG.
package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user owns the data directory. Its number is that of other images without root, such as distroless.
const user = 65532

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: image DIR TAG BINARY...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(dir, tag string, binaries []string) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return err
	}
	var index v1.ImageIndex = empty.Index
	for _, binary := range binaries {
		image, platform, err := imageOf(binary)
		if err != nil {
			return fmt.Errorf("%s: %w", binary, err)
		}
		if err := tarball.WriteToFile(dir+"-"+platform.Architecture+".tar", ref, image); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	_, err = layout.Write(dir, index)
	return err
}

// imageOf takes the platform and the date of the image from the binary, so that one binary always makes the same image.
func imageOf(binary string) (v1.Image, *v1.Platform, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, nil, err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	platform := &v1.Platform{OS: settings["GOOS"], Architecture: settings["GOARCH"]}
	if platform.OS != "linux" || settings["CGO_ENABLED"] != "0" {
		return nil, nil, fmt.Errorf("it is not a static binary for Linux (build it with GOOS=linux CGO_ENABLED=0)")
	}
	date := time.Unix(0, 0).UTC()
	if t := settings["vcs.time"]; t != "" {
		if date, err = time.Parse(time.RFC3339, t); err != nil {
			return nil, nil, err
		}
	}
	files, err := filesOf(binary, date)
	if err != nil {
		return nil, nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithCompressedCaching)
	if err != nil {
		return nil, nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Architecture, v1.Time{Time: date}
	config.Config = v1.Config{
		User: fmt.Sprintf("%d:%d", user, user),
		Env: []string{"PATH=/usr/bin",
			"HOME=/var/lib/flowd",    // where the token of the admin API is
			"TMPDIR=/var/lib/flowd"}, // for the jobs of pools
		Entrypoint: []string{"flowd"},
		Cmd:        []string{"-c", "/etc/flowd/pipelines"},
		WorkingDir: "/var/lib/flowd",
		Volumes:    map[string]struct{}{"/var/lib/flowd": {}}, // also writable if the root is read-only
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "flowd", "ctl", "live"}, Interval: 10 * time.Second,
			Timeout: 5 * time.Second, StartPeriod: 10 * time.Second, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "flowd",
			"org.opencontainers.image.source":   "https://github.com/flowd-io/flowd",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.version":  info.Main.Version,
			"org.opencontainers.image.revision": settings["vcs.revision"],
		},
	}
	image, err = mutate.ConfigFile(image, config)
	return image, platform, err
}

// filesOf returns the files of the image as a tar archive. The database of time zones is part of the binary.
func filesOf(binary string, date time.Time) ([]byte, error) {
	contents := map[string][]byte{}
	for _, file := range []string{binary, "LICENSE", "NOTICE"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		contents[file] = text
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range []struct {
		path    string // of a directory if it ends with a slash
		mode    int64
		owner   int
		content []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/flowd/", 0o755, 0, nil},
		{"etc/flowd/pipelines/", 0o755, 0, nil},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, authorities()},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/flowd", 0o755, 0, contents[binary]},
		{"usr/share/", 0o755, 0, nil},
		{"usr/share/doc/", 0o755, 0, nil},
		{"usr/share/doc/flowd/", 0o755, 0, nil},
		{"usr/share/doc/flowd/copyright", 0o644, 0, contents["LICENSE"]},
		{"usr/share/doc/flowd/NOTICE", 0o644, 0, contents["NOTICE"]},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/flowd/", 0o750, user, nil},
	} {
		h := &tar.Header{Name: f.path, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: date}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), w.Close()
}

// authorities are the certificate authorities that Mozilla trusts. Those that it trusts only for certificates issued before
// a date are left out, since a file can't express that.
func authorities() []byte {
	var buf bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&buf, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return buf.Bytes()
}
