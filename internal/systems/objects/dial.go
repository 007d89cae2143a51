package objects

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Dialer connects to the store of a URL, such as s3://BUCKET/PREFIX, and returns the prefix.
type Dialer func(ctx context.Context, u *url.URL) (s Store, prefix string, err error)

// dialers are by scheme. They are registered in init functions.
var dialers = map[string]Dialer{}

// Register registers a dialer for URLs with a scheme, in an init function.
func Register(scheme string, d Dialer) { dialers[scheme] = d }

// IsURL reports whether an address is the URL of a store that this build has.
func IsURL(address string) bool {
	scheme, _, found := strings.Cut(address, "://")
	return found && dialers[scheme] != nil
}

// Dial connects to the store of a URL for which IsURL is true.
func Dial(ctx context.Context, address string) (s Store, prefix string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, "", errors.New("the address is not a URL (write SCHEME://BUCKET/PREFIX)") // that of url.Parse has passwords
	}
	return dialers[u.Scheme](ctx, u)
}

// Parameters returns an error if a URL has other parameters than these.
func Parameters(u *url.URL, known ...string) error {
	for name := range u.Query() {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the address has the unknown parameter %q (known are %s)", name, strings.Join(known, ", "))
		}
	}
	return nil
}
