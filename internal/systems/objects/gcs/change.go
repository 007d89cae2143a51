package gcs

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

// Delete deletes a generation of an object.
func (s *Store) Delete(ctx context.Context, key, etag string) error {
	return s.ask(ctx, &call{method: http.MethodDelete, path: s.object(key), key: key, query: only(etag)}, nil)
}

// Tag adds metadata, which is what objects have here instead of tags.
func (s *Store) Tag(ctx context.Context, key, etag string, tags []objects.Pair) error {
	all := map[string]string{}
	for _, p := range tags {
		all[p.Name] = p.Value
	}
	body, err := json.Marshal(resource{Metadata: all})
	if err != nil {
		return engine.WithClass(engine.Rejected, err)
	}
	return s.ask(ctx, &call{method: http.MethodPatch, path: s.object(key), key: key, query: only(etag), body: body,
		header: http.Header{"Content-Type": {"application/json"}}}, nil)
}

// mostMoving is how long an object may take to be copied within the service.
const mostMoving = 10 * time.Minute

// Move copies an object within the bucket and deletes it then. A large one takes several
// calls, of which each says how far it has come.
func (s *Store) Move(ctx context.Context, key, etag, to string) error {
	long, cancel := context.WithTimeout(ctx, mostMoving)
	defer cancel()
	c := &call{method: http.MethodPost, key: key, query: url.Values{},
		path: s.object(key) + "/rewriteTo/b/" + url.PathEscape(s.bucket) + "/o/" + url.PathEscape(to)}
	if etag != "" {
		c.query.Set("ifSourceGenerationMatch", etag)
	}
	for {
		var at struct {
			Done                bool
			RewriteToken        string
			TotalBytesRewritten string
		}
		if err := s.ask(long, c, &at); err != nil {
			return err
		}
		if at.Done {
			return s.Delete(context.WithoutCancel(ctx), key, etag)
		}
		if n, _ := strconv.ParseInt(at.TotalBytesRewritten, 10, 64); at.RewriteToken == "" || n < 0 {
			return engine.Errorf(engine.Transient, "%s: it can't be copied: the copy does not go on", s.what(key))
		}
		c.query.Set("rewriteToken", at.RewriteToken)
	}
}
