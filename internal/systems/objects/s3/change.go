package s3

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

const (
	mostCopied = 5 << 30 // bytes that one copy takes
	copyPart   = 1 << 30
)

// head sees that an object is still the one with this etag. Not every store that speaks the
// protocol knows conditions of other calls.
func (s *Store) head(ctx context.Context, key, etag string) (*awss3.HeadObjectOutput, error) {
	out, err := s.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return nil, s.explain(err, key)
	}
	if now := unquoted(out.ETag); etag != "" && now != etag {
		return nil, engine.Errorf(engine.Rejected, "object %s in bucket %s: %w", key, s.bucket, objects.ErrChanged)
	}
	return out, nil
}

// Delete deletes an object.
func (s *Store) Delete(ctx context.Context, key, etag string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.head(ctx, key, etag); err != nil {
		return err
	}
	return s.remove(ctx, key)
}

func (s *Store) remove(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := s.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	return s.explain(err, key)
}

// Tag adds tags to those that the object has.
func (s *Store) Tag(ctx context.Context, key, etag string, tags []objects.Pair) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.head(ctx, key, etag); err != nil {
		return err
	}
	has, err := s.client.GetObjectTagging(ctx, &awss3.GetObjectTaggingInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return s.explain(err, key)
	}
	var all []types.Tag
	set := map[string]bool{}
	for _, p := range tags {
		set[p.Name] = true
		all = append(all, types.Tag{Key: aws.String(p.Name), Value: aws.String(p.Value)})
	}
	for _, t := range has.TagSet {
		if !set[aws.ToString(t.Key)] {
			all = append(all, t)
		}
	}
	_, err = s.client.PutObjectTagging(ctx, &awss3.PutObjectTaggingInput{Bucket: &s.bucket, Key: &key,
		Tagging: &types.Tagging{TagSet: all}})
	return s.explain(err, key)
}

// Move copies an object within the bucket and deletes it then.
func (s *Store) Move(ctx context.Context, key, etag, to string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	old, err := s.head(ctx, key, etag)
	if err != nil {
		return err
	}
	// What is copied within S3 takes no time of the network, but some of the service.
	size := aws.ToInt64(old.ContentLength)
	long, stop := within(context.WithoutCancel(ctx), int(size/256))
	defer stop()
	source := escaped(s.bucket + "/" + key)
	if size > mostCopied {
		err = s.copyParts(long, key, source, to, old)
	} else {
		_, err = s.client.CopyObject(long, &awss3.CopyObjectInput{Bucket: &s.bucket, Key: &to, CopySource: &source,
			CopySourceIfMatch: quoted(etag), StorageClass: types.StorageClass(old.StorageClass)})
	}
	if err != nil {
		return s.explain(err, key)
	}
	return s.remove(context.WithoutCancel(ctx), key)
}

// copyParts copies an object that is too large for one call.
func (s *Store) copyParts(ctx context.Context, key, source, to string, old *awss3.HeadObjectOutput) error {
	var tags []objects.Pair
	if aws.ToInt32(old.TagCount) > 0 {
		has, err := s.client.GetObjectTagging(ctx, &awss3.GetObjectTaggingInput{Bucket: &s.bucket, Key: &key})
		if err != nil {
			return err
		}
		for _, t := range has.TagSet {
			tags = append(tags, objects.Pair{Name: aws.ToString(t.Key), Value: aws.ToString(t.Value)})
		}
	}
	up, err := s.client.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &to,
		ContentType: old.ContentType, ContentEncoding: old.ContentEncoding, Metadata: old.Metadata, Tagging: tagging(tags),
		StorageClass: types.StorageClass(old.StorageClass)})
	if err != nil {
		return err
	}
	var parts []types.CompletedPart
	for from := int64(0); from < aws.ToInt64(old.ContentLength) && err == nil; from += copyPart {
		n := aws.Int32(int32(len(parts) + 1))
		var out *awss3.UploadPartCopyOutput
		out, err = s.client.UploadPartCopy(ctx, &awss3.UploadPartCopyInput{Bucket: &s.bucket, Key: &to,
			UploadId: up.UploadId, PartNumber: n, CopySource: &source, CopySourceIfMatch: old.ETag,
			CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", from, min(from+copyPart, *old.ContentLength)-1))})
		if err == nil && out.CopyPartResult != nil {
			parts = append(parts, types.CompletedPart{PartNumber: n, ETag: out.CopyPartResult.ETag})
		}
	}
	if err == nil {
		err = s.complete(ctx, to, up.UploadId, parts, nil)
	}
	if err != nil {
		s.abort(ctx, to, up.UploadId)
	}
	return err
}

// escaped is a path as a header has it. Some take a plus sign for a space.
func escaped(path string) string {
	return strings.NewReplacer("%2F", "/", "+", "%2B").Replace(url.PathEscape(path))
}
