package s3

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/systems/objects"
)

const created = `{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"},"object":{"key":"in/a+b%2Bc%C3%A9",` +
	`"eTag":"e1"}}}]}`

func TestNotices(t *testing.T) {
	wrapped, err := json.Marshal(map[string]string{"Type": "Notification", "Message": created})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, body string
		want       []string // keys
		problem    string
	}{
		{"an event of S3 has an encoded key", created, []string{"in/a b+cé"}, ""},
		{"it may be in a message of SNS", string(wrapped), []string{"in/a b+cé"}, ""},
		{"EventBridge does not encode keys",
			`{"detail-type":"Object Created","detail":{"bucket":{"name":"b"},"object":{"key":"a+b%20","etag":"e"}}}`,
			[]string{"a+b%20"}, ""},
		{"other stores put s3: before the event's name",
			`{"Records":[{"eventName":"s3:ObjectCreated:Copy","s3":{"bucket":{"name":"b"},"object":{"key":"k"}}}]}`,
			[]string{"k"}, ""},
		{"what was removed is nothing to read",
			`{"Records":[{"eventName":"ObjectRemoved:Delete","s3":{"bucket":{"name":"b"},"object":{"key":"k"}}}]}`, nil, ""},
		{"nor is what EventBridge says of other things",
			`{"detail-type":"Object Deleted","detail":{"bucket":{"name":"b"},"object":{"key":"k"}}}`, nil, ""},
		{"S3 tests a queue", `{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"b"}`, nil, ""},
		{
			"another bucket is not for this input",
			strings.ReplaceAll(created, `"b"`, `"other"`),
			nil,
			`about bucket "other"`,
		},
		{"an event without a key", strings.ReplaceAll(created, "in/a+b%2Bc%C3%A9", ""), nil, "names no object"},
		{"a key that is encoded wrongly", strings.ReplaceAll(created, "in/a+b%2B", "%zz"), nil, "invalid URL escape"},
		{"text", "hello", nil, "invalid character"},
		{"another document", `{"a":1}`, nil, "no records"},
		{"a message of SNS with something else", `{"Type":"Notification","Message":"hi"}`, nil, "invalid character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := parse([]byte(tt.body), "b")
			var keys []string
			for _, o := range n.Objects {
				keys = append(keys, o.Key)
			}
			if !slices.Equal(keys, tt.want) {
				t.Errorf("keys %q, want %q", keys, tt.want)
			}
			problem := ""
			if n.Err != nil {
				problem = n.Err.Error()
			}
			if (tt.problem == "") != (n.Err == nil) || !strings.Contains(problem, tt.problem) {
				t.Errorf("error %q, want %q", problem, tt.problem)
			}
			if string(n.Body) != tt.body {
				t.Errorf("body %q", n.Body)
			}
		})
	}
}

func FuzzNotice(f *testing.F) {
	f.Add([]byte(created))
	f.Add([]byte(`{"Type":"Notification","Message":"{}"}`))
	f.Add([]byte(`{"detail-type":"Object Created","detail":{"bucket":{"name":"b"},"object":{"key":"k"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n := parse(body, "b")
		if n.Err != nil && n.Objects != nil {
			t.Errorf("both objects and an error: %v", n.Err)
		}
		if slices.ContainsFunc(n.Objects, func(o objects.Object) bool { return o.Key == "" }) {
			t.Error("an object without a key")
		}
	})
}
