package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"syscall"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// amqpRelay moves messages from the queue args[1] to args[2] at the URL args[0], over two
// connections. It acknowledges confirmed messages, several at a time if it can.
func amqpRelay(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	url, in, out := args[0], args[1], args[2]
	from, source, err := channel(url)
	if err != nil {
		return err
	}
	defer from.Close()
	to, sink, err := channel(url)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := errors.Join(source.Qos(1000, 0, false), sink.Confirm(false)); err != nil {
		return err
	}
	deliveries, err := source.ConsumeWithContext(ctx, in, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	published := make(chan pending, 1000)
	acked := make(chan error, 1)
	go func() { acked <- acknowledge(source, published) }()
	err = publish(deliveries, sink, out, published)
	close(published)
	return errors.Join(err, <-acked)
}

// channel opens a channel on a new connection. The caller closes the connection.
func channel(url string) (*amqp091.Connection, *amqp091.Channel, error) {
	conn, err := amqp091.Dial(url)
	if err != nil {
		return nil, nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, ch, nil
}

type pending struct {
	confirm *amqp091.DeferredConfirmation
	tag     uint64
}

func publish(deliveries <-chan amqp091.Delivery, sink *amqp091.Channel, out string, published chan<- pending) error {
	for d := range deliveries {
		var m map[string]any
		if err := json.Unmarshal(d.Body, &m); err != nil {
			return err
		}
		m["severity"] = "critical"
		body, err := json.Marshal(m)
		if err != nil {
			return err
		}
		confirm, err := sink.PublishWithDeferredConfirm("", out, true, false,
			amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: body})
		if err != nil {
			return err
		}
		published <- pending{confirm, d.DeliveryTag}
	}
	return nil
}

func acknowledge(source *amqp091.Channel, published <-chan pending) error {
	n := 0
	for p := range published {
		if !p.confirm.Wait() {
			return errors.New("a message was not confirmed")
		}
		if n++; n >= 100 || len(published) == 0 {
			if err := source.Ack(p.tag, true); err != nil {
				return err
			}
			n = 0
		}
	}
	return nil
}
