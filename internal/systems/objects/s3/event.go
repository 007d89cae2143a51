package s3

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/flowd-io/flowd/internal/systems/objects"
)

// event is a notice of S3 as it is in a queue: by itself, in a message of SNS, or as
// EventBridge has it.
type event struct {
	Event   string // "s3:TestEvent"
	Records []struct {
		EventName string `json:"eventName"`
		S3        struct {
			Bucket struct{ Name string }
			Object struct{ Key, ETag string }
		}
	}

	Type, Message string // of SNS

	DetailType string `json:"detail-type"` // of EventBridge
	Detail     struct {
		Bucket struct{ Name string }
		Object struct{ Key, ETag string }
	}
}

// parse reads a notice about a bucket.
func parse(body []byte, bucket string) *objects.Notice {
	n := &objects.Notice{Body: body}
	var e event
	err := json.Unmarshal(body, &e)
	if err == nil && e.Type == "Notification" {
		inner := e.Message
		e = event{}
		err = json.Unmarshal([]byte(inner), &e)
	}
	switch {
	case err != nil:
	case e.DetailType != "":
		if e.DetailType == "Object Created" { // its key is not encoded
			err = name(n, bucket, e.Detail.Bucket.Name, e.Detail.Object.Key, e.Detail.Object.ETag)
		}
	case len(e.Records) == 0 && e.Event != "s3:TestEvent":
		err = errors.New("it has no records")
	}
	for i := range e.Records {
		r := &e.Records[i]
		if err != nil || !strings.HasPrefix(strings.TrimPrefix(r.EventName, "s3:"), "ObjectCreated") {
			continue
		}
		var key string
		if key, err = url.QueryUnescape(r.S3.Object.Key); err == nil {
			err = name(n, bucket, r.S3.Bucket.Name, key, r.S3.Object.ETag)
		}
	}
	if err != nil {
		n.Objects, n.Err = nil, fmt.Errorf("it is not an event of bucket %s: %w", bucket, err)
	}
	return n
}

// name adds an object to a notice.
func name(n *objects.Notice, bucket, of, key, etag string) error {
	switch {
	case of != bucket:
		return fmt.Errorf("it is about bucket %q", of)
	case key == "":
		return errors.New("it names no object")
	}
	n.Objects = append(n.Objects, objects.Object{Key: key, ETag: etag})
	return nil
}
