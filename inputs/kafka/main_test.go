package kafka

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue { // most tests wait for the group, and need little CPU time
		_ = f.Value.Set("8")
	}
	os.Exit(m.Run())
}
