package gcs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

const (
	slowest  = 64 << 10               // bytes per second: the deadline of a part leaves time for it
	granule  = 256 << 10              // of which all parts but the last are multiples
	attempts = 5                      // of a part
	pause    = 200 * time.Millisecond // before the second; it doubles
)

// Put writes an object: in one request, or in parts if it is large.
func (s *Store) Put(ctx context.Context, p *objects.Put) error {
	about, err := json.Marshal(s.about(p))
	if err != nil {
		return engine.WithClass(engine.Rejected, err)
	}
	c := &call{method: http.MethodPost, path: "/upload/storage/v1/b/" + url.PathEscape(s.bucket) + "/o", key: p.Key,
		query: url.Values{}, creates: true}
	if p.IfAbsent {
		c.query.Set("ifGenerationMatch", "0")
	}
	if s.KMSKey != "" {
		c.query.Set("kmsKeyName", s.KMSKey)
	}
	if s.ACL != "" {
		c.query.Set("predefinedAcl", s.ACL)
	}
	if len(p.Body) <= p.PartSize || p.PartSize <= 0 {
		err = s.putWhole(ctx, p, c, about)
	} else {
		err = s.putParts(ctx, p, c, about)
	}
	if errors.Is(err, objects.ErrChanged) {
		return engine.Errorf(engine.Rejected, "%s: %w", s.what(p.Key), objects.ErrExists)
	}
	return err
}

// about is what the service is told about a new object. It has no tags: they are metadata.
func (s *Store) about(p *objects.Put) *resource {
	r := &resource{Name: p.Key, ContentType: p.ContentType, ContentEncoding: p.ContentEncoding,
		StorageClass: s.StorageClass, Metadata: map[string]string{}}
	for _, pairs := range [][]objects.Pair{p.Metadata, p.Tags} {
		for _, pair := range pairs {
			r.Metadata[pair.Name] = pair.Value
		}
	}
	if s.Checksum == "crc32c" {
		sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(p.Body, castagnoli))
		r.CRC32C = base64.StdEncoding.EncodeToString(sum)
	}
	return r
}

// within is the deadline of a call with so many bytes.
func within(ctx context.Context, size int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout+time.Duration(size/slowest)*time.Second)
}

func (s *Store) putWhole(ctx context.Context, p *objects.Put, c *call, about []byte) error {
	var b bytes.Buffer
	b.Grow(len(about) + len(p.Body) + 1024)
	w := multipart.NewWriter(&b)
	for _, part := range []struct {
		kind string
		body []byte
	}{{"application/json; charset=UTF-8", about}, {p.ContentType, p.Body}} {
		to, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {part.kind}})
		if err != nil {
			return err
		}
		_, _ = to.Write(part.body)
	}
	if err := w.Close(); err != nil {
		return err
	}
	c.query.Set("uploadType", "multipart")
	c.header = http.Header{"Content-Type": {"multipart/related; boundary=" + w.Boundary()}}
	c.body = b.Bytes()
	ctx, cancel := within(ctx, len(c.body))
	defer cancel()
	return s.answer(ctx, c, nil)
}

// putParts writes a large object. It is there when its last part is. An upload that fails is
// cancelled.
func (s *Store) putParts(ctx context.Context, p *objects.Put, c *call, about []byte) error {
	c.query.Set("uploadType", "resumable")
	c.header = http.Header{"Content-Type": {"application/json; charset=UTF-8"},
		"X-Upload-Content-Type": {p.ContentType}, "X-Upload-Content-Length": {strconv.Itoa(len(p.Body))}}
	c.body = about
	begin, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := s.do(begin, c)
	if err != nil {
		return err
	}
	_ = httpx.Drain(res)
	res.Body.Close()
	at, err := url.Parse(res.Header.Get("Location"))
	if err != nil || at.Path == "" {
		return engine.Errorf(engine.Transient, "%s: the upload has no place", s.what(p.Key))
	}
	// Whatever host the answer names: the token goes where the configuration says.
	up := &upload{store: s, key: p.Key, path: at.EscapedPath(), query: at.Query(), body: p.Body}
	size := (p.PartSize + granule - 1) / granule * granule
	if err := up.run(ctx, size); err != nil {
		up.cancel(ctx)
		return err
	}
	return nil
}

// upload is a resumable upload.
type upload struct {
	store *Store
	key   string
	path  string
	query url.Values
	body  []byte
}

// run sends parts until the service has all. After a fault it asks what has arrived.
func (u *upload) run(ctx context.Context, size int) error {
	have, failed := 0, 0
	for {
		next, done, err := u.send(ctx, have, min(size, len(u.body)-have))
		asked := err != nil
		for err != nil {
			e := engine.ErrorOf(err, engine.Transient)
			if failed++; failed == attempts || e.Class != engine.Transient && e.Class != engine.Timeout || ctx.Err() != nil {
				return err
			}
			wait := max(pause<<failed, min(e.Delay, callTimeout))
			if timing.Sleep(ctx, wait/2+rand.N(wait)) != nil {
				return err
			}
			next, done, err = u.send(ctx, 0, 0)
		}
		switch {
		case done:
			return nil
		case next > len(u.body) || next < have:
			return engine.Errorf(engine.Transient, "%s: the upload is at byte %d, after %d", u.store.what(u.key), next, have)
		case next > have:
			failed = 0
		case !asked:
			if failed++; failed == attempts {
				return engine.Errorf(engine.Transient, "%s: the upload does not go on", u.store.what(u.key))
			}
		}
		have = next
	}
}

// send sends so many bytes, or asks what has arrived if that is 0. next is the first byte
// that has not.
func (u *upload) send(ctx context.Context, from, size int) (next int, done bool, err error) {
	ctx, cancel := within(ctx, size)
	defer cancel()
	place := "bytes */" + strconv.Itoa(len(u.body))
	if size > 0 {
		place = fmt.Sprintf("bytes %d-%d/%d", from, from+size-1, len(u.body))
	}
	res, err := u.store.do(ctx, &call{method: http.MethodPut, path: u.path, key: u.key, query: u.query, creates: true,
		header: http.Header{"Content-Range": {place}}, body: u.body[from : from+size], also: http.StatusPermanentRedirect})
	if err != nil {
		return 0, false, err
	}
	defer res.Body.Close()
	if err := httpx.Drain(res); err != nil {
		return 0, false, u.store.explain(err, u.key, false)
	}
	if res.StatusCode != http.StatusPermanentRedirect {
		return len(u.body), true, nil
	}
	_, last, _ := strings.Cut(res.Header.Get("Range"), "-")
	if last == "" {
		return 0, false, nil
	}
	n, err := strconv.Atoi(last)
	if err != nil {
		return 0, false, engine.Errorf(engine.Transient, "%s: the upload is at %q", u.store.what(u.key), last)
	}
	return n + 1, false, nil
}

// cancel removes what was sent. Where that fails as well, the service does after a week.
func (u *upload) cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	res, err := u.store.do(ctx, &call{method: http.MethodDelete, path: u.path, key: u.key, query: u.query, also: 499})
	if err == nil {
		res.Body.Close()
	}
}
