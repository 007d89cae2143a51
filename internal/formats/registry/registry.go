package registry

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/schema"
)

var (
	_ engine.SchemaRegistry = (*Registry)(nil)
	_ engine.Opener         = (*Registry)(nil)
	_ engine.Closer         = (*Registry)(nil)
)

// Registry queries one registry, and caches its answers. Between Open and Close, it is safe for concurrent use.
type Registry struct {
	cfg     Config
	secrets *schema.Secrets // masked in errors
	client  *client
	memo    *memo
}

// Open reads certificates. The first request connects.
func (r *Registry) Open(context.Context) (err error) {
	r.client, err = newClient(&r.cfg, r.secrets)
	return err
}

// Close closes idle connections.
func (r *Registry) Close(context.Context) error {
	r.client.http.CloseIdleConnections()
	return nil
}

// Schema returns the schema of an id. It never changes, so it is requested once.
func (r *Registry) Schema(ctx context.Context, id int) (*engine.Schema, error) {
	return r.memo.get(ctx, key{what: "id", id: id}, func(ctx context.Context) (*engine.Schema, time.Duration, error) {
		s, err := r.client.api.SchemaByID(ctx, id)
		if err != nil {
			return nil, r.cfg.AskAgain, r.client.failure(err, engine.Decode, "schema id %d", id)
		}
		return r.resolveReferences(ctx, sr.SubjectSchema{ID: id, Schema: s})
	})
}

// Newest returns the newest version of a subject. While the registry is unreachable, the last known version stays in
// use.
func (r *Registry) Newest(ctx context.Context, subject string) (*engine.Schema, error) {
	return r.memo.get(ctx, key{what: "newest", subject: subject},
		func(ctx context.Context) (*engine.Schema, time.Duration, error) {
			const newest = -1
			s, err := r.client.api.SchemaByVersion(ctx, subject, newest)
			if err != nil {
				return nil, r.cfg.AskAgain, r.client.failure(err, engine.Permanent, "the newest schema of subject %q", subject)
			}
			found, _, err := r.resolveReferences(ctx, s)
			return found, r.cfg.Refresh, err
		})
}

// Find returns a subject's schema with a given text.
func (r *Registry) Find(ctx context.Context, subject string, s engine.Schema) (*engine.Schema, error) {
	return r.memo.get(ctx, keyOf("find", subject, s), func(ctx context.Context) (*engine.Schema, time.Duration, error) {
		found, err := r.find(ctx, subject, s)
		if isUnknown(err) {
			return nil, r.cfg.AskAgain, engine.Errorf(engine.Permanent,
				"the schema is not one of subject %q (register it, or set `register: true`)", subject)
		}
		if err != nil {
			return nil, r.cfg.AskAgain, r.client.failure(err, engine.Permanent, "the schema for subject %q", subject)
		}
		return found, forever, nil
	})
}

// Register returns a subject's schema, and adds it if the registry finds it compatible.
func (r *Registry) Register(ctx context.Context, subject string, s engine.Schema) (*engine.Schema, error) {
	return r.memo.get(ctx, keyOf("register", subject, s),
		func(ctx context.Context) (*engine.Schema, time.Duration, error) {
			found, err := r.find(ctx, subject, s)
			if isUnknown(err) {
				found, err = r.add(ctx, subject, s)
			}
			if err != nil {
				return nil, r.cfg.AskAgain, r.client.failure(err, engine.Permanent, "the schema for subject %q", subject)
			}
			return found, forever, nil
		})
}

func (r *Registry) find(ctx context.Context, subject string, s engine.Schema) (*engine.Schema, error) {
	found, err := r.client.api.LookupSchema(ctx, subject, asked(s))
	if err != nil {
		return nil, err
	}
	s.ID = found.ID
	return &s, nil
}

// add registers a schema. The registry would reject an incompatible one by itself; asking first gives the reason.
func (r *Registry) add(ctx context.Context, subject string, s engine.Schema) (*engine.Schema, error) {
	const allVersions, anyID = -2, -1
	fits, err := r.client.api.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), subject, allVersions, asked(s))
	switch {
	case isUnknown(err): // the subject's first schema
	case err != nil:
		return nil, err
	case !fits.Is:
		return nil, engine.Errorf(engine.Permanent, "the schema is not compatible with those of subject %q: %s", subject,
			call.Head([]byte(strings.Join(fits.Messages, "; ")), maxQuoted, r.secrets))
	}
	if s.ID, err = r.client.api.RegisterSchema(ctx, subject, asked(s), anyID, anyID); err != nil {
		return nil, err
	}
	return &s, nil
}

func asked(s engine.Schema) sr.Schema {
	a := sr.Schema{Schema: s.Text}
	_ = a.Type.UnmarshalText([]byte(s.Type)) // one of the three known types
	return a
}

func keyOf(what, subject string, s engine.Schema) key {
	return key{what: what, subject: subject, kind: s.Type, text: s.Text}
}

const (
	mostNeeds = 256      // schemas that one refers to, directly or indirectly
	mostText  = 16 << 20 // bytes in total
)

// resolveReferences returns a schema with everything that it refers to.
func (r *Registry) resolveReferences(ctx context.Context, from sr.SubjectSchema) (*engine.Schema, time.Duration, error) {
	s := &engine.Schema{ID: from.ID, Type: from.Type.String(), Text: from.Schema.Schema}
	type version struct {
		subject string
		number  int
	}
	seen, bytes := map[version]bool{}, len(s.Text)
	var add func(all []sr.SchemaReference) error
	add = func(all []sr.SchemaReference) error {
		for _, ref := range all {
			at := version{ref.Subject, ref.Version}
			if seen[at] {
				continue
			}
			seen[at] = true
			needed, err := r.client.api.SchemaByVersion(sr.WithParams(ctx, sr.ShowDeleted), ref.Subject, ref.Version)
			if err != nil {
				return r.client.failure(err, engine.Decode, "version %d of subject %q, to which schema id %d refers",
					ref.Version, ref.Subject, from.ID)
			}
			if bytes += len(needed.Schema.Schema); len(seen) > mostNeeds || bytes > mostText {
				return engine.Errorf(engine.Decode, "schema id %d refers to more than %d schemas or %d MiB", from.ID, mostNeeds,
					mostText>>20)
			}
			if err := add(needed.References); err != nil {
				return err
			}
			s.Needs = append(s.Needs, engine.NamedSchema{Name: ref.Name, Text: needed.Schema.Schema})
		}
		return nil
	}
	if err := add(from.References); err != nil {
		return nil, r.cfg.AskAgain, err
	}
	return s, forever, nil
}
