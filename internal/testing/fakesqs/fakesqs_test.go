package fakesqs

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

func TestLargeAnswersArriveWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Start(t)
		s.Create("orders", Queue{})
		s.Put("orders", strings.Repeat("x", 1<<20))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://sqs.test/",
			strings.NewReader(`{"QueueUrl":"http://sqs.test/0/orders"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Amz-Target", "AmazonSQS.ReceiveMessage")
		res, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || len(body) < 1<<20 {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
	})
}
