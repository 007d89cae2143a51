package s3

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/flowd-io/flowd/internal/systems/objects"
)

func init() { objects.Register("s3", dial) }

// dial connects to the bucket of a URL: s3://BUCKET/PREFIX?region=…&endpoint=…&profile=…. Credentials are those of the
// environment, the profile or the machine.
func dial(ctx context.Context, u *url.URL) (objects.Store, string, error) {
	if err := objects.Parameters(u, "region", "endpoint", "profile"); err != nil {
		return nil, "", err
	}
	var c Config
	q := u.Query()
	c.Bucket, c.Region, c.Endpoint, c.Profile = u.Host, q.Get("region"), q.Get("endpoint"), q.Get("profile")
	if c.Bucket == "" {
		return nil, "", errors.New("the address has no bucket (write s3://BUCKET/PREFIX)")
	}
	s, err := c.Open(ctx, Writing{}, nil)
	if err != nil {
		return nil, "", err
	}
	return s, strings.TrimPrefix(u.Path, "/"), nil
}
