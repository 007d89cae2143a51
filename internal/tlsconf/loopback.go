package tlsconf

import (
	"net/netip"
	"strings"
)

// Loopback says whether a host can be reached only from this machine, so that nobody can
// listen in: localhost, or an address of the loopback interface.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
