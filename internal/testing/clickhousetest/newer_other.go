//go:build !unix

package clickhousetest

import "testing"

// Newer is for Unix only.
func Newer(t testing.TB) string {
	t.Helper()
	t.Skip("no ClickHouse of today to test with")
	return ""
}
