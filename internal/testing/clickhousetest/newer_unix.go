//go:build unix

package clickhousetest

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/flowd-io/flowd/internal/testing/daemon"
	"github.com/flowd-io/flowd/internal/testing/npm"
)

//go:embed newer.js
var newer string

// buildsPrograms is what has tests fetch half a gigabyte.
const buildsPrograms = "FLOWD_TEST_BUILD"

var asked = sync.OnceValues(func() (string, error) {
	if os.Getenv(buildsPrograms) == "" {
		return "", errors.New("chDB is large (set " + buildsPrograms + "=1)")
	}
	dir, err := npm.Install("chdb@3.4.0")
	if err != nil {
		return "", err
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return "", err
	}
	home, err := daemon.Home("chdb", false)
	if err != nil {
		return "", err
	}
	ports, err := daemon.Ports(1)
	if err != nil {
		return "", err
	}
	script := filepath.Join(home, "newer.js")
	if err := os.WriteFile(script, []byte(newer), 0o600); err != nil {
		return "", err
	}
	_, err = daemon.Start(daemon.Server{
		Command: []string{node, script, ports[0]}, Env: []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")},
		Home: home, Address: "127.0.0.1:" + ports[0],
	})
	return "http://default:secret@127.0.0.1:" + ports[0], err
})

// Newer is a fresh database of a ClickHouse of today, as a URL: the engine is real, by a library of npm, and what is in
// front of it a small part of the HTTP interface: one request at a time, no users, only UTF-8. Without FLOWD_TEST_BUILD=1
// the test is skipped, which stderr says, too.
func Newer(t testing.TB) string {
	t.Helper()
	at, err := asked()
	if err != nil {
		why := fmt.Sprintf("no ClickHouse of today to test with: %v", err)
		fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", t.Name(), why)
		t.Skip(why)
	}
	name := fmt.Sprintf("flowd_%d", named.Add(1))
	Exec(t, at, "CREATE DATABASE "+name)
	t.Cleanup(func() { Exec(t, at, "DROP DATABASE "+name) })
	return at + "/" + name
}
