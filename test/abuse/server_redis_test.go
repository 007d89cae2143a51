package abuse

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/internal/testing/redistest"
	"github.com/flowd-io/flowd/test/flowdtest"
	goredis "github.com/redis/go-redis/v9"
)

// redisBreaks are replies that violate the protocol, or harm a client that trusts them.
func redisBreaks(word string) []serverAttack {
	return []serverAttack{
		onRequestSend(word, "a string of a negative length", "$-9223372036854775808\r\n"),
		onRequestSend(word, "half a reply", "*2\r\n$5\r\nab"),
		onRequestSend(word, "attributes of RESP3", "|2147483647\r\n"),
		onRequestFlood(word, "endless nested lists", "", "*1\r\n"),
		onRequestFlood(word, "an endless line", "+", "x"),
		onRequestFlood(word, "an endless error", "-", "x"),
	}
}

// redisSizes are replies that exceed the limit for a reply.
func redisSizes(word string) []serverAttack {
	return []serverAttack{
		onRequestSend(word, "a list of 2,147,483,647 elements", "*2147483647\r\n"),
		onRequestSend(word, "a map of RESP3", "%2147483647\r\n"),
		onRequestSend(word, "a list that needs 64 MiB", "*4194304\r\n"),
		onRequestSend(word, "a string of 9,223,372,036,854,775,807 bytes", "$9223372036854775807\r\n"),
		onRequestFlood(word, "an endless string", "$9000000000\r\n", "x"),
	}
}

// redisLies are valid replies that don't fit a read. They are not used for writes: a client can't detect a false success.
func redisLies(word string) []serverAttack {
	return []serverAttack{
		onRequestSend(word, "an error with an escape sequence", "-\x1b]0;x\x07 \r\n"),
		onRequestSend(word, "a reply to another command", "+1\r\n"),
		onRequestSend(word, "nil", "*-1\r\n"),
		onRequestSend(word, "lists with a wrong structure", "*1\r\n*2\r\n*0\r\n*1\r\n*1\r\n:3\r\n"),
		onRequestFlood(word, "endless replies", "", "+OK\r\n"),
	}
}

func redisStream(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	survivesAttacks(t, client{
		config: `
inputs: {in: {redis_stream: {url: redis://ADDR, key: ` + key + `, group: g, timeout: 1s}}}
outputs: {out: {stdout: {}}}
`,
		good: hostOf(redistest.URL(t)),
		send: func(p *flowdtest.Process, id string) {
			if err := c.XAdd(t.Context(), &goredis.XAddArgs{Stream: key, Values: []string{"payload", id}}).Err(); err != nil {
				t.Fatal(err)
			}
		},
		arrives: waitForLine,
	}, slices.Concat(genericAttacks(), redisBreaks("xreadgroup"), redisSizes("xreadgroup"), redisLies("xreadgroup"))...)
}

func redisList(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	survivesAttacks(t, client{
		config: `
inputs: {in: {redis_list: {url: redis://ADDR, key: ` + key + `, consumer: me, timeout: 1s}}}
outputs: {out: {redis_list: {url: redis://ADDR, key: ` + key + `-out, timeout: 1s}, ` + retryWrites + `}}
`,
		good: hostOf(redistest.URL(t)),
		send: func(p *flowdtest.Process, id string) {
			if err := c.LPush(t.Context(), key, id).Err(); err != nil {
				t.Fatal(err)
			}
		},
		arrives: func(p *flowdtest.Process, id string) {
			waitFor(p, id, func() bool {
				got, err := c.LPop(t.Context(), key+"-out").Result()
				return err == nil && got == id
			})
		},
	}, slices.Concat(genericAttacks(), redisBreaks("lmove"), redisSizes("lmove"), redisLies("lmove"),
		redisBreaks("rpush"), redisSizes("rpush"))...)
}

func redisPubSub(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	survivesAttacks(t, client{
		config: `
inputs: {in: {redis_pubsub: {url: redis://ADDR, channels: [` + key + `], timeout: 1s}}}
outputs: {out: {stdout: {}}}
`,
		good: hostOf(redistest.URL(t)),
		send: func(*flowdtest.Process, string) {}, // a message is lost unless flowd is subscribed: see arrives
		arrives: func(p *flowdtest.Process, id string) {
			done := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for { // publishes again and again, since messages are lost while flowd reconnects
					c.Publish(t.Context(), key, id)
					select {
					case <-done:
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
			})
			defer wg.Wait()
			defer close(done)
			waitForLine(p, id)
		},
	}, slices.Concat(genericAttacks(), redisBreaks("subscribe"), redisSizes("subscribe"), redisLies("subscribe"), []serverAttack{
		afterResponse("subscribe", "an empty message", "*0\r\n"),
		afterResponse("subscribe", "a message that is a number", "*1\r\n:1\r\n"),
		afterResponse("subscribe", "a message whose parts are numbers", "*3\r\n$7\r\nmessage\r\n:1\r\n:1\r\n"),
		afterResponse("subscribe", "a truncated message", "*1\r\n$8\r\npmessage\r\n"),
	})...)
}

func redisStep(t *testing.T) {
	key := redistest.Key(t)
	survivesAttacks(t, client{
		config: `
inputs: {in: {stdin: {}}}
resources: {caches: {c: {redis: {url: redis://ADDR, prefix: "` + key + `", timeout: 1s}}}}
processors:
  - {redis: {url: redis://ADDR, timeout: 1s, command: SETRANGE, args: ['"` + key + `" + string(this)', '"0"', '"x"'], reply: none}, ` +
			retryForever + `}
  - {cache: {set: c, key: 'string(this)', value: '"1"'}, ` + retryForever + `}
outputs: {out: {stdout: {}}}
`,
		good:    hostOf(redistest.URL(t)),
		send:    func(p *flowdtest.Process, id string) { p.Send(fmt.Sprintf("%q\n", id)) },
		arrives: func(p *flowdtest.Process, id string) { waitForLine(p, fmt.Sprintf("%q", id)) },
	}, slices.Concat(genericAttacks(), redisBreaks("setrange"), redisBreaks("set\r\n"), redisSizes("set\r\n"))...)
}

// hostOf returns HOST:PORT of a URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "/")
	return rest[strings.LastIndexByte(rest, '@')+1:]
}

// waitForLine reads stdout until the process writes line.
func waitForLine(p *flowdtest.Process, line string) {
	p.T.Helper()
	for p.Line() != line { // earlier messages may be redelivered
	}
}
