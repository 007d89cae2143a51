package httpx

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/flowd-io/flowd/schema"
)

// Refused lists addresses that are never called: names of groups, addresses and networks.
type Refused []string

// groups are the names of groups.
var groups = map[string]func(netip.Addr) bool{
	"loopback":   func(a netip.Addr) bool { return a.IsLoopback() },
	"link_local": func(a netip.Addr) bool { return a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() },
	"private":    func(a netip.Addr) bool { return a.IsPrivate() || carrier.Contains(a) },
	"metadata":   func(a netip.Addr) bool { return slices.Contains(metadata, a) },
}

var (
	carrier  = netip.MustParsePrefix("100.64.0.0/10")
	metadata = []netip.Addr{ // of AWS, GCP, Azure and others; of AWS by IPv6; of AWS containers; of Alibaba; of Oracle
		netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254"),
		netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("169.254.170.23"),
		netip.MustParseAddr("fd00:ec2::23"),
		netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("192.0.0.192"),
	}
	// embedding are networks whose addresses contain an IPv4 address, from this byte on.
	embedding = map[netip.Prefix]int{
		netip.MustParsePrefix("64:ff9b::/96"):   12, // NAT64
		netip.MustParsePrefix("64:ff9b:1::/48"): 12, // NAT64 of a site, if its prefix has 96 bits
		netip.MustParsePrefix("2002::/16"):      2,  // 6to4
		netip.MustParsePrefix("::/96"):          12, // IPv4-compatible
	}
)

// UnmarshalConfig decodes a list, and reports invalid addresses.
func (r *Refused) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if !d.Decode(n, (*[]string)(r)) {
		return
	}
	for _, text := range *r {
		if _, known := groups[text]; known {
			continue
		}
		if _, err := prefixOf(text); err != nil {
			d.Report(n, schema.Problem{Code: schema.BadValue,
				Message: fmt.Sprintf("%q is neither a group of addresses nor an address", text),
				Remedy:  "write link_local, loopback, metadata, private, an address, or a network such as 10.0.0.0/8"})
		}
	}
}

// DescribeConfig describes a list of texts.
func (r *Refused) DescribeConfig() *schema.Type { return schema.AnyOf("list of text", []string(nil)) }

func prefixOf(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err
}

// refusedBy returns the entry that refuses an address, or "".
func (r Refused) refusedBy(a netip.Addr) string {
	for _, form := range forms(a) {
		for _, text := range r {
			if in := groups[text]; in != nil && in(form) {
				return text
			}
			if p, err := prefixOf(text); err == nil && p.Contains(form) {
				return text
			}
		}
	}
	return ""
}

// forms returns an address, and the IPv4 address that it may contain.
func forms(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap()
	all := []netip.Addr{a}
	if a.IsUnspecified() { // the system takes it for this address
		all = append(all, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	}
	bytes := a.AsSlice()
	for prefix, at := range embedding {
		if a.Is6() && prefix.Contains(a) && !a.IsLoopback() && !a.IsUnspecified() {
			in, _ := netip.AddrFromSlice(bytes[at : at+4])
			all = append(all, in)
		}
	}
	return all
}

var errRefused = errors.New("refuse_addresses")

func (r Refused) check(a netip.Addr) error {
	if by := r.refusedBy(a); by != "" {
		return fmt.Errorf("%w: %s is not called (%s)", errRefused, a, by)
	}
	return nil
}

// control refuses an address when it is dialled. The name has been resolved by then, so no DNS answer and no redirect
// can get around it.
func (r Refused) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s is not an address", errRefused, address)
	}
	return r.check(at.Addr())
}

// dialer returns the dialer for a URL. Behind a proxy it connects to the proxy, which the operator has named. The
// proxy resolves names, so only a literal address in the URL can be checked.
func (r Refused) dialer(d *net.Dialer, proxy func(*http.Request) (*url.URL, error), to string) (*net.Dialer, error) {
	if len(r) == 0 {
		return d, nil
	}
	u, err := url.Parse(to)
	if err != nil {
		return nil, cause(err)
	}
	if behind, err := proxy(&http.Request{URL: u}); err != nil || behind == nil {
		d.ControlContext = r.control
		return d, err
	}
	if a, err := netip.ParseAddr(strings.Trim(u.Hostname(), "[]")); err == nil {
		return d, r.check(a)
	}
	return d, nil
}

// AboutProxies documents proxies and refused addresses for components that make requests.
const AboutProxies = `Requests go through a proxy if the environment names one: HTTP_PROXY and HTTPS_PROXY (or
in lower case), except to hosts in NO_PROXY and to this machine. With refuse_addresses,
some addresses are not called, whatever name resolves to them: each connection is checked
when it is made, so DNS, redirects and addresses in another form (IPv4 in IPv6, NAT64)
can't bypass it. A request to such an address is rejected. A proxy may always be called,
and it resolves names: it must refuse those addresses itself. flowd then only checks a URL
that contains an address.
`
