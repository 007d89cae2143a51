package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaBroker runs a cluster until stdin ends, and prints the address of one broker. It is a separate process, so that its
// CPU time and memory don't count as a contestant's.
func kafkaBroker([]string) error {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		return err
	}
	defer cluster.Close()
	fmt.Println(cluster.ListenAddrs()[0])
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// polled is the maximum of records per poll.
const polled = 10_000

// kafkaDrop counts records and commits their offsets. args are a broker, a topic and a consumer group.
func kafkaDrop(args []string) error {
	return consume(args, func(ctx context.Context, client *kgo.Client) (n int, err error) {
		for {
			fetches := client.PollRecords(ctx, polled)
			if ctx.Err() != nil {
				return n, nil
			}
			if err := fetches.Err(); err != nil {
				return n, err
			}
			n += fetches.NumRecords()
			client.MarkCommitRecords(fetches.Records()...)
		}
	})
}

// unconfirmed are the records of a poll, and how many of them the brokers have not confirmed yet.
type unconfirmed struct {
	records []*kgo.Record
	left    sync.WaitGroup
}

// kafkaRelay copies each record to the topic args[3].
func kafkaRelay(args []string) error {
	return forward(args, func(r, to *kgo.Record) (bool, error) {
		to.Value = r.Value
		return true, nil
	})
}

// avroOrder is an order as the row kafka-avro reads it from Avro and writes it as JSON.
type avroOrder struct {
	ID       int64    `avro:"id" json:"id"`
	Customer customer `avro:"customer" json:"customer"`
	Path     string   `avro:"path" json:"path"`
	Tags     []string `avro:"tags" json:"tags"`
	Agent    string   `avro:"agent" json:"agent"`
	Trace    string   `avro:"trace" json:"trace"`
	Units    int      `avro:"-" json:"units"`
}

type customer struct {
	Number int    `avro:"number" json:"number"`
	Name   string `avro:"name" json:"name"`
	Plan   string `avro:"plan" json:"plan"`
}

// kafkaAvro decodes records with the Avro schema in the file args[4], filters them, and sends the rest as JSON to the topic
// args[3].
func kafkaAvro(args []string) error {
	text, err := os.ReadFile(args[4])
	if err != nil {
		return err
	}
	schema, err := avro.Parse(string(text))
	if err != nil {
		return err
	}
	var o avroOrder
	return forward(args, func(r, to *kgo.Record) (bool, error) {
		if _, err := schema.Decode(r.Value, &o); err != nil || o.Customer.Number%10 == 0 {
			return false, err
		}
		o.Units = len(o.Tags)
		var err error
		to.Value, err = json.Marshal(&o)
		return true, err
	})
}

// forward sends the records that edit keeps to the topic args[3], and commits the offsets of confirmed records. It reads
// on while records wait for confirmation.
func forward(args []string, edit func(r, to *kgo.Record) (keep bool, err error)) error {
	return consume(args, func(ctx context.Context, client *kgo.Client) (n int, err error) {
		sent, failed, marked := make(chan *unconfirmed, 4), make(chan error, 1), make(chan struct{})
		go func() {
			defer close(marked)
			for u := range sent {
				u.left.Wait()
				client.MarkCommitRecords(u.records...)
			}
		}()
		defer func() {
			close(sent)
			<-marked
		}()
		confirmed := func(u *unconfirmed) func(*kgo.Record, error) {
			return func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
				u.left.Done()
			}
		}
		for {
			fetches := client.PollRecords(ctx, polled)
			if ctx.Err() != nil {
				return n, nil
			}
			if err := fetches.Err(); err != nil {
				return n, err
			}
			u := &unconfirmed{records: fetches.Records()}
			u.left.Add(len(u.records))
			done, copies := confirmed(u), make([]kgo.Record, len(u.records))
			for i, r := range u.records {
				copies[i] = kgo.Record{Topic: args[3], Key: r.Key}
				if keep, err := edit(r, &copies[i]); err != nil {
					return n, err
				} else if !keep {
					u.left.Done()
					continue
				}
				client.Produce(context.Background(), &copies[i], done)
			}
			n += len(u.records)
			select {
			case sent <- u:
			case err := <-failed:
				return n, err
			}
		}
	})
}

// kafkaTransactions copies each record to the topic args[3], in transactions of 1,000 that also commit offsets.
func kafkaTransactions(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	session, err := kgo.NewGroupTransactSession(append(consuming(args), kgo.TransactionalID(args[2]))...)
	if err != nil {
		return err
	}
	defer session.Close()
	n := 0
	for ctx.Err() == nil {
		if err := session.Begin(); err != nil {
			return err
		}
		failed, had := kgo.AbortingFirstErrPromise(session.Client()), 0
		until, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		for had < 1000 && until.Err() == nil {
			records := session.PollRecords(until, 1000-had).Records()
			copies := make([]kgo.Record, len(records))
			for i, r := range records {
				copies[i] = kgo.Record{Topic: args[3], Key: r.Key, Value: r.Value}
				session.Produce(ctx, &copies[i], failed.Promise())
			}
			had += len(records)
		}
		stop()
		committed, err := session.End(context.Background(), failed.Err() == nil)
		if err != nil {
			return err
		}
		if committed {
			n += had
		}
	}
	fmt.Fprintln(os.Stderr, n)
	return nil
}

// consuming returns the options of a member of the consumer group args[2] that reads the topic args[1].
func consuming(args []string) []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(args[0]), kgo.ConsumeTopics(args[1]), kgo.ConsumerGroup(args[2]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(8 << 20), kgo.ProducerLinger(0)}
}

// consume runs work with a client in the consumer group until the process is interrupted, and prints the number that work
// returns. It commits marked records every 10 ms.
func consume(args []string, work func(context.Context, *kgo.Client) (int, error)) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	client, err := kgo.NewClient(append(consuming(args), kgo.AutoCommitMarks(), kgo.AutoCommitInterval(time.Minute),
		kgo.MaxBufferedRecords(8*polled))...)
	if err != nil {
		return err
	}
	defer client.Close()
	var commits sync.WaitGroup
	loop, end := context.WithCancel(context.Background())
	commits.Go(func() {
		for tick := time.NewTicker(committing); loop.Err() == nil; {
			select {
			case <-tick.C:
				client.CommitMarkedOffsets(loop)
			case <-loop.Done():
			}
		}
	})
	n, err := work(ctx, client)
	end()
	commits.Wait()
	fmt.Fprintln(os.Stderr, n)
	return err
}

// committing is how often contestants commit offsets. Rows measure progress by the commits.
const committing = 10 * time.Millisecond
