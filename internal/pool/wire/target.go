package wire

import (
	"crypto/tls"
	"strings"
)

// Target is how to reach a hub or a NATS server.
type Target struct {
	URL         string // HOST:PORT, nats://…, tls://…; several with commas between
	Token       string
	Credentials string
	TLS         *tls.Config // nil: as the address says
}

// urls are the addresses with a scheme.
func (t *Target) urls() string {
	var all []string
	for one := range strings.SplitSeq(t.URL, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		all = append(all, one)
	}
	return strings.Join(all, ",")
}

// String is the address without a password that is in it.
func (t *Target) String() string {
	all := strings.Split(t.URL, ",")
	for i, one := range all {
		scheme, rest, ok := strings.Cut(one, "://")
		if !ok {
			scheme, rest = "", one
		}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = "***" + rest[at:]
		}
		if all[i] = rest; ok {
			all[i] = scheme + "://" + rest
		}
	}
	return strings.Join(all, ",")
}
