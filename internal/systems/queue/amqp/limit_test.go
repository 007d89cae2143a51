package amqp

import "testing"

func TestDeliveryLimits(t *testing.T) {
	quorum := func(argument, policy any) *listed {
		q := &listed{Type: "quorum", Arguments: map[string]any{}, Policy: map[string]any{}}
		if argument != nil {
			q.Arguments["x-delivery-limit"] = argument
		}
		if policy != nil {
			q.Policy["delivery-limit"] = policy
		}
		return q
	}
	tests := []struct {
		name    string
		version string
		queue   *listed
		want    int
	}{
		{"an argument", "3.10.8", quorum(5.0, nil), 5},
		{"a policy", "3.13.0", quorum(nil, 7.0), 7},
		{"the lesser of both", "4.0.5", quorum(5.0, 3.0), 3},
		{"a declared limit", "3.10.8", quorum(int64(4), nil), 4},
		{"none", "3.10.8", quorum(nil, nil), 0},
		{"the default of RabbitMQ 4", "4.1.0", quorum(nil, nil), 20},
		{"no limit on purpose", "4.1.0", quorum(nil, -1.0), 0},
		{"no redelivery at all", "3.10.8", quorum(0.0, nil), 1},
		{"a broker that counts failures only", "4.3.0", quorum(5.0, nil), 0},
		{"a classic queue", "4.1.0", &listed{Type: "classic"}, 0},
		{"an unknown version", "next", quorum(5.0, nil), 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := 0
			if counts, always := countsReturns(tt.version); counts {
				got = tt.queue.limit(always)
			}
			if got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
