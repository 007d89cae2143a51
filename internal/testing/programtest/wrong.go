package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// wrongs are programs that answer batches, or send messages, and break the protocol in one way.
var wrongs = map[string]bool{
	"answers before it is ready": true, "is ready twice": true, "never answers": true, "answers twice": true, "answers partly": true,
	"answers for a stranger": true, "answers beyond the batch": true, "writes garbage": true, "lies about a size": true,
	"exceeds the limit": true, "invents a class": true, "rounds integers": true, "crashes at bad JSON": true, "needs known fields": true,
	"forgets canceled messages": true, "leaves at drain": true, "closes its pipe": true, "stays": true, "exits with 1": true,
	"stays for long": true, "ignores SIGTERM": true, "bequeaths its pipes": true, "changes what it writes": true,
	"gives up": true, "misspells results": true, "exceeds its credits": true, "sends after the end": true, "ignores drain": true,
	"ignores its position": true, "sends odd lengths": true,
}

// misbehave is a program that breaks the protocol. It answers a batch when nothing has arrived for a moment.
func (p *program) misbehave(name string, hello received) {
	switch name {
	case "answers before it is ready":
		p.send(`{"type": "results", "batch": 1, "results": [null]}`)
	case "ignores SIGTERM":
		signal.Ignore(syscall.SIGTERM)
	case "bequeaths its pipes":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), variable+"=sleeper")
		child.ExtraFiles = []*os.File{os.NewFile(3, ""), p.out}
		if err := child.Start(); err != nil {
			os.Exit(5)
		}
	}
	p.send(`{"type": "ready", "version": 1}`)
	if name == "is ready twice" {
		p.send(`{"type": "ready", "version": 1}`)
	}
	frames := make(chan received)
	go func() {
		for {
			f, err := p.next()
			if err != nil {
				break
			}
			frames <- f
		}
		switch name {
		case "stays", "never answers":
			time.Sleep(time.Hour)
		case "exits with 1":
			os.Exit(1)
		case "stays for long":
			time.Sleep(2200 * time.Millisecond)
		}
		os.Exit(0)
	}()
	var held []received
	sent := 0
	for {
		var idle <-chan time.Time
		if len(held) > 0 {
			idle = time.After(20 * time.Millisecond)
		}
		select {
		case f := <-frames:
			switch f.Type {
			case "batch":
				held = append(held, f)
			case "cancel":
				if name == "forgets canceled messages" && len(held) > 0 {
					held = held[1:]
				}
			case "credit":
				sent = p.misspend(name, hello, f.Messages, sent)
			case "drain":
				switch {
				case name == "leaves at drain":
					os.Exit(0)
				case hello.Kind == "input" && name != "ignores drain":
					p.send(`{"type": "end"}`)
				}
				if name == "sends after the end" {
					p.send(`{"type": "messages", "sizes": [1]}`, "x")
				}
			default:
				if name == "needs known fields" && f.Type != "fates" {
					fmt.Fprintf(os.Stderr, "KeyError: %q\n", f.Type)
					os.Exit(1)
				}
			}
		case <-idle:
			for _, b := range held {
				p.answerWrongly(name, hello, b)
			}
			held = nil
		}
	}
}

// answerWrongly answers a batch.
func (p *program) answerWrongly(name string, hello received, b received) {
	n := len(b.payloads)
	results := func(batch, first int, all ...string) {
		p.send(fmt.Sprintf(`{"type": "results", "batch": %d, "first": %d, "results": [%s]}`, batch, first, strings.Join(all, ", ")))
	}
	all := strings.Split(strings.Repeat("null ", n-1)+"null", " ")
	last := all[n-1:]
	switch name {
	case "never answers":
		return
	case "answers twice":
		results(b.Batch, 0, all[0])
	case "answers partly":
		if all = all[:n-1]; n == 1 {
			all = last
		}
	case "answers for a stranger":
		results(b.Batch+100, 0, "null")
	case "answers beyond the batch":
		all = append(all, "null")
	case "writes garbage":
		p.raw(12, 0, "not JSON at a")
	case "lies about a size":
		last[0] = "1000"
	case "changes what it writes":
		last[0] = `{"meta": {"a": 1}}`
	case "invents a class":
		last[0] = `{"error": {"text": "x", "class": "sunburn"}}`
	case "rounds integers":
		if b.Meta != nil {
			all[0] = `{"meta": {"exact": 9007199254740992}}`
		}
	case "crashes at bad JSON":
		for _, text := range b.payloads {
			if text == "{" {
				fmt.Fprintln(os.Stderr, "SyntaxError: unexpected end")
				os.Exit(1)
			}
		}
	case "gives up":
		p.send(`{"type": "error", "error": {"text": "the disk is full"}}`)
	case "closes its pipe":
		p.out.Close()
		return
	case "misspells results":
		p.send(fmt.Sprintf(`{"type": "result", "batch": %d, "results": [null]}`, b.Batch))
		return
	case "exceeds the limit":
		if text := strings.Join(b.payloads, ""); len(text) >= hello.Limits["body"] {
			sizes := make([]string, n)
			for i, payload := range b.payloads {
				sizes[i] = fmt.Sprint(len(payload))
			}
			sizes[n-1] = fmt.Sprint(len(b.payloads[n-1]) + 1)
			p.send(fmt.Sprintf(`{"type": "results", "batch": %d, "results": [%s]}`, b.Batch, strings.Join(sizes, ", ")), text, "!")
			return
		}
	}
	results(b.Batch, 0, all...)
}

// misspend sends messages, and returns the number of the last one.
func (p *program) misspend(name string, hello received, n, sent int) int {
	if sent == 0 && hello.Position != nil && name != "ignores its position" {
		sent = *hello.Position
	}
	if name == "exceeds its credits" {
		n++
	}
	for range n {
		sent++
		text := fmt.Sprint(sent)
		size := len(text)
		if name == "sends odd lengths" {
			size++
		}
		p.send(fmt.Sprintf(`{"type": "messages", "sizes": [%d], "positions": [%s]}`, size, text), text)
	}
	return sent
}
