package gcs

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

const (
	callTimeout = 30 * time.Second // of a call, but for the time that content takes
	mostError   = 4 << 10          // bytes of an answer that is an error
)

// call is a request about an object, or about the bucket if key is "".
type call struct {
	method, path string // below the service's URL
	key          string
	query        url.Values
	header       http.Header
	body         []byte
	also         int  // a status that is an answer, too
	creates      bool // the object need not exist: the answer 404 is about the bucket
}

// object is the path of an object.
func (s *Store) object(key string) string {
	return "/storage/v1/b/" + url.PathEscape(s.bucket) + "/o/" + url.PathEscape(key)
}

// do makes a call. The caller closes the answer's body.
func (s *Store) do(ctx context.Context, c *call) (*http.Response, error) {
	query := c.query
	if s.project != "" {
		if query == nil {
			query = url.Values{}
		}
		query.Set("userProject", s.project)
	}
	target := s.base + c.path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, c.method, target, bytes.NewReader(c.body))
	if err != nil {
		return nil, engine.WithClass(engine.Rejected, err)
	}
	for name, values := range c.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "flowd")
	res, err := s.client.Do(req)
	if err != nil {
		return nil, s.explain(err, c.key, false)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 || c.also != 0 && res.StatusCode == c.also {
		return res, nil
	}
	defer res.Body.Close()
	return nil, s.explain(answerOf(res), c.key, c.creates)
}

// ask makes a call within its deadline, and decodes the answer into v unless that is nil.
func (s *Store) ask(ctx context.Context, c *call, v any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return s.answer(ctx, c, v)
}

func (s *Store) answer(ctx context.Context, c *call, v any) error {
	res, err := s.do(ctx, c)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if v == nil {
		return httpx.Drain(res)
	}
	if err := json.NewDecoder(res.Body).Decode(v); err != nil {
		return engine.Errorf(engine.Transient, "%s: the answer can't be read: %w", s.what(c.key), err)
	}
	return nil
}

func (s *Store) what(key string) string {
	if key == "" {
		return "bucket " + s.bucket
	}
	return "object " + key + " in bucket " + s.bucket
}
