package gcs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

const (
	callTimeout = 30 * time.Second // of a call, but for the time that content takes
	mostError   = 4 << 10          // bytes of an answer that is an error
	mostDelay   = 5 * time.Minute  // is believed of Retry-After
)

// call is a request about an object, or about the bucket if key is "".
type call struct {
	method, path string // below the service's URL
	key          string
	query        url.Values
	header       http.Header
	body         []byte
	also         int  // a status that is an answer, too
	creates      bool // it is no fault of the object's that it is not there
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
		return nil, s.lost(err, c.key)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 || c.also != 0 && res.StatusCode == c.also {
		return res, nil
	}
	defer res.Body.Close()
	return nil, s.refused(res, c)
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

// lost is the error of a call without an answer. It shows no URL: that of an upload is
// a secret.
func (s *Store) lost(err error, key string) error {
	if _, known := errors.AsType[*engine.Error](err); known {
		return err
	}
	unsent := httpx.IsUnsent(err)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	switch {
	case unsent:
		e := engine.Errorf(engine.Transient, "%s: can't be reached: %w (check `endpoint`, and the network)", s.what(key), err)
		if errors.Is(err, context.DeadlineExceeded) {
			e.Class = engine.Timeout
		}
		e.Holds = true
		return e
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return engine.Errorf(engine.Timeout, "%s: no answer in time: %w", s.what(key), err)
	}
	return engine.Errorf(engine.Transient, "%s: %w", s.what(key), err)
}

// refused is what an answer means that is an error.
func (s *Store) refused(res *http.Response, c *call) error {
	head, _ := io.ReadAll(io.LimitReader(res.Body, mostError))
	var said struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	_ = json.Unmarshal(head, &said)
	reason := ""
	if len(said.Error.Errors) > 0 {
		reason = said.Error.Errors[0].Reason
	}
	text := cmp.Or(said.Error.Message, strings.TrimSpace(string(head[:min(len(head), 300)])), http.StatusText(res.StatusCode))
	e := s.meaning(res.StatusCode, reason, text, c)
	e.Delay = min(httpx.RetryAfter(res.Header.Get("Retry-After"), time.Now()), mostDelay)
	return e
}

func (s *Store) meaning(status int, reason, text string, c *call) *engine.Error {
	what := s.what(c.key)
	switch {
	case status == http.StatusNotFound && (c.key == "" || c.creates || strings.Contains(text, "bucket does not exist")):
		e := engine.Errorf(engine.Transient, "bucket %s does not exist: %s (create it, or correct `bucket` or `endpoint`)",
			s.bucket, text)
		e.Holds, e.Mistake = true, true
		return e
	case status == http.StatusNotFound:
		return engine.Errorf(engine.Rejected, "%s: %w", what, objects.ErrMissing)
	case status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		return engine.Errorf(engine.Rejected, "%s: %w", what, objects.ErrChanged)
	case status == http.StatusUnauthorized:
		return engine.Errorf(engine.Auth,
			"%s: the credentials are refused: %s (check `credentials`, or GOOGLE_APPLICATION_CREDENTIALS)", what, text)
	case strings.HasSuffix(strings.ToLower(reason), "ratelimitexceeded"), reason == "quotaExceeded",
		status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status == http.StatusConflict,
		status >= 500, status == http.StatusGone:
		return engine.Errorf(engine.Transient, "%s: %d %s: %s", what, status, reason, text)
	case status == http.StatusForbidden && reason == "retentionPolicyNotMet", reason == "objectUnderActiveHold":
		return engine.Errorf(engine.Rejected, "%s: it is kept by a policy or a hold: %s", what, text)
	case status == http.StatusForbidden:
		return engine.Errorf(engine.Auth,
			"%s: %s (give these credentials a role such as roles/storage.objectUser on the bucket)", what, text)
	case status == http.StatusRequestEntityTooLarge:
		return engine.Errorf(engine.TooLarge, "%s: %s", what, text)
	}
	return engine.Errorf(engine.Rejected, "%s: %d %s: %s", what, status, reason, text)
}
