// Package test runs whole pipelines with the built binary. A golden case is one file in
// testdata with commands, pipeline, input and expected output (see testdata/README.md).
// Tests that need timing or signals are written in Go.
package test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/flowd-io/flowd/test/flowdtest"
	"go.uber.org/goleak"
)

// repo is the root of the repository, binary the flowd built from it.
var repo, binary string

func TestMain(m *testing.M) {
	if addr := os.Getenv(natsAddress); addr != "" { // run as a NATS server instead
		serveNATS(addr)
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue { // most tests only wait for processes
		_ = f.Value.Set("4")
	}
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	remove, err := flowdtest.Build()
	if remove != nil {
		defer remove()
	}
	if err != nil {
		return 1, err
	}
	repo, binary = flowdtest.Repo, flowdtest.Binary
	code := m.Run()
	stopEmulator()
	http.DefaultClient.CloseIdleConnections()
	if code != 0 { // a failed test may leave goroutines behind
		return code, nil
	}
	return 0, goleak.Find(
		// RabbitMQ runs as long as the tests.
		goleak.IgnoreAnyFunction("github.com/flowd-io/flowd/internal/testing/daemon.(*Process).wait"),
	)
}

// Shorter names for package flowdtest.
type (
	process = flowdtest.Process
	result  = flowdtest.Result
)

const (
	deadline  = flowdtest.Deadline
	compiling = flowdtest.Compiling
)

var (
	flowd   = flowdtest.Run
	command = flowdtest.Command
	within  = flowdtest.Within
	start   = flowdtest.Start
	startAs = flowdtest.StartAs
	write   = flowdtest.Write
	read    = flowdtest.Read
)
