package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsRows use a server in a separate process, over TCP, with streams in memory. A run ends when the consumer has
// acknowledged all messages.
var natsRows = []row{{
	name: "nats", does: "stream → stream, confirmed and acknowledged", data: orders, fixed: 200_000, run: runNATS,
	needs: natsStreams,
	contestants: []contestant{
		{name: "flowd", command: "$flowd -c $conf/nats.flowd.yaml"},
		{name: "nats.go", command: "$self baseline nats-relay $server $from $consumer $to", limit: true},
	},
	goals: []goal{{than: "nats.go", atLeast: 0.85}},
}}

// jetStreams is a NATS server with JetStream in a separate process.
type jetStreams struct {
	process *exec.Cmd
	alive   io.Closer // its stdin: the process exits when this is closed, or when this program exits
	url     string
	conn    *nats.Conn
	js      jetstream.JetStream
	serial  int             // makes names of consumers and output streams unique
	filled  map[string]bool // streams that several runs read
}

// natsStreams starts the server, which runs until the world is closed.
func natsStreams(w *world) error {
	if w.nats != nil {
		return nil
	}
	s := &jetStreams{process: exec.Command(w.vars["self"], "baseline", "nats-server", filepath.Join(w.dir, "nats")),
		filled: map[string]bool{}}
	alive, err := s.process.StdinPipe()
	if err != nil {
		return err
	}
	s.alive = alive
	says, err := s.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return err
	}
	w.nats = s
	if s.url, err = bufio.NewReader(says).ReadString('\n'); err != nil {
		return fmt.Errorf("the server did not print its URL: %w", err)
	}
	s.url = strings.TrimSpace(s.url)
	if s.conn, err = nats.Connect(s.url); err != nil {
		return err
	}
	s.js, err = jetstream.New(s.conn, jetstream.WithPublishAsyncMaxPending(natsOut))
	return err
}

func (s *jetStreams) close() error {
	if s.conn != nil {
		s.conn.Close()
	}
	return errors.Join(s.alive.Close(), s.process.Wait())
}

// filledStream returns a stream with n messages. It fills the stream on the first call.
func (s *jetStreams) filledStream(ctx context.Context, d data, n int) (name string, err error) {
	name = fmt.Sprintf("%s-%d", d.name, n)
	if s.filled[name] {
		return name, nil
	}
	if _, err := s.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Storage: jetstream.MemoryStorage}); err != nil {
		return name, err
	}
	for i := range n {
		for {
			if _, err = s.js.PublishAsync(name, d.line(nil, i)); !errors.Is(err, jetstream.ErrTooManyStalledMsgs) {
				break
			}
		}
		if err != nil {
			return name, err
		}
	}
	select {
	case <-s.js.PublishAsyncComplete():
		s.filled[name] = true
		return name, nil
	case <-time.After(patience):
		return name, fmt.Errorf("stream %s did not confirm all messages within %v", name, patience)
	}
}

// runNATS is the runner of natsRows. It measures the time from the first acknowledgements that it sees to the last.
func runNATS(w *world, r *row, c *contestant, n int, all bool) (sample, error) {
	var none sample
	from, err := w.nats.filledStream(w.ctx, r.data, n)
	if err != nil {
		return none, err
	}
	w.nats.serial++
	to, group := fmt.Sprintf("to-%d", w.nats.serial), fmt.Sprintf("group-%d", w.nats.serial)
	out, err := w.nats.js.CreateStream(w.ctx, jetstream.StreamConfig{Name: to, Storage: jetstream.MemoryStorage})
	if err != nil {
		return none, err
	}
	defer w.nats.js.DeleteStream(w.ctx, to) //nolint:errcheck // the server is closed anyway
	consumer, err := w.nats.js.CreateConsumer(w.ctx, from, jetstream.ConsumerConfig{Durable: group,
		AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: natsOut})
	if err != nil {
		return none, err
	}
	defer w.nats.js.DeleteConsumer(w.ctx, from, group) //nolint:errcheck // the same
	p, err := w.start(c.command, map[string]string{"server": w.nats.url, "from": from, "to": to, "consumer": group,
		"conf": w.vars["conf"]}, nil, nil)
	if err != nil {
		return none, err
	}
	defer p.kill()
	first, had := p.began, 0
	err = p.waitUntil(func() bool {
		info, err := consumer.Info(w.ctx)
		if err != nil {
			return false
		}
		done := int(info.AckFloor.Consumer)
		if had == 0 && done > 0 && done < n/2 {
			first, had = time.Now(), done
		}
		return done >= n
	}, "does not acknowledge all messages")
	took := max(time.Since(first), time.Millisecond)
	if err != nil {
		return none, err
	}
	used, err := p.stop()
	if err != nil {
		return none, err
	}
	return used.sample(r.data, n, took*time.Duration(n)/time.Duration(n-had)), checkStream(w.ctx, out, r, n, all)
}

// checkStream checks that a stream has n messages, without duplicates. It compares every message if all is set, otherwise
// a sample.
func checkStream(ctx context.Context, s jetstream.Stream, r *row, n int, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	if info.State.Msgs != uint64(n) {
		return fmt.Errorf("stream %s has %d messages, want %d", info.Config.Name, info.State.Msgs, n)
	}
	reader, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	stride := max(n/sampled, 1)
	if all {
		stride = 1
	}
	seen := make(ids, n)
	msgs, err := reader.Messages()
	if err != nil {
		return err
	}
	defer msgs.Stop()
	for i := range n {
		m, err := msgs.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("after %d messages: %w", i, err)
		}
		id, err := seen.mark(m.Data())
		if err != nil {
			return err
		}
		if i%stride == 0 && string(m.Data()) != string(r.data.line(nil, id)) {
			return fmt.Errorf("message %d is wrong: %q", id, m.Data())
		}
	}
	return nil
}
