package engine

import "github.com/flowd-io/flowd/schema"

func init() {
	schema.AddCode("order-lost", "A source or sink keeps an order that the pipeline does not keep.")
	schema.AddCode("delivery-limit", "More is read ahead than a source with a delivery limit can take back.")
	schema.AddCode("long-interval", "An interval between two attempts is longer than the source can wait.")
}
