package wire

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
)

// NewID returns a unique name.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Name names this process for people.
var Name = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
})

// Version is the version of flowd in this process, with the revision if it was built from a repository.
var Version = sync.OnceValue(func() string {
	version, revision, _ := Build()
	if revision != "" {
		version += " " + revision[:min(12, len(revision))]
	}
	return version
})

// Build returns the version of this build and, if it was built in a repository, its revision, and whether the tree
// had changes.
func Build() (version, revision string, modified bool) {
	version = "(devel)"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, "", false
	}
	const module = "github.com/flowd-io/flowd" // a custom build has a main module with another version
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && m.Version != "" {
			version = m.Version
		}
	}
	if info.Main.Path != module {
		return version, "", false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return version, revision, modified
}
