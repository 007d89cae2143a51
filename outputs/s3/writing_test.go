package s3

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/testing/fakes3"
)

// write writes payloads with one call, and returns the result of each.
func write(t *testing.T, o engine.Output, b *engine.Batch) (fates []string, errs []*engine.Error) {
	t.Helper()
	if err := o.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := o.(engine.Closer).Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var msgs []*engine.Message
	for m := range b.All() {
		msgs = append(msgs, m)
	}
	fates = enginetest.WriteFates(b, o.Write(t.Context(), b))
	for _, m := range msgs {
		errs = append(errs, m.Err())
	}
	return fates, errs
}

func TestLargeObjectsAreSentInParts(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	body := bytes.Repeat([]byte("0123456789abcdef"), 12<<20/16)
	copy(body[6<<20:], "the middle")
	o := made(t, s, `, "key": "large", "part_size": "5MiB"`)
	fates, _ := write(t, o, enginetest.Batch(string(body)))
	if !slices.Equal(fates, []string{"safe"}) {
		t.Fatal(fates)
	}
	if got, _ := s.Get(t, "large"); got != string(body) {
		t.Errorf("the object has %d bytes and is not what was written", len(got))
	}
	parts := 0
	for _, c := range s.Calls("PUT") {
		if strings.Contains(c.Query, "partNumber") {
			parts++
			if c.Header.Get("X-Amz-Checksum-Crc32c") == "" {
				t.Error("a part has no checksum")
			}
		}
	}
	if parts != 3 {
		t.Errorf("%d parts, want 3", parts)
	}
}

func TestUploadsThatFailLeaveNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault fakes3.Fault
	}{
		{"a part is refused", fakes3.Fault{Method: "PUT", Query: "partNumber=2", Status: 403, Code: "AccessDenied", Times: -1}},
		{"the last call is refused", fakes3.Fault{Method: "POST", Query: "uploadId", Status: 400, Code: "InvalidPart", Times: -1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := fakes3.Start(t)
			s.Fault(tt.fault)
			o := made(t, s, `, "key": "large", "part_size": "5MiB"`)
			fates, _ := write(t, o, enginetest.Batch(strings.Repeat("x", 11<<20)))
			if !slices.Equal(fates, []string{"failed"}) {
				t.Error(fates)
			}
			if keys := s.Keys(t); len(keys) != 0 {
				t.Errorf("there is %q", keys)
			}
			out, err := s.Client.ListMultipartUploads(
				t.Context(),
				&s3.ListMultipartUploadsInput{Bucket: aws.String("bucket")},
			)
			if err != nil || len(out.Uploads) != 0 {
				t.Errorf("%d uploads are left, %v", len(out.Uploads), err)
			}
		})
	}
}

func TestPropertiesOfAnObject(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	o := made(t, s, `, "key": "out/$(id).ndjson.gz", "storage_class": "STANDARD_IA",
		"encryption": {"type": "aws:kms", "key": "k1", "bucket_key": true}, "acl": "bucket-owner-full-control",
		"content_encoding": "gzip", "metadata": {"tenant": "$(id)"}, "tags": {"kind": "a b&c"}`)
	b := enginetest.Batch(`{"id": "é"}`)
	for m := range b.All() {
		m.Meta = engine.Meta{}.With("path", "own").Own().With("trace", "t1").With("count", 7).With("Bad Name", "x").
			With("line", "a\nb").With("long", strings.Repeat("x", 3000))
	}
	if fates, errs := write(t, o, b); !slices.Equal(fates, []string{"safe"}) {
		t.Fatal(fates, errs)
	}
	var h map[string][]string
	var key string
	for _, c := range s.Calls("PUT") {
		h, key = c.Header, c.Key
	}
	sum := crc32.Checksum([]byte(`{"id": "é"}`), crc32.MakeTable(crc32.Castagnoli))
	for name, want := range map[string]string{
		"X-Amz-Storage-Class": "STANDARD_IA", "X-Amz-Server-Side-Encryption": "aws:kms",
		"X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id":     "k1",
		"X-Amz-Server-Side-Encryption-Bucket-Key-Enabled": "true",
		"X-Amz-Acl": "bucket-owner-full-control", "Content-Encoding": "gzip", "Content-Type": "application/gzip",
		"X-Amz-Meta-Tenant": "=?UTF-8?b?w6k=?=", "X-Amz-Meta-Trace": "t1", "X-Amz-Meta-Count": "7", "X-Amz-Tagging": "kind=a+b%26c",
		"X-Amz-Checksum-Crc32c": base64.StdEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}),
		"X-Amz-Meta-Path":       "", "X-Amz-Meta-Bad Name": "", "X-Amz-Meta-Line": "", "X-Amz-Meta-Long": "",
	} {
		if got := strings.Join(h[name], ","); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if key != "out/é.ndjson.gz" {
		t.Errorf("the key is %q", key)
	}
}

func TestKeysOfDataStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	for _, tt := range []struct{ key, id, want string }{
		{"in/$(id)", "../x", `the part ".."`},
		{"in/$(id)", "a/../../x", `the part ".."`},
		{"in/$(id)", "./x", `the part "."`},
		{"in/$(id)", "a\x00b", "control character"},
		{"in/$(id)", "a\nb", "control character"},
		{"in/$(id)", "a\u202eb", "control character"},
		{"in/$(id)", "", "ends without a name"},
		{"in/$(id)", "x/", "ends without a name"},
		{"$(id)", "/etc/passwd", "begins with a slash"},
		{"in/$(id)", strings.Repeat("x", 1100), "at most 1024 are allowed"},
	} {
		b := engine.NewBatch(1)
		b.Add(fmt.Appendf(nil, `{"id": %q}`, tt.id))
		if tt.id == "a\x00b" {
			b = enginetest.Batch(`{"id": "a\u0000b"}`)
		}
		fates, errs := write(t, made(t, s, fmt.Sprintf(`, "key": %q`, tt.key)), b)
		if !slices.Equal(fates, []string{"failed"}) || errs[0].Class != engine.Rejected ||
			!strings.Contains(errs[0].Error(), tt.want) {
			t.Errorf("%q: %s %v, want %q", tt.id, fates, errs[0], tt.want)
		}
	}
	if keys := s.Keys(t); len(keys) != 0 {
		t.Errorf("there is %q", keys)
	}
}

func TestObjectsOfOneKeyAreWrittenInOrder(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	o := made(t, s, `, "key": "$(id)"`)
	var payloads []string
	for i := range 20 {
		payloads = append(payloads, fmt.Sprintf(`{"id": "k%d", "n": %d}`, i%2, i))
	}
	if fates, _ := write(t, o, enginetest.Batch(payloads...)); slices.Contains(fates, "failed") {
		t.Error(fates)
	}
	for i, key := range []string{"k0", "k1"} {
		if got, _ := s.Get(t, key); got != payloads[18+i] {
			t.Errorf("%s is %s, want the last one, %s", key, got, payloads[18+i])
		}
	}
	// A retry of an earlier message must not replace a later one.
	s.Fault(fakes3.Fault{Method: "PUT", Key: "/k0", Status: 400, Code: "OperationAborted"})
	if fates, _ := write(t, o, enginetest.Batch(payloads[:4]...)); !slices.Equal(
		fates,
		[]string{"failed", "safe", "failed", "safe"},
	) {
		t.Error(fates)
	}
}

func TestIfAbsent(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	s.Put(t, "old", "1")
	fates, errs := write(
		t,
		made(t, s, `, "key": "$(id)", "if_absent": true`),
		enginetest.Batch(`{"id": "old"}`, `{"id": "new"}`),
	)
	if !slices.Equal(fates, []string{"failed", "safe"}) || errs[0].Class != engine.Rejected ||
		!strings.Contains(errs[0].Error(), "exists already") {
		t.Errorf("%s %v", fates, errs[0])
	}
	if got, _ := s.Get(t, "old"); got != "1" {
		t.Errorf("the object is %q", got)
	}
}

// The answer to a write may be lost after the object was stored. The next attempt finds the object, and it counts as written. A foreign
// object does not.
func TestIfAbsentWhenAnAnswerIsLost(t *testing.T) {
	t.Parallel()
	small, big := `{"id": "new"}`, `{"id": "new", "x": "`+strings.Repeat("x", 6<<20)+`"}`
	for _, tt := range []struct {
		name   string
		faults func(s *fakes3.Server) []fakes3.Fault
		body   string
		fates  []string // fates of consecutive writes
		want   string
	}{
		{"of the client's own attempts", func(*fakes3.Server) []fakes3.Fault {
			return []fakes3.Fault{{Method: "PUT", Lose: true}}
		}, small, []string{"safe"}, ""},
		{"of all of the client's attempts", func(*fakes3.Server) []fakes3.Fault {
			return []fakes3.Fault{{Method: "PUT", Lose: true}, {Method: "PUT", Status: 400, Code: "OperationAborted"}}
		}, small, []string{"failed", "safe"}, "OperationAborted"},
		{"of the last call for parts", func(*fakes3.Server) []fakes3.Fault {
			return []fakes3.Fault{{Method: "POST", Query: "uploadId", Lose: true}}
		}, big, []string{"safe"}, ""},
		{"and somebody else was first", func(s *fakes3.Server) []fakes3.Fault {
			return []fakes3.Fault{{Method: "PUT", Status: 500, Code: "InternalError", Hook: func() { s.Put(t, "new", "another one") }}}
		}, small, []string{"failed"}, "exists already"},
		{"and nothing can be read", func(*fakes3.Server) []fakes3.Fault {
			return []fakes3.Fault{{Method: "PUT", Lose: true}, {Method: "GET", Status: 403, Code: "AccessDenied", Times: -1}}
		}, small, []string{"failed"}, "(permit reading objects)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := fakes3.Start(t)
			o := made(t, s, `, "key": "$(id)", "if_absent": true, "part_size": "5MiB"`)
			for _, f := range tt.faults(s) {
				s.Fault(f)
			}
			for _, want := range tt.fates {
				fates, errs := write(t, o, enginetest.Batch(tt.body))
				if !slices.Equal(fates, []string{want}) || errs[0] != nil && !strings.Contains(errs[0].Error(), tt.want) {
					t.Errorf("%s %v, want %s", fates, errs[0], want)
				}
			}
			if fates, _ := write(t, o, enginetest.Batch(`{"id": "new", "n": 2}`)); !slices.Equal(fates, []string{"failed"}) {
				t.Errorf("an object replaces another one: %s", fates)
			}
			if got, _ := s.Get(t, "new"); (got == tt.body) != (tt.want != "exists already") {
				t.Errorf("the object is %.20q", got)
			}
		})
	}
}

func TestClassesOfErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		code   string
		header map[string]string
		class  engine.Class
		holds  bool
		want   string
	}{
		{404, "NoSuchBucket", nil, engine.Transient, true, "create it"},
		{301, "PermanentRedirect", map[string]string{"X-Amz-Bucket-Region": "eu-west-3"}, engine.Transient, true, "in eu-west-3"},
		{400, "AuthorizationHeaderMalformed", map[string]string{"X-Amz-Bucket-Region": "eu-west-3"}, engine.Transient, true, "in eu-west-3"},
		{403, "AccessDenied", nil, engine.Auth, true, "s3:PutObject"},
		{400, "ExpiredToken", nil, engine.Auth, true, "credentials"},
		{503, "SlowDown", map[string]string{"Retry-After": "7"}, engine.Transient, false, "SlowDown"},
		{500, "InternalError", nil, engine.Transient, false, "InternalError"},
		{400, "EntityTooLarge", nil, engine.TooLarge, false, "EntityTooLarge: scripted (send less at once"},
		{507, "XMinioStorageFull", nil, engine.Transient, true, "make room"},
		{403, "QuotaExceeded", nil, engine.Transient, true, "make room"},
		{403, "RequestTimeTooSkewed", nil, engine.Auth, true, "clock"},
		{400, "InvalidStorageClass", nil, engine.Rejected, false, "InvalidStorageClass"},
		{400, "BadDigest", nil, engine.Transient, false, "BadDigest"},
		{501, "NotImplemented", nil, engine.Rejected, false, "does not support this"},
	} {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			s := fakes3.Start(t)
			s.Fault(fakes3.Fault{Method: "PUT", Status: tt.status, Code: tt.code, Header: tt.header, Times: -1})
			fates, errs := write(t, made(t, s, `, "key": "$(id)"`), enginetest.Batch(`{"id": "a"}`))
			e := errs[0]
			if !slices.Equal(fates, []string{"failed"}) || e.Class != tt.class || e.HoldsOutput() != tt.holds ||
				!strings.Contains(e.Error(), tt.want) {
				t.Errorf("%s: class %s, holds %v: %v", fates, e.Class, e.HoldsOutput(), e)
			}
			if tt.header["Retry-After"] != "" && e.Delay != 7*time.Second {
				t.Errorf("delay %s, want 7s", e.Delay)
			}
		})
	}
}

// TestAnOutageHoldsTheOutput refuses connections, and then credentials until they are replaced.
func TestAnOutageHoldsTheOutput(t *testing.T) {
	t.Parallel()
	s := fakes3.Start(t)
	o := made(t, s, `, "key": "$(id)"`)
	if err := o.(engine.Opener).Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.(engine.Closer).Close(context.Background()) }()
	probe := func() error { return o.(engine.Prober).Probe(t.Context()) }
	if err := probe(); err != nil {
		t.Errorf("probe: %v", err)
	}
	s.Fault(fakes3.Fault{Method: "HEAD", Status: 404, Times: -1})
	if err := probe(); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("probe of a missing bucket: %v", err)
	}
	s.Close()
	b := enginetest.Batch(`{"id": "a"}`, `{"id": "b"}`)
	var msgs []*engine.Message
	for m := range b.All() {
		msgs = append(msgs, m)
	}
	_ = o.Write(t.Context(), b)
	for _, m := range msgs {
		if e := m.Err(); e == nil || !e.Holds {
			t.Errorf("error %v, want one that holds", e)
		}
	}
	if err := probe(); err == nil {
		t.Error("probe of nothing")
	}
}

func TestConfigComplaints(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ fields, want string }{
		{`"bucket": "b", "key": "a/../b"`, `the part ".."`},
		{`"bucket": "b", "key": "a/"`, "ends without a name"},
		{`"bucket": "s3://b/x", "key": "a"`, "is a URL"},
		{`"bucket": "b/x", "key": "a"`, "is not the name of a bucket"},
		{`"bucket": "b", "key": "a", "encryption": {"type": "AES256", "key": "k"}`, "is for keys of KMS"},
		{`"bucket": "b", "key": "a", "metadata": {"A b": "x"}`, "is not valid"},
		{`"bucket": "b", "key": "a", "part_size": "1MiB"`, "part_size"},
		{`"bucket": "b"`, "required"},
	} {
		problems := strings.Join(enginetest.Problems(t, engine.Outputs, `{"s3": {`+tt.fields+`}}`), "\n")
		if !strings.Contains(problems, tt.want) {
			t.Errorf("%s: %q, want %q", tt.fields, problems, tt.want)
		}
	}
}
