// Package test runs whole pipelines against the built binary. A golden case is
// one file in testdata: commands, pipeline, input and expected output (see
// testdata/README.md). What needs timing or signals is Go.
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

// repo is the root of the repository; binary the flowd that was built of it.
var repo, binary string

func TestMain(m *testing.M) {
	if addr := os.Getenv(natsAddress); addr != "" { // this process is a NATS server
		serveNATS(addr)
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue { // most wait for processes, and compute nothing
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
	if code != 0 { // a test that gives up leaves things behind
		return code, nil
	}
	return 0, goleak.Find(
		// RabbitMQ lives as long as the tests.
		goleak.IgnoreAnyFunction("github.com/flowd-io/flowd/internal/testing/daemon.(*Process).wait"),
	)
}

// What flowdtest does for all packages with the binary, by the names that this one uses.
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
