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

// defaultLimit is the delivery limit that a quorum queue has in RabbitMQ 4.
const defaultLimit = 20

// asking is how long a question is worth that the management interface may not answer.
const asking = 2 * time.Second

// DeliveryLimit is how often a queue delivers a message before it dead-letters it, if it
// also counts messages that go back unread; 0: no limit is known. AMQP does not report it:
// it is what was declared, or what the management interface says, if it answers.
func (d *Dialer) DeliveryLimit(ctx context.Context, c *Conn, management schema.Secret, declared *Declare,
	queue string) (int, error) {
	counts, always := counting(c.version())
	if !counts {
		return 0, nil
	}
	limit := declared.DeliveryLimit()
	uri, err := d.cfg.uri(d.at)
	if err != nil {
		return limit, err
	}
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	at := directory{uri, management.Reveal(), d.tls}
	client := at.client()
	defer client.CloseIdleConnections()
	var answer listed
	if err := at.get(ctx, client, nil, &answer, url.PathEscape(queue)); err != nil {
		return limit, err
	}
	return answer.limit(always), nil
}

func (c *Conn) version() string {
	v, _ := c.Properties["version"].(string)
	return v
}

// CountsReturns says that the broker's quorum queues count a message that is handed back unread as they count one whose
// channel is gone: towards the delivery limit.
func (c *Conn) CountsReturns() bool {
	counts, _ := counting(c.version())
	return counts
}

// counting reports whether a broker of a version counts a message that goes back unread
// towards the limit (4.3 does no longer), and whether every quorum queue has one.
func counting(version string) (yes, always bool) {
	parts := strings.SplitN(version, ".", 3)
	major, err := strconv.Atoi(parts[0])
	if err != nil || len(parts) < 2 {
		return true, false
	}
	minor, _ := strconv.Atoi(parts[1])
	return major < 4 || major == 4 && minor < 3, major >= 4
}

// limit is the delivery limit of a quorum queue, 0 if there is none.
func (l *listed) limit(always bool) int {
	if l.Type != "quorum" {
		return 0
	}
	least := math.MaxInt
	for _, v := range []any{l.Arguments["x-delivery-limit"], l.Policy["delivery-limit"]} {
		switch n := v.(type) {
		case float64: // of JSON
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

// client is one for a few questions.
func (d *directory) client() *http.Client {
	return httpx.Direct(httpx.Network(d.tls.Clone()), httpx.MostAnswer) // nil is the default
}
