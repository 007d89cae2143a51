package s3

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

// callTimeout is the deadline of a call, but for the time that content takes.
const callTimeout = 30 * time.Second

// Probe asks for the bucket. Who may only write to it gets no answer, which is no fault.
func (s *Store) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.client.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: &s.bucket})
	switch statusOf(err) {
	case http.StatusForbidden:
		return nil
	case http.StatusBadRequest: // an answer to HEAD does not say why
		if _, why := s.client.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: &s.bucket,
			MaxKeys: aws.Int32(1)}); why != nil {
			err = why
		}
	}
	return s.explain(err, "")
}

// List gives a page of up to 1000 objects.
func (s *Store) List(ctx context.Context, prefix, after, token string) (p objects.Page, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in := &awss3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: optional(prefix), StartAfter: optional(after),
		ContinuationToken: optional(token), EncodingType: types.EncodingTypeUrl}
	out, err := s.client.ListObjectsV2(ctx, in)
	if err != nil {
		return p, s.explain(err, "")
	}
	for i := range out.Contents {
		o := &out.Contents[i]
		key := aws.ToString(o.Key)
		if out.EncodingType == types.EncodingTypeUrl {
			if plain, err := url.QueryUnescape(key); err == nil {
				key = plain
			}
		}
		p.Objects = append(p.Objects, objects.Object{Key: key, ETag: unquoted(o.ETag), Size: aws.ToInt64(o.Size),
			LastModified: aws.ToTime(o.LastModified).UTC()})
	}
	if p.Token = aws.ToString(out.NextContinuationToken); !aws.ToBool(out.IsTruncated) {
		p.Token = ""
	} else if p.Token == "" || p.Token == token {
		return p, engine.Errorf(engine.Transient, "bucket %s: the listing can't be continued", s.bucket)
	}
	return p, nil
}

// Get reads an object.
func (s *Store) Get(ctx context.Context, key, etag string, offset int64) (o objects.Object, _ io.ReadCloser, _ error) {
	in := &awss3.GetObjectInput{Bucket: &s.bucket, Key: &key, IfMatch: quoted(etag)}
	if offset > 0 {
		in.Range = aws.String("bytes=" + strconv.FormatInt(offset, 10) + "-")
	}
	ctx, cancel := context.WithCancelCause(httpx.Streams(ctx))
	late := time.AfterFunc(callTimeout, func() { cancel(context.DeadlineExceeded) })
	out, err := s.client.GetObject(ctx, in)
	if !late.Stop() && err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = engine.Errorf(engine.Transient, "object %s: no answer within %s", key, callTimeout)
	}
	if err != nil {
		cancel(nil)
		return o, nil, s.explain(err, key)
	}
	o = objects.Object{Key: key, ETag: unquoted(out.ETag), Size: aws.ToInt64(out.ContentLength),
		LastModified: aws.ToTime(out.LastModified).UTC(), ContentType: aws.ToString(out.ContentType),
		ContentEncoding: aws.ToString(out.ContentEncoding)}
	if offset > 0 {
		o.Size += offset
	}
	for name, value := range out.Metadata {
		if plain, err := new(mime.WordDecoder).DecodeHeader(value); err == nil {
			value = plain
		}
		o.Metadata = append(o.Metadata, objects.Pair{Name: name, Value: value})
	}
	slices.SortFunc(o.Metadata, func(a, b objects.Pair) int { return strings.Compare(a.Name, b.Name) })
	return o, &content{out.Body, key, cancel}, nil
}

// content is that of an object, until it is closed.
type content struct {
	io.ReadCloser
	key string
	end context.CancelCauseFunc
}

// Read reads on. The client compares what it has read with the object's checksum at the end.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && strings.Contains(err.Error(), "checksum did not match") {
		err = engine.Errorf(engine.Rejected, "object %s: what arrived does not match its checksum: %w", c.key, err)
	}
	return n, err
}

// Close ends the call.
func (c *content) Close() error {
	c.end(nil)
	return c.ReadCloser.Close()
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func unquoted(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

func quoted(etag string) *string {
	if etag == "" {
		return nil
	}
	return aws.String(`"` + etag + `"`)
}
