package gcs

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

// resource is what the service knows about an object. Its generation changes with the
// content, and is the etag of the contract.
type resource struct {
	Name            string            `json:"name,omitempty"`
	Generation      string            `json:"generation,omitempty"`
	Size            int64             `json:"size,string,omitempty"`
	Updated         time.Time         `json:"updated,omitzero"`
	ContentType     string            `json:"contentType,omitempty"`
	ContentEncoding string            `json:"contentEncoding,omitempty"`
	StorageClass    string            `json:"storageClass,omitempty"`
	CRC32C          string            `json:"crc32c,omitempty"`
	Metadata        map[string]string `json:"metadata,omitempty"`
}

func (r *resource) object() objects.Object {
	o := objects.Object{Key: r.Name, ETag: r.Generation, Size: r.Size, LastModified: r.Updated.UTC(),
		ContentType: r.ContentType, ContentEncoding: r.ContentEncoding}
	for name, value := range r.Metadata {
		o.Metadata = append(o.Metadata, objects.Pair{Name: name, Value: value})
	}
	slices.SortFunc(o.Metadata, func(a, b objects.Pair) int { return strings.Compare(a.Name, b.Name) })
	return o
}

// only is the condition that an object has this generation.
func only(etag string) url.Values {
	if etag == "" {
		return url.Values{}
	}
	return url.Values{"ifGenerationMatch": {etag}}
}

// Probe asks for the bucket. Who may only use its objects gets no answer, which is no fault.
func (s *Store) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := s.do(ctx, &call{method: http.MethodGet, path: "/storage/v1/b/" + url.PathEscape(s.bucket),
		query: url.Values{"fields": {"name"}}, also: http.StatusForbidden})
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// List gives a page of up to 1000 objects.
func (s *Store) List(ctx context.Context, prefix, after, token string) (p objects.Page, err error) {
	query := url.Values{"maxResults": {"1000"}, "fields": {"nextPageToken,items(name,generation,size,updated)"}}
	for name, value := range map[string]string{"prefix": prefix, "startOffset": after, "pageToken": token} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var page struct {
		Items         []resource
		NextPageToken string
	}
	err = s.ask(ctx, &call{method: http.MethodGet, path: "/storage/v1/b/" + url.PathEscape(s.bucket) + "/o", query: query},
		&page)
	if err != nil {
		return p, err
	}
	for i := range page.Items {
		p.Objects = append(p.Objects, page.Items[i].object())
	}
	if p.Token = page.NextPageToken; p.Token != "" && p.Token == token {
		return p, engine.Errorf(engine.Transient, "bucket %s: the listing can't be continued", s.bucket)
	}
	return p, nil
}

// Get reads an object, as it is stored: the service decompresses nothing. What is known about
// it takes a call of its own, and may be replaced before the next.
func (s *Store) Get(ctx context.Context, key, etag string, offset int64) (o objects.Object, _ io.ReadCloser, err error) {
	for try := 0; ; try++ {
		r := &resource{Name: key, Generation: etag}
		if offset == 0 {
			if err = s.ask(ctx, &call{method: http.MethodGet, path: s.object(key), key: key, query: only(etag)}, r); err != nil {
				return o, nil, err
			}
		}
		in, err := s.content(ctx, r, offset)
		if etag == "" && errors.Is(err, objects.ErrChanged) && try < 3 {
			continue
		}
		return r.object(), in, err
	}
}

// content connects to the content of a generation.
func (s *Store) content(ctx context.Context, r *resource, offset int64) (io.ReadCloser, error) {
	c := &call{method: http.MethodGet, path: s.object(r.Name), key: r.Name, query: only(r.Generation),
		header: http.Header{"Accept-Encoding": {"gzip"}}} // or else what is stored as such would be decompressed
	c.query.Set("alt", "media")
	if offset > 0 {
		c.header.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	ctx, cancel := context.WithCancelCause(httpx.Streams(ctx))
	late := time.AfterFunc(callTimeout, func() { cancel(context.DeadlineExceeded) })
	res, err := s.do(ctx, c)
	if !late.Stop() && err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		err = engine.Errorf(engine.Transient, "object %s: no answer within %s", r.Name, callTimeout)
	}
	if err == nil && offset > 0 && res.StatusCode != http.StatusPartialContent {
		res.Body.Close()
		err = engine.Errorf(engine.Transient, "object %s: it does not continue at byte %d", r.Name, offset)
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	in := &content{ReadCloser: res.Body, of: r, end: cancel}
	if sum, err := base64.StdEncoding.DecodeString(r.CRC32C); err == nil && len(sum) == 4 && offset == 0 {
		in.want, in.sum = binary.BigEndian.Uint32(sum), crc32.New(castagnoli)
	}
	return in, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// content is that of an object, until it is closed. At its end, what was read is compared
// with the object's checksum, if all came over one connection.
type content struct {
	io.ReadCloser
	of   *resource
	end  context.CancelCauseFunc
	sum  hash.Hash32 // nil: nothing to compare
	size int64
	want uint32
}

// Read reads on.
func (c *content) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.sum == nil {
		return n, err
	}
	c.sum.Write(p[:n])
	c.size += int64(n)
	if errors.Is(err, io.EOF) && c.size == c.of.Size && c.sum.Sum32() != c.want {
		err = engine.Errorf(engine.Rejected, "object %s: what arrived does not match its checksum", c.of.Name)
	}
	return n, err
}

// Close ends the call.
func (c *content) Close() error {
	c.end(nil)
	return c.ReadCloser.Close()
}
