package tlsconf

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Listening returns the host of an address to listen on. For an invalid address, it returns what is wrong and what to
// write, such as example.
func Listening(address, example string) (host, message, remedy string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" || !named(host) {
		return "", fmt.Sprintf("%q is not a valid address", address), fmt.Sprintf("write %q", example)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		_, free, _ := net.SplitHostPort(example)
		return "", fmt.Sprintf("%q has no valid port: %q is not a number from 0 to 65535", address, port),
			fmt.Sprintf("write %q", net.JoinHostPort(host, free))
	}
	return host, "", ""
}

// named reports whether a host is empty, an address, or a name whose last part is not a number.
func named(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil || host == "" {
		return true
	}
	odd := func(r rune) bool { return r <= ' ' || strings.ContainsRune(`:/@[]"',;`, r) }
	last := host[strings.LastIndexByte(host, '.')+1:]
	return !strings.ContainsFunc(host, odd) && strings.Trim(last, "0123456789") != ""
}

// Loopback reports whether a host can only be reached from this machine: localhost, or a loopback address.
func Loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}
