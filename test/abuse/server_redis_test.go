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

// redisBreaks are answers that break the protocol, or a client that believes them.
func redisBreaks(word string) []ill {
	return []ill{
		uponSays(word, "a text of a negative length", "$-9223372036854775808\r\n"),
		uponSays(word, "half an answer", "*2\r\n$5\r\nab"),
		uponSays(word, "attributes of version 3", "|2147483647\r\n"),
		uponFloods(word, "lists in lists", "", "*1\r\n"),
		uponFloods(word, "a line without end", "+", "x"),
		uponFloods(word, "an error without end", "-", "x"),
	}
}

// redisSizes are answers that are larger than an answer may be.
func redisSizes(word string) []ill {
	return []ill{
		uponSays(word, "a list of 2,147,483,647", "*2147483647\r\n"),
		uponSays(word, "a map of version 3", "%2147483647\r\n"),
		uponSays(word, "a list that needs 64 MiB", "*4194304\r\n"),
		uponSays(word, "a text of 9,223,372,036,854,775,807 bytes", "$9223372036854775807\r\n"),
		uponFloods(word, "a text without end", "$9000000000\r\n", "x"),
	}
}

// redisLies are answers to a question that are none to it. To a write they would be a lie that nobody can see through.
func redisLies(word string) []ill {
	return []ill{
		uponSays(word, "an error with commands to a terminal", "-\x1b]0;x\x07 \r\n"),
		uponSays(word, "an answer to something else", "+1\r\n"),
		uponSays(word, "nil", "*-1\r\n"),
		uponSays(word, "lists of the wrong shape", "*1\r\n*2\r\n*0\r\n*1\r\n*1\r\n:3\r\n"),
		uponFloods(word, "answers without end", "", "+OK\r\n"),
	}
}

func redisStream(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	survives(t, uses{
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
		arrives: prints,
	}, slices.Concat(anything(), redisBreaks("xreadgroup"), redisSizes("xreadgroup"), redisLies("xreadgroup"))...)
}

func redisList(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	survives(t, uses{
		config: `
inputs: {in: {redis_list: {url: redis://ADDR, key: ` + key + `, consumer: me, timeout: 1s}}}
outputs: {out: {redis_list: {url: redis://ADDR, key: ` + key + `-out, timeout: 1s}, ` + writes + `}}
`,
		good: hostOf(redistest.URL(t)),
		send: func(p *flowdtest.Process, id string) {
			if err := c.LPush(t.Context(), key, id).Err(); err != nil {
				t.Fatal(err)
			}
		},
		arrives: func(p *flowdtest.Process, id string) {
			until(p, id, func() bool {
				got, err := c.LPop(t.Context(), key+"-out").Result()
				return err == nil && got == id
			})
		},
	}, slices.Concat(anything(), redisBreaks("lmove"), redisSizes("lmove"), redisLies("lmove"),
		redisBreaks("rpush"), redisSizes("rpush"))...)
}

func redisPubSub(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	survives(t, uses{
		config: `
inputs: {in: {redis_pubsub: {url: redis://ADDR, channels: [` + key + `], timeout: 1s}}}
outputs: {out: {stdout: {}}}
`,
		good: hostOf(redistest.URL(t)),
		send: func(*flowdtest.Process, string) {}, // what is published while nobody listens is gone
		arrives: func(p *flowdtest.Process, id string) {
			done := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for { // what is published while nobody listens is lost, and so is what a lost connection was sent
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
			prints(p, id)
		},
	}, slices.Concat(anything(), redisBreaks("subscribe"), redisSizes("subscribe"), redisLies("subscribe"), []ill{
		after("subscribe", "a message of nothing", "*0\r\n"),
		after("subscribe", "a message that is a number", "*1\r\n:1\r\n"),
		after("subscribe", "a message whose parts are numbers", "*3\r\n$7\r\nmessage\r\n:1\r\n:1\r\n"),
		after("subscribe", "a message that lacks its end", "*1\r\n$8\r\npmessage\r\n"),
	})...)
}

func redisStep(t *testing.T) {
	key := redistest.Key(t)
	survives(t, uses{
		config: `
inputs: {in: {stdin: {}}}
resources: {caches: {c: {redis: {url: redis://ADDR, prefix: "` + key + `", timeout: 1s}}}}
processors:
  - {redis: {url: redis://ADDR, timeout: 1s, command: SETRANGE, args: ['"` + key + `" + string(this)', '"0"', '"x"'], reply: none}, ` +
			tryAgain + `}
  - {cache: {set: c, key: 'string(this)', value: '"1"'}, ` + tryAgain + `}
outputs: {out: {stdout: {}}}
`,
		good:    hostOf(redistest.URL(t)),
		send:    func(p *flowdtest.Process, id string) { p.Send(fmt.Sprintf("%q\n", id)) },
		arrives: func(p *flowdtest.Process, id string) { prints(p, fmt.Sprintf("%q", id)) },
	}, slices.Concat(anything(), redisBreaks("setrange"), redisBreaks("set\r\n"), redisSizes("set\r\n"))...)
}

// hostOf is HOST:PORT of a URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "/")
	return rest[strings.LastIndexByte(rest, '@')+1:]
}

// prints waits until the process writes a line to stdout.
func prints(p *flowdtest.Process, line string) {
	p.T.Helper()
	for p.Line() != line { // others come again
	}
}
