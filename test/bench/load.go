package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// request calls ask for n HTTP requests, over conns connections, and returns the latency of
// each. With a load it is an open loop: each request is due at a fixed instant, whether or
// not others have been answered, and its latency counts from that instant. So a server that
// stalls can't hide it.
func (c *contestant) request(address string, n, conns int, ask func(cl *client, i int) error) (
	all []time.Duration, took time.Duration, err error) {
	all = make([]time.Duration, n)
	errs := make([]error, conns)
	var next atomic.Int64
	var workers sync.WaitGroup
	began := time.Now()
	for k := range conns {
		workers.Go(func() {
			cl, err := dial(address)
			if err != nil {
				errs[k] = err
				return
			}
			defer cl.conn.Close()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				due := time.Now()
				if c.load > 0 {
					due = c.due(began, i)
					time.Sleep(time.Until(due))
				}
				if err := ask(cl, i); err != nil {
					errs[k] = err
					next.Store(int64(n)) // the others need not continue
					return
				}
				all[i] = time.Since(due)
			}
		})
	}
	workers.Wait()
	return all, time.Since(began), errors.Join(errs...)
}

// client is a connection to an HTTP/1.1 server. It does as little as possible, since it
// shares the CPU with the server that is measured.
type client struct {
	conn     net.Conn
	answers  *bufio.Reader
	request  []byte
	body     []byte
	received []byte
}

func dial(address string) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, answers: bufio.NewReaderSize(conn, 16<<10)}, nil
}

// post sends body and returns the body of the response, which is valid until the next call.
func (c *client) post(body []byte) ([]byte, error) {
	c.request = append(c.request[:0],
		"POST /events HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: "...)
	c.request = strconv.AppendInt(c.request, int64(len(body)), 10)
	c.request = append(c.request, "\r\n\r\n"...)
	c.request = append(c.request, body...)
	if err := c.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return nil, err
	}
	return c.answer()
}

var length = []byte("content-length:")

func (c *client) answer() ([]byte, error) {
	status, err := c.answers.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(status) < 12 || status[9] != '2' {
		return nil, fmt.Errorf("the server answered %q", status)
	}
	n := -1
	for {
		line, err := c.answers.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if len(line) <= 2 {
			break
		}
		if len(line) > len(length) && bytes.EqualFold(line[:len(length)], length) {
			if n, err = strconv.Atoi(string(bytes.TrimSpace(line[len(length):]))); err != nil {
				return nil, err
			}
		}
	}
	if n < 0 {
		return nil, errors.New("the response has no Content-Length")
	}
	c.received = slices.Grow(c.received[:0], n)[:n]
	_, err = io.ReadFull(c.answers, c.received)
	return c.received, err
}
