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

// natsServer is a server with JetStream until stdin ends, so that what it costs is not counted as a contestant's. It
// says where it listens; args[0] is its folder.
func natsServer(args []string) error {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: args[0]})
	if err != nil {
		return err
	}
	go s.Start()
	if !s.ReadyForConnections(patience) {
		return fmt.Errorf("the server does not start within %v", patience)
	}
	defer s.Shutdown()
	fmt.Println("nats://" + s.Addr().String())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// republished is a message that was published again and is not confirmed.
type republished struct {
	jetstream.Msg
	sent jetstream.PubAckFuture
}

// natsRelay publishes what the consumer args[2] of the stream args[1] has to the subject args[3], and acknowledges what
// is confirmed. It reads on while it waits.
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
	natsOut   = 10_000 // messages that are not acknowledged
	usualPull = 1000   // of flowd, too
)
