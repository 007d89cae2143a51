package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"github.com/flowd-io/flowd/internal/testing/mqtttest"
)

var mqttRows = []row{
	{
		name: "mqtt", does: "topic → set → topic, QoS 1, version 5", data: padded, needs: mosquitto, cap: 20_000,
		run:         runMQTT,
		contestants: []contestant{inFlowd("mqtt"), theLimit("paho relay", "mqtt-relay $url $from $to $client")},
		goals:       []goal{{than: "paho relay", atLeast: 1}},
	},
}

// mosquitto starts a server, which runs until this process exits, or says why it can't.
func mosquitto(w *world) error {
	if w.mqtt != nil {
		return nil
	}
	var t skipRecorder
	done := make(chan struct{})
	go func() { // Skip ends this goroutine
		defer close(done)
		w.mqtt = mqtttest.Shared(&t)
	}()
	<-done
	if w.mqtt == nil {
		return errors.New(t.why)
	}
	return nil
}

// runMQTT is the runner of rows that move n messages from one topic to another. The messages are queued in a session before
// the contestant starts. It measures the time between the arrival of the first and of the last message.
func runMQTT(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	from, to, client := mqtttest.Name(), mqtttest.Name(), mqtttest.Name()
	if err := waitInSession(w, r.data, from, client, n); err != nil {
		return s, err
	}
	came := make(chan []byte, n)
	observer, err := mqttClient(w.ctx, w.mqtt.URL, "", func(_ *paho.Client, m *paho.Publish) { came <- m.Payload })
	if err != nil {
		return s, err
	}
	defer observer.Disconnect(&paho.Disconnect{}) //nolint:errcheck // the server may be gone
	if err := mqttSubscribe(w.ctx, observer, to); err != nil {
		return s, err
	}
	p, err := w.start(c.command, map[string]string{"url": w.mqtt.URL, "from": from, "to": to, "client": client}, nil, nil)
	if err != nil {
		return s, err
	}
	defer p.kill()
	var began time.Time
	all := make([][]byte, 0, n)
	for late := time.After(patience); len(all) < n; {
		select {
		case body := <-came:
			if len(all) == 0 {
				began = time.Now()
			}
			all = append(all, body)
		case <-p.ended:
			return s, fmt.Errorf("the process exited: %s", p.stderr.String())
		case <-late:
			return s, fmt.Errorf("%d of %d messages arrived: %s", len(all), n, p.stderr.String())
		}
	}
	took := max(time.Since(began), time.Millisecond)
	used, err := p.stop()
	if err != nil {
		return s, err
	}
	seen := make(ids, n)
	for _, body := range all {
		id, err := seen.mark(body)
		if err == nil {
			err = compareDocuments(body, r.data.line(nil, id), critical)
		}
		if err != nil {
			return s, err
		}
	}
	return used.sample(r.data, n, took), nil
}

// waitInSession publishes n messages to a topic, so that the server queues them in the session of a client.
func waitInSession(w *world, d data, topic, client string, n int) error {
	sleeper, err := mqttClient(w.ctx, w.mqtt.URL, client, nil)
	if err != nil {
		return err
	}
	if err := mqttSubscribe(w.ctx, sleeper, topic); err != nil {
		return err
	}
	if err := sleeper.Disconnect(&paho.Disconnect{}); err != nil {
		return err
	}
	sender, err := mqttClient(w.ctx, w.mqtt.URL, "", nil)
	if err != nil {
		return err
	}
	defer sender.Disconnect(&paho.Disconnect{}) //nolint:errcheck // the server may be gone
	const senders = 100
	errs := make([]error, senders)
	var sending sync.WaitGroup
	for k := range senders {
		sending.Go(func() {
			for i := k; i < n && errs[k] == nil; i += senders {
				_, errs[k] = sender.Publish(w.ctx, &paho.Publish{Topic: topic, QoS: 1, Payload: d.line(nil, i)})
			}
		})
	}
	sending.Wait()
	return errors.Join(errs...)
}
