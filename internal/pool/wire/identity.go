package wire

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync"

	"github.com/flowd-io/flowd/internal/components/builds"
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
	source := builds.Source()
	if source.Revision == "" {
		return source.Version
	}
	return source.Version + " " + source.Revision[:min(12, len(source.Revision))]
})
