package amqp

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/schema"
)

// defaultLimit is the delivery limit of a quorum queue in RabbitMQ 4, unless it is set.
const defaultLimit = 20

// limitTimeout bounds a request for the delivery limit, since the management interface may not be available.
const limitTimeout = 2 * time.Second

// DeliveryLimit returns how often a queue delivers a message before it dead-letters it, provided that messages count which are
// returned unprocessed. 0 means that no limit is known. AMQP does not report the limit, so it comes from the management
// interface, or from the declaration if the interface does not answer.
func (d *Dialer) DeliveryLimit(ctx context.Context, c *Conn, management schema.Secret, declared *Declare,
	queue string) (int, error) {
	counts, always := countsReturns(c.version())
	if !counts {
		return 0, nil
	}
	limit := declared.DeliveryLimit()
	uri, err := d.cfg.uri(d.at)
	if err != nil {
		return limit, err
	}
	ctx, cancel := context.WithTimeout(ctx, limitTimeout)
	defer cancel()
	dir := directory{uri, management.Reveal(), d.tls}
	client := dir.client()
	defer client.CloseIdleConnections()
	var answer listed
	if err := dir.get(ctx, client, nil, &answer, url.PathEscape(queue)); err != nil {
		return limit, err
	}
	return answer.limit(always), nil
}

func (c *Conn) version() string {
	v, _ := c.Properties["version"].(string)
	return v
}

// CountsReturns reports whether a message that is returned unprocessed counts towards the delivery limit of a quorum queue, as
// it does when a channel is lost.
func (c *Conn) CountsReturns() bool {
	counts, _ := countsReturns(c.version())
	return counts
}

// countsReturns reports whether a version of the broker counts messages that are returned unprocessed towards the delivery
// limit, which 4.3 no longer does. always reports whether every quorum queue has a limit by default.
func countsReturns(version string) (counts, always bool) {
	parts := strings.SplitN(version, ".", 3)
	major, err := strconv.Atoi(parts[0])
	if err != nil || len(parts) < 2 {
		return true, false
	}
	minor, _ := strconv.Atoi(parts[1])
	return major < 4 || major == 4 && minor < 3, major >= 4
}

// limit returns the delivery limit of a queue, or 0 if it has none. always means that quorum queues have one by default.
func (l *listed) limit(always bool) int {
	if l.Type != "quorum" {
		return 0
	}
	least := math.MaxInt
	for _, v := range []any{l.Arguments["x-delivery-limit"], l.Policy["delivery-limit"]} {
		switch n := v.(type) {
		case float64: // from JSON
			least = min(least, int(n))
		case int64:
			least = min(least, int(n))
		}
	}
	switch {
	case least == math.MaxInt && always:
		return defaultLimit
	case least == math.MaxInt, least < 0:
		return 0
	}
	return max(1, least)
}

// client returns a new client for a few requests.
func (d *directory) client() *http.Client {
	return httpx.Direct(httpx.Network(d.tls.Clone()), httpx.MostAnswer) // a nil Config means the defaults
}
