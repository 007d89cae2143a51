package azure

import (
	"context"
	"maps"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/components/timing"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

// Delete deletes a blob.
func (s *Store) Delete(ctx context.Context, key, etag string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.client.NewBlobClient(key).Delete(ctx, &blob.DeleteOptions{AccessConditions: only(etag)})
	return s.explain(err, key)
}

// tagsOf are the tags of a blob that has this etag: the service knows no such condition of
// tags in all its versions.
func (s *Store) tagsOf(ctx context.Context, b *blob.Client, etag string) (map[string]string, error) {
	now, err := b.GetProperties(ctx, &blob.GetPropertiesOptions{AccessConditions: only(etag)})
	all := map[string]string{}
	if err != nil || value(now.TagCount) == 0 {
		return all, err
	}
	has, err := b.GetTags(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, t := range has.BlobTagSet {
		all[value(t.Key)] = value(t.Value)
	}
	return all, nil
}

// Tag adds tags to those that the blob has.
func (s *Store) Tag(ctx context.Context, key, etag string, pairs []objects.Pair) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b := s.client.NewBlobClient(key)
	all, err := s.tagsOf(ctx, b, etag)
	if err != nil {
		return s.explain(err, key)
	}
	maps.Copy(all, tags(pairs))
	_, err = b.SetTags(ctx, all, nil)
	return s.explain(err, key)
}

const (
	mostMoving = 10 * time.Minute       // that a blob may take to be copied within the service
	look       = 500 * time.Millisecond // between looks at how far it is
)

// Move copies a blob within the container and deletes it then.
func (s *Store) Move(ctx context.Context, key, etag, to string) error {
	ctx, cancel := context.WithTimeout(ctx, mostMoving)
	defer cancel()
	from, dst := s.client.NewBlobClient(key), s.client.NewBlobClient(to)
	all, err := s.tagsOf(ctx, from, etag)
	if err != nil {
		return s.explain(err, key)
	}
	o := &blob.StartCopyFromURLOptions{BlobTags: all}
	if etag != "" {
		o.SourceModifiedAccessConditions = &blob.SourceModifiedAccessConditions{SourceIfMatch: quoted(etag)}
	}
	began, err := dst.StartCopyFromURL(ctx, from.URL(), o)
	if err != nil {
		return s.explain(err, key)
	}
	for state := value(began.CopyStatus); state != blob.CopyStatusTypeSuccess; {
		if state == blob.CopyStatusTypeFailed || state == blob.CopyStatusTypeAborted {
			return engine.Errorf(engine.Transient, "blob %s in container %s: the copy to %s has ended: %s", key, s.name, to, state)
		}
		if err := timing.Sleep(ctx, look); err != nil {
			s.abort(ctx, dst, began.CopyID)
			return err
		}
		now, err := dst.GetProperties(ctx, nil)
		if err != nil {
			return s.explain(err, to)
		}
		state = value(now.CopyStatus)
	}
	return s.Delete(context.WithoutCancel(ctx), key, etag)
}

// abort ends a copy that takes too long.
func (s *Store) abort(ctx context.Context, b *blob.Client, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, _ = b.AbortCopyFromURL(ctx, value(id), nil)
}
