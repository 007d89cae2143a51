package redisstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
	goredis "github.com/redis/go-redis/v9"
)

// opened returns an open output. It is closed when the test ends.
func opened(t testing.TB, url, key, more string) engine.Output {
	t.Helper()
	o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"redis_stream": {"url": %q, "key": %q%s}}`, url, key, more))
	if err := o.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.(engine.Closer).Close(context.Background()) })
	return o
}

// entries returns the values of a stream's entries.
func entries(t testing.TB, c *goredis.Client, key string) (all []string) {
	t.Helper()
	answer, err := c.Do(t.Context(), "xrange", key, "-", "+").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range answer {
		all = append(all, fmt.Sprint(x.([]any)[1]))
	}
	return all
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestOutput(t *testing.T) {
	key := redistest.Key(t)
	enginetest.Output(t, func(t *testing.T) engine.Output {
		return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"redis_stream": {"url": %q, "key": %q}}`, redistest.URL(t), key))
	}, `{"a":1}`, "text", `{"b":2}`)
}

func TestAServerThatIsAway(t *testing.T) {
	t.Parallel()
	url := redistest.URL(t)
	key := ""
	enginetest.Remote{
		Reach: func(t *testing.T, wire *enginetest.Wire) func() engine.Output {
			key = redistest.Key(t)
			return func() engine.Output {
				return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"redis_stream": {"url": %q, "key": %q}}`, wire.Over(url), key))
			}
		},
		Arrived: func(t *testing.T) (all []string) {
			for _, e := range redistest.Client(t, url).XRange(t.Context(), key, "-", "+").Val() {
				all = append(all, e.Values["payload"].(string))
			}
			return all
		},
		Payloads: []string{"1", "2", "3", "4", "5"},
		Greets:   true,
		Headers: func(t *testing.T) map[string]string {
			all := map[string]string{}
			for name, value := range redistest.Client(t, url).XRange(t.Context(), key, "-", "+").Val()[0].Values {
				all[name] = value.(string)
			}
			return all
		},
	}.Run(t)
}

// Metadata with the name of the payload's field does not replace the payload, and is not lost.
func TestMetadataNamedLikeThePayload(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	b := enginetest.Batch("p")
	for m := range b.All() {
		m.Meta = m.Meta.With("payload", "forged").With("field_id", "7")
	}
	if err := opened(t, redistest.URL(t), key, "").Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	equal(t, "entries", entries(t, c, key), `[[payload p field_payload forged id 7]]`)
}

func TestConfig(t *testing.T) {
	for component, want := range map[string]string{
		`{"url": "redis://h"}`:                                               "key",
		`{"url": "redis://h", "key": ""}`:                                    "is empty",
		`{"url": "redis://h", "key": "a", "fields": {"payload": "x"}}`:       "field with the payload",
		`{"url": "redis://h", "key": "a", "user": "u"}`:                      "has no password",
		`{"url": "redis://h/1", "key": "a", "db": 2}`:                        "the URL has the database",
		`{"cluster": "h", "key": "a", "db": 2}`:                              "only database 0",
		`{"url": "redis://h", "key": "a", "max_length": 2}`:                  "write `max_len`",
		`{"url": "redis://user:hunter22@h:70000", "key": "a", "max_len": 1}`: "host and port",
	} {
		said := strings.Join(enginetest.Problems(t, engine.Outputs, `{"redis_stream": `+component+`}`), "\n")
		if !strings.Contains(said, want) || strings.Contains(said, "hunter22") {
			t.Errorf("%s: got %q, want %q in it", component, said, want)
		}
	}
}

func TestFields(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	o := opened(t, redistest.URL(t), key, `, "field": "body", "fields": {"kind": "$(kind)", "colour": "blue"}`)
	b := enginetest.Batch(`{"kind":"a"}`, `{}`)
	for m := range b.All() {
		m.Meta = m.Meta.With("stream", "mine").Own().With("colour", "red").With("tags", []any{"x", 1}).With("n", 1.5)
	}
	if err := o.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	equal(t, "entries", entries(t, c, key), `[[body {"kind":"a"} tags x tags 1 n 1.5 kind a colour blue]]`)
	for m := range b.Ended() {
		if m.Err() != nil && m.Err().Class != engine.Expression {
			t.Errorf("a field that is nil: %v", m.Err())
		}
	}
	whole := opened(t, redistest.URL(t), key+"w", `, "field": ""`)
	fates, err := enginetest.Written(t, whole, `{"b":"text","a":1,"c":[1,{"d":null}]}`, `[1]`, `{}`, "no document")
	equal(t, "fates", fates, "[safe failed failed failed]")
	equal(t, "entries", entries(t, c, key+"w"), `[[a 1 b text c [1,{"d":null}]]]`)
	if err != nil {
		t.Error(err)
	}
}

// If the entry already exists because the answer to an earlier attempt was lost, the message is delivered. Another message with
// that id is refused.
func TestIDsMakeWritesAgainHarmless(t *testing.T) {
	key, c := strconv.Itoa(os.Getpid()), redistest.Client(t, redistest.URL(t)) // a number, like the ids
	t.Cleanup(func() { c.Del(context.Background(), key) })
	o := opened(t, redistest.URL(t), key, `, "id": "$(id)-0"`)
	for range 2 {
		fates, err := enginetest.Written(t, o, `{"id":1}`, `{"id":2}`)
		if equal(t, "fates", fates, "[safe safe]"); err != nil {
			t.Error(err)
		}
	}
	fates, err := enginetest.Written(t, o, `{"id":1,"other":true}`, `{"id":"x"}`, `{"id":3}`)
	if equal(t, "fates", fates, "[failed failed safe]"); err != nil {
		t.Error(err)
	}
	equal(t, "length", c.XLen(t.Context(), key).Val(), 3)
}

func TestMaxLenAndCreate(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	o := opened(t, redistest.URL(t), key, `, "create": false, "max_len": 10`)
	fates, err := enginetest.Written(t, o, "a")
	if equal(t, "fates without a stream", fates, "[failed]"); err != nil {
		t.Error(err)
	}
	c.XGroupCreateMkStream(t.Context(), key, "g", "0")
	var many []string
	for range 1000 {
		many = append(many, "x")
	}
	if _, err := enginetest.Written(t, o, many...); err != nil {
		t.Error(err)
	}
	if n := c.XLen(t.Context(), key).Val(); n < 10 || n > 500 {
		t.Errorf("%d entries are kept, want about 10", n)
	}
}

// failed returns the class of the error of a write, and whether it holds the output.
func failed(t testing.TB, o engine.Output, payload string) (class engine.Class, holds bool, text string) {
	t.Helper()
	b := enginetest.Batch(payload)
	err := o.Write(t.Context(), b)
	for m := range b.Ended() {
		if m.Err() != nil {
			err = m.Err()
		}
	}
	if err == nil {
		return "", false, ""
	}
	e := engine.ErrorOf(err, engine.Transient)
	return e.Class, e.Holds, err.Error()
}

// eventually waits until a write has failed as expected: the first one may use an old connection.
func eventually(t testing.TB, o engine.Output, payload string, class engine.Class, holds bool, says string) {
	t.Helper()
	redistest.Until(t, func() error {
		if c, h, text := failed(t, o, payload); c != class || h != holds || !strings.Contains(text, says) {
			return fmt.Errorf("class %q, holds %v: %s", c, h, text)
		}
		return nil
	})
}

func do(t testing.TB, c *goredis.Client, args ...any) {
	t.Helper()
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

func TestErrorsHaveTheirClass(t *testing.T) {
	r := redistest.Own(t, "--maxmemory-policy", "noeviction")
	c := redistest.Client(t, r.URL())
	ctx := t.Context()
	c.Set(ctx, "text", "x", 0)
	o := opened(t, r.URL(), "s-$(to)", "")
	c.Set(ctx, "s-text", "x", 0)
	fates, err := enginetest.Written(t, o, `{"to":"a"}`, `{"to":"text"}`, `{"to":"b"}`)
	if equal(t, "fates", fates, "[safe failed safe]"); err != nil {
		t.Error(err)
	}
	eventually(t, o, `{"to":"text"}`, engine.Permanent, false, "another type")

	c.ConfigSet(ctx, "maxmemory", "1")
	eventually(t, o, `{"to":"a"}`, engine.Transient, true, "maxmemory")
	c.ConfigSet(ctx, "maxmemory", "0")

	do(t, c, "acl", "setuser", "app", "on", ">one", "~s-a", "&*", "+@all")
	app := opened(t, r.URL(), "s-$(to)", `, "user": "app", "password": "one"`)
	eventually(t, app, `{"to":"b"}`, engine.Rejected, false, "NOPERM")
	one := opened(t, r.URL(), "s-b", `, "user": "app", "password": "one"`)
	eventually(t, one, `{}`, engine.Auth, true, "ACL SETUSER")
	do(t, c, "acl", "setuser", "app", "resetpass", ">two") // Redis keeps flowd's connections
	do(t, c, "client", "kill", "user", "app")
	eventually(t, app, `{"to":"a"}`, engine.Auth, true, "user and password")
	do(t, c, "acl", "setuser", "app", ">one")
	eventually(t, app, `{"to":"a"}`, "", false, "")
	do(t, c, "acl", "setuser", "app", "-xadd")
	eventually(t, app, `{"to":"a"}`, engine.Auth, true, "NOPERM")

	_, port, _ := net.SplitHostPort(r.Address)
	do(t, c, "replicaof", "127.0.0.1", port)
	eventually(t, o, `{"to":"a"}`, engine.Transient, true, "replica")
	do(t, c, "replicaof", "no", "one")
	eventually(t, o, `{"to":"a"}`, "", false, "")
	r.Stop()
	eventually(t, o, `{"to":"a"}`, engine.Transient, true, "refused")
	if err := o.(engine.Prober).Probe(ctx); err == nil {
		t.Error("a server that is gone can be probed")
	}
	r.Start(t)
	eventually(t, o, `{"to":"a"}`, "", false, "")
	if err := o.(engine.Prober).Probe(ctx); err != nil {
		t.Error(err)
	}
}

func TestWrongCredentialsAreReportedAtOnce(t *testing.T) {
	r := redistest.Own(t, "--requirepass", "secret")
	for more, want := range map[string]string{`, "password": "wrong"`: "user and password", ``: "requires a login"} {
		o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"redis_stream": {"url": %q, "key": "a"%s}}`, r.URL(), more))
		err := o.(engine.Opener).Open(t.Context())
		e, ok := errors.AsType[*engine.Error](err)
		if !ok || e.Class != engine.Auth || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", more, err)
		}
		_ = o.(engine.Closer).Close(t.Context())
	}
	u := strings.Replace(r.URL(), "redis://", "redis://default:secret@", 1)
	if fates, err := enginetest.Written(t, opened(t, u, "a", ""), "x"); err != nil || fates[0] != "safe" {
		t.Errorf("%v, %v", fates, err)
	}
}

func TestPayloadsOfAllKinds(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	for _, tt := range []struct{ key, more string }{{key, ""}, {key + "members", `, "field": ""`}} {
		o := enginetest.New(t, engine.Outputs,
			fmt.Sprintf(`{"redis_stream": {"url": %q, "key": %q%s}}`, redistest.URL(t), tt.key, tt.more))
		enginetest.Carries(t, o, func(t *testing.T, _ int) (all [][]byte) {
			for _, m := range c.XRange(t.Context(), tt.key, "-", "+").Val() {
				text, ok := m.Values["payload"].(string)
				if all = append(all, []byte(text)); !ok {
					all[len(all)-1] = nil
				}
			}
			return all
		})
	}
}
