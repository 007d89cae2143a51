package s3

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/fakes3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	fakes3.Isolate()
	goleak.VerifyTestMain(m)
}
