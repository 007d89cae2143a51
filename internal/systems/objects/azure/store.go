package azure

import (
	"bytes"
	"context"
	"crypto/md5" // #nosec G501 -- what the service has, against damage
	"errors"
	"hash"
	"io"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

// callTimeout is the deadline of a call, but for the time that content takes.
const callTimeout = 30 * time.Second

// Probe asks for the container. Who may only use its blobs gets no answer, which is no fault.
func (s *Store) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.client.GetProperties(ctx, nil)
	var res *azcore.ResponseError
	if errors.As(err, &res) && slices.Contains(narrow, res.ErrorCode) {
		return nil
	}
	return s.explain(err, "")
}

// narrow is what an identity or a signature is told that is known, but not for this.
var narrow = []string{"AuthorizationPermissionMismatch", "AuthorizationResourceTypeMismatch", "AuthorizationFailure",
	"AuthorizationServiceMismatch"}

// List gives a page of up to 1000 blobs.
func (s *Store) List(ctx context.Context, prefix, _, token string) (p objects.Page, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	most := int32(1000)
	out, err := s.client.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{MaxResults: &most, Prefix: optional(prefix),
		Marker: optional(token)}).NextPage(ctx)
	if err != nil {
		return p, s.explain(err, "")
	}
	if out.Segment != nil {
		for _, b := range out.Segment.BlobItems {
			if b.Name == nil || b.Properties == nil {
				continue
			}
			p.Objects = append(p.Objects, objects.Object{Key: *b.Name, ETag: unquoted(b.Properties.ETag),
				Size: value(b.Properties.ContentLength), LastModified: value(b.Properties.LastModified).UTC()})
		}
	}
	if p.Token = value(out.NextMarker); p.Token != "" && p.Token == token {
		return p, engine.Errorf(engine.Transient, "container %s: the listing can't be continued", s.name)
	}
	return p, nil
}

// Get reads a blob.
func (s *Store) Get(ctx context.Context, key, etag string, offset int64) (o objects.Object, _ io.ReadCloser, _ error) {
	ctx, cancel := context.WithCancelCause(httpx.Streams(ctx))
	late := time.AfterFunc(callTimeout, func() { cancel(context.DeadlineExceeded) })
	out, err := s.client.NewBlobClient(key).DownloadStream(ctx, &blob.DownloadStreamOptions{
		Range: blob.HTTPRange{Offset: offset}, AccessConditions: only(etag)})
	if !late.Stop() && err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = engine.Errorf(engine.Transient, "blob %s: no answer within %s", key, callTimeout)
	}
	if err != nil {
		cancel(nil)
		return o, nil, s.explain(err, key)
	}
	o = objects.Object{Key: key, ETag: unquoted(out.ETag), Size: value(out.ContentLength) + offset,
		LastModified: value(out.LastModified).UTC(), ContentType: value(out.ContentType),
		ContentEncoding: value(out.ContentEncoding)}
	for name, v := range out.Metadata {
		text := value(v)
		if plain, err := new(mime.WordDecoder).DecodeHeader(text); err == nil {
			text = plain
		}
		o.Metadata = append(o.Metadata, objects.Pair{Name: strings.ToLower(name), Value: text})
	}
	slices.SortFunc(o.Metadata, func(a, b objects.Pair) int { return strings.Compare(a.Name, b.Name) })
	in := &content{ReadCloser: out.Body, key: key, end: cancel}
	if offset == 0 && len(out.ContentMD5) == md5.Size {
		in.want, in.left, in.sum = out.ContentMD5, o.Size, md5.New() // #nosec G401 -- as above
	}
	return o, in, nil
}

// content is that of a blob, until it is closed. At its end, what was read is compared with
// the blob's checksum, if it has one and all came over one connection.
type content struct {
	io.ReadCloser
	key  string
	end  context.CancelCauseFunc
	sum  hash.Hash // nil: nothing to compare
	want []byte
	left int64
}

// Read reads on.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.sum == nil {
		return n, err
	}
	c.sum.Write(p[:n])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) && c.left == 0 && !bytes.Equal(c.sum.Sum(nil), c.want) {
		err = engine.Errorf(engine.Rejected, "blob %s: what arrived does not match its checksum", c.key)
	}
	return n, err
}

// Close ends the call.
func (c *content) Close() error {
	c.end(nil)
	return c.ReadCloser.Close()
}

// only is the condition that a blob has this etag.
func only(etag string) *blob.AccessConditions {
	if etag == "" {
		return nil
	}
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: quoted(etag)}}
}

func quoted(etag string) *azcore.ETag {
	e := azcore.ETag(`"` + etag + `"`)
	return &e
}

func unquoted(etag *azcore.ETag) string { return strings.Trim(string(value(etag)), `"`) }

// value is what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
