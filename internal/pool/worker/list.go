package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/flowd-io/flowd/internal/pool/wire"
)

// quiet is how long List waits for further answers after the last one.
const quiet = 300 * time.Millisecond

// List asks the hubs of a cluster for their pools.
func List(ctx context.Context, to wire.Target) ([]wire.Pools, error) {
	nc, err := to.Connect("flowd pool ls", nats.RetryOnFailedConnect(false), nats.NoReconnect())
	if err != nil {
		return nil, refusal(&to, err)
	}
	defer nc.Close()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest(wire.ListOf(nc.ID), inbox, nil); err != nil {
		return nil, err
	}
	all := []wire.Pools{}
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if len(all) > 0 {
			wait, cancel = context.WithTimeout(ctx, quiet)
		}
		msg, err := sub.NextMsgWithContext(wait)
		cancel()
		switch {
		case err != nil && len(all) > 0 && ctx.Err() == nil:
			return all, nil
		case errors.Is(err, nats.ErrNoResponders), err == nil && msg.Header.Get("Status") == "503":
			return nil, fmt.Errorf("%s: no flowd there has pools", &to)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", &to, err)
		}
		var p wire.Pools
		if json.Unmarshal(msg.Data, &p) == nil {
			all = append(all, p)
		}
	}
}
