package httpx

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"
)

func TestAddressesAreRefusedInAnyForm(t *testing.T) {
	tests := []struct {
		refused string
		address string
		want    bool
	}{
		{"metadata", "169.254.169.254", true},
		{"metadata", "::ffff:169.254.169.254", true},
		{"metadata", "64:ff9b::a9fe:a9fe", true},
		{"metadata", "64:ff9b:1::a9fe:a9fe", true},
		{"metadata", "2002:a9fe:a9fe::1", true},
		{"metadata", "::a9fe:a9fe", true},
		{"metadata", "fd00:ec2::254", true},
		{"metadata", "169.254.169.253", false},
		{"link_local", "169.254.0.1", true},
		{"link_local", "fe80::1%eth0", true},
		{"link_local", "64:ff9b::a9fe:1", true},
		{"loopback", "127.9.9.9", true},
		{"loopback", "::1", true},
		{"loopback", "0.0.0.0", true},
		{"loopback", "::", true},
		{"loopback", "::ffff:127.0.0.1", true},
		{"loopback", "64:ff9b::7f00:1", true},
		{"loopback", "192.0.2.1", false},
		{"127.0.0.0/8", "0.0.0.0", true},
		{"private", "10.1.2.3", true},
		{"private", "100.64.0.1", true},
		{"private", "fd12::1", true},
		{"private", "8.8.8.8", false},
		{"10.0.0.0/8", "10.255.0.1", true},
		{"10.0.0.0/8", "::ffff:10.0.0.1", true},
		{"10.0.0.0/8", "11.0.0.1", false},
		{"192.0.2.7", "192.0.2.7", true},
		{"192.0.2.7", "192.0.2.8", false},
		{"2001:db8::/32", "2001:db8::1", true},
	}
	for _, tt := range tests {
		err := Refused{tt.refused}.control(t.Context(), "tcp",
			netip.AddrPortFrom(netip.MustParseAddr(tt.address), 80).String(), nil)
		if errors.Is(err, errRefused) != tt.want {
			t.Errorf("%s by %s: %v", tt.address, tt.refused, err)
		}
	}
}

func TestBehindAProxyAddressesInTheURLAreRefused(t *testing.T) {
	proxy := func(*http.Request) (*url.URL, error) { return url.Parse("http://10.0.0.1:3128") }
	r := Refused{"private", "metadata"}
	d, err := r.dialer(&net.Dialer{}, proxy, "http://example.com/")
	if err != nil || d.ControlContext != nil {
		t.Errorf("a name: %v; and the proxy itself may not be called", err)
	}
	for _, host := range []string{"169.254.169.254", "[64:ff9b::a9fe:a9fe]:8080", "10.1.1.1:80"} {
		if _, err := r.dialer(&net.Dialer{}, proxy, "http://"+host+"/x"); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", host, err)
		}
	}
}
