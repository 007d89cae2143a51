package engine

import (
	"github.com/flowd-io/flowd/schema"
)

// Orderly is an optional ability of an Input whose source, or an Output whose sink,
// keeps an order: OrderBy is what to write as `order_by` so that it is kept in
// between, "" where this one keeps none. Lint warns where a pipeline has no order.
type Orderly interface{ OrderBy() string }

// Sized is an optional ability of a Batcher's configuration: Wants is how many messages
// a batch is to have; 0 is any number.
type Sized interface{ Wants() int }

// Bounded is an optional ability of an Input's configuration: Unsettled is how many
// messages its source gives before the first of them are settled. Without it, or with
// math.MaxInt, there is no such bound.
type Bounded interface{ Unsettled() int }

// Counted is an optional ability of an Input's configuration whose source counts how
// often it gives out a message, also what comes back unread, up to a limit (0: none);
// most is how many a stop may hand back, 0 where the input sees to that itself.
type Counted interface{ HandsBack() (limit, most int) }

// Exposed is an optional ability of an Input's configuration: true says that anybody on
// the network may send it messages, without showing who they are.
type Exposed interface{ Exposed() bool }

func init() {
	schema.AddCode("order-lost", "A source or sink keeps an order that the pipeline does not.")
	schema.AddCode("delivery-limit", "More is read ahead than a source with a limit of deliveries can take back.")
	schema.AddCode("long-interval", "An interval between two tries is longer than the source can wait.")
}
