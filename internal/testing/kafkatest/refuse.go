package kafkatest

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Refuse has the fake answer each batch of records with an error that has a text in a key, a value or a header, as
// brokers do: for the whole batch. It stays so until the handle's Remove.
func (c *Cluster) Refuse(topic string, partitions int, err *kerr.Error, text string) *kfake.FaultHandle {
	faults := make([]kfake.Fault, partitions)
	for p := range faults {
		faults[p] = kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{int32(p)}, Err: err,
			Count: -1, When: func(r kmsg.Request) bool { return sends(r.(*kmsg.ProduceRequest), int32(p), text) }}
	}
	return c.Fake.Fault(faults...)
}

// sends says whether a request has a text in what it sends to a partition of any topic.
func sends(r *kmsg.ProduceRequest, partition int32, text string) bool {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			var batch kmsg.RecordBatch
			if p.Partition != partition || batch.ReadFrom(p.Records) != nil {
				continue
			}
			raw, err := kgo.DefaultDecompressor().Decompress(batch.Records, kgo.CompressionCodecType(batch.Attributes&7))
			if err == nil && bytes.Contains(raw, []byte(text)) {
				return true
			}
		}
	}
	return false
}

// RefuseLogins answers logins as brokers do: the fake just hangs up.
func (c *Cluster) RefuseLogins() {
	c.Fake.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.Fake.KeepControl()
		answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
		return answer, nil, true
	})
}
