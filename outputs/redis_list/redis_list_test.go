package redislist

import (
	"fmt"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/redistest"
)

func TestOutput(t *testing.T) {
	key := redistest.Key(t)
	enginetest.Output(t, func(t *testing.T) engine.Output {
		return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"redis_list": {"url": %q, "key": %q}}`, redistest.URL(t), key))
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
				return enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"redis_list": {"url": %q, "key": %q}}`, wire.Over(url), key))
			}
		},
		Arrived:  func(t *testing.T) []string { return redistest.Client(t, url).LRange(t.Context(), key, 0, -1).Val() },
		Payloads: []string{"1", "2", "3", "4", "5"},
		Greets:   true,
	}.Run(t)
}

func TestSidesAndErrors(t *testing.T) {
	key, c := redistest.Key(t), redistest.Client(t, redistest.URL(t))
	c.Set(t.Context(), key+"text", "x", 0)
	for side, want := range map[string]string{"left": "[b a]", "right": "[a b]"} {
		o := enginetest.New(t, engine.Outputs,
			fmt.Sprintf(`{"redis_list": {"url": %q, "key": "%s$(this)", "side": %q}}`, redistest.URL(t), key+side, side))
		if err := o.(engine.Opener).Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer o.(engine.Closer).Close(t.Context())
		c.Set(t.Context(), key+side+"2", "x", 0)
		fates, err := enginetest.Written(t, o, `1`, `2`, `1`, `""`)
		if fmt.Sprint(fates) != "[safe failed safe safe]" || err != nil {
			t.Errorf("%s: fates %v, %v", side, fates, err)
		}
		c.Del(t.Context(), key+"order")
		ordered := enginetest.New(t, engine.Outputs,
			fmt.Sprintf(`{"redis_list": {"url": %q, "key": %q, "side": %q}}`, redistest.URL(t), key+"order", side))
		if err := ordered.(engine.Opener).Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer ordered.(engine.Closer).Close(t.Context())
		if _, err := enginetest.Written(t, ordered, "a", "b"); err != nil {
			t.Error(err)
		}
		if got := fmt.Sprint(c.LRange(t.Context(), key+"order", 0, -1).Val()); got != want {
			t.Errorf("%s: got %s, want %s", side, got, want)
		}
	}
}

func TestPayloadsOfAllKinds(t *testing.T) {
	key := redistest.Key(t)
	o := enginetest.New(t, engine.Outputs, fmt.Sprintf(`{"redis_list": {"url": %q, "key": %q}}`, redistest.URL(t), key))
	enginetest.Carries(t, o, func(t *testing.T, _ int) (all [][]byte) {
		for _, text := range redistest.Client(t, redistest.URL(t)).LRange(t.Context(), key, 0, -1).Val() {
			all = append(all, []byte(text))
		}
		return all
	})
}
