package schema_test

import (
	"fmt"
	"time"

	"github.com/flowd-io/flowd/schema"
)

func Example() {
	type Config struct {
		Queue    string        `yaml:"queue,main" check:"required" doc:"Queue to consume."`
		Prefetch int           `yaml:"prefetch" check:"min=1" doc:"Unacknowledged messages at once."`
		Wait     time.Duration `yaml:"wait" doc:"Time to wait for one."`
		Password schema.Secret `yaml:"password" doc:"Password of the user."`
	}
	config := schema.Of(Config{Prefetch: 256, Wait: 20 * time.Second})

	n, err := schema.ParseJSON(`{"prefetchs": 0, "wait": 5, "password": "${NONE_SUCH}"}`)
	if err != nil {
		fmt.Println(err)
		return
	}
	d := schema.NewDecoder(nil)
	config.Decode(d, n)
	for _, p := range d.Problems() {
		fmt.Println(p.Render())
	}
	for _, f := range config.Fields() {
		fmt.Printf("%s: %s. %s\n", f.Path, f.Type, f.Doc)
	}
	// Output:
	// 1:26: wait: "5" is a duration without a unit (write 5s or 5ms) [bad-value]
	// 1:42: password: ${NONE_SUCH} is not set (set it, or give a default: ${NONE_SUCH:-…}) [unresolved-placeholder]
	//     {"prefetchs": 0, "wait": 5, "password": "${NONE_SUCH}"}
	//                                              ^
	// 1:2: unknown field "prefetchs" (did you mean "prefetch"?) [unknown-field]
	// 1:1: queue: required (add `queue: …`) [required]
	// queue: text. Queue to consume.
	// prefetch: whole number. Unacknowledged messages at once.
	// wait: duration. Time to wait for one.
	// password: secret. Password of the user.
}
