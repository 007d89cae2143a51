package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsServer runs a server with JetStream in the directory args[0] until stdin ends, and prints its URL. It is a separate
// process, so that its CPU time and memory don't count as a contestant's.
func natsServer(args []string) error {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: args[0]})
	if err != nil {
		return err
	}
	go s.Start()
	if !s.ReadyForConnections(patience) {
		return fmt.Errorf("the server did not start within %v", patience)
	}
	defer s.Shutdown()
	fmt.Println("nats://" + s.Addr().String())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// republished is a message whose copy has been published, but is not confirmed yet.
type republished struct {
	jetstream.Msg
	sent jetstream.PubAckFuture
}

// natsRelay copies messages of the consumer args[2] of the stream args[1] to the subject args[3], and acknowledges each
// when it is confirmed. It reads on while messages wait for confirmation.
func natsRelay(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(args[0])
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(natsOut))
	if err != nil {
		return err
	}
	consumer, err := js.Consumer(ctx, args[1], args[2])
	if err != nil {
		return err
	}
	all, err := consumer.Messages(jetstream.PullMaxMessages(usualPull))
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, all.Stop)()
	sent, failed := make(chan republished, natsOut), make(chan error, 1)
	go func() {
		defer close(failed)
		for r := range sent {
			select {
			case <-r.sent.Ok():
			case err := <-r.sent.Err():
				failed <- err
				return
			case <-time.After(patience):
				failed <- fmt.Errorf("not confirmed within %v", patience)
				return
			}
			if err := r.Ack(); err != nil {
				failed <- err
				return
			}
		}
	}()
	n := 0
	for ctx.Err() == nil {
		m, err := all.Next()
		if err != nil {
			break
		}
		future, err := js.PublishAsync(args[3], m.Data())
		if err != nil {
			return err
		}
		select {
		case sent <- republished{m, future}:
		case err := <-failed:
			return err
		}
		n++
	}
	close(sent)
	if err := <-failed; err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, n)
	return nc.Flush()
}

const (
	natsOut   = 10_000 // limit of unacknowledged messages
	usualPull = 1000   // messages per pull, as in flowd
)
