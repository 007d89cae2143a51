package amqp

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/systems/queue"
)

// List asks the management interface, since AMQP can't list queues. If the interface does not answer, List uses AMQP for a single
// queue. AMQP does not report messages in flight.
func (s *server) List(ctx context.Context, pattern string) ([]queue.Info, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is not a valid pattern: %w", pattern, err)
	}
	literal := pattern != "" && !strings.ContainsAny(pattern, `*?[\`)
	limit := dialTimeout
	if literal {
		limit = 2 * time.Second // AMQP can answer instead
	}
	asked, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d := directory{uri: s.uri, management: s.management}
	all, err := d.list(asked, "name,type,messages_ready,messages_unacknowledged,arguments,effective_policy_definition")
	switch {
	case err != nil && literal:
		q, err := s.inspect(ctx, pattern)
		if err != nil {
			return nil, err
		}
		return []queue.Info{{Name: pattern, Ready: int64(q.Messages), InFlight: -1}}, nil
	case err != nil:
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var infos []queue.Info
	for i := range all {
		if ok, _ := path.Match(pattern, all[i].Name); ok || pattern == "" {
			infos = append(infos, all[i].info())
		}
	}
	slices.SortFunc(infos, func(a, b queue.Info) int { return cmp.Compare(a.Name, b.Name) })
	if len(infos) <= mostInspected {
		s.recount(ctx, infos)
	}
	return infos, nil
}

// recount gets the number of ready messages by AMQP. The management interface reports counts that are some seconds old, and none
// of new queues.
func (s *server) recount(ctx context.Context, infos []queue.Info) {
	for i := range infos {
		q, err := s.inspect(ctx, infos[i].Name)
		if err != nil { // the queue was deleted, or is exclusive to another connection
			continue
		}
		infos[i].Ready = int64(q.Messages)
	}
}

func (l *listed) info() queue.Info {
	return queue.Info{Name: l.Name, Kind: l.Type, Ready: known(l.Ready), InFlight: known(l.Unacked),
		DeadLetters: l.deadLetters()}
}

// known returns a count, or -1 if it is unknown.
func known(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// deadLetters returns the queue that gets the dead letters of a queue through the default exchange. It returns "" if another
// exchange routes them, since the bindings of that exchange are unknown.
func (l *listed) deadLetters() string {
	get := func(name string) (string, bool) {
		if v, ok := l.Arguments["x-"+name].(string); ok {
			return v, true
		}
		v, ok := l.Policy[name].(string)
		return v, ok
	}
	if exchange, ok := get("dead-letter-exchange"); !ok || exchange != "" {
		return ""
	}
	key, _ := get("dead-letter-routing-key")
	return key
}

// mostInspected limits the queues that are inspected one by one.
const mostInspected = 100
