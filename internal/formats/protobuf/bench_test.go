package protobuf

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// order is a message as many are.
const order = `syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Order {
  int64 id = 1; string customer = 2; Status status = 3; google.protobuf.Timestamp placed_at = 4;
  repeated Item items = 5; map<string, string> labels = 6; double total = 7; bool paid = 8;
  message Item { string sku = 1; int32 quantity = 2; double price = 3; }
  enum Status { NEW = 0; SHIPPED = 1; }
}
`

const orderJSON = `{"id":9007199254740993,"customer":"Ann Example","status":"SHIPPED","placed_at":"2026-01-02T15:04:05.123Z",` +
	`"items":[{"sku":"A-1","quantity":2,"price":12.5},{"sku":"B-22","quantity":1,"price":99.99}],` +
	`"labels":{"region":"eu","channel":"web"},"total":124.99,"paid":true}`

func BenchmarkDecode(b *testing.B) {
	p := program(b, order, "shop.Order", Options{Defaults: true})
	payload, err := p.Encode(nil, []byte(orderJSON))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("flowd", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			if dst, err = p.Decode(dst[:0], payload); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := dynamicpb.NewMessage(p.descriptor)
			if err := proto.Unmarshal(payload, m); err != nil {
				b.Fatal(err)
			}
			if _, err := protojson.Marshal(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	p := program(b, order, "shop.Order", Options{})
	b.Run("flowd", func(b *testing.B) {
		b.ReportAllocs()
		var dst []byte
		for b.Loop() {
			var err error
			if dst, err = p.Encode(dst[:0], []byte(orderJSON)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := dynamicpb.NewMessage(p.descriptor)
			if err := protojson.Unmarshal([]byte(orderJSON), m); err != nil {
				b.Fatal(err)
			}
			if _, err := proto.Marshal(m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
