package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"hash/crc32"
	"mime"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

const (
	slowest  = 64 << 10 // bytes per second: the deadline of a part leaves time for it
	mostPart = 10_000   // of an object
	atOnce   = 4        // parts of one object
)

// Put writes an object, in parts if it is large. An upload in parts that fails is aborted:
// its parts would stay, unseen, and cost.
func (s *Store) Put(ctx context.Context, p *objects.Put) error {
	var err error
	if len(p.Body) <= p.PartSize || p.PartSize <= 0 {
		err = s.putWhole(ctx, p)
	} else {
		err = s.putParts(ctx, p)
	}
	if errors.Is(err, objects.ErrChanged) {
		return engine.Errorf(engine.Rejected, "object %s in bucket %s: %w", p.Key, s.bucket, objects.ErrExists)
	}
	return err
}

func (s *Store) putWhole(ctx context.Context, p *objects.Put) error {
	ctx, cancel := within(ctx, len(p.Body))
	defer cancel()
	sum := s.sum(p.Body)
	_, err := s.client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: &s.bucket, Key: &p.Key, Body: bytes.NewReader(p.Body), ContentLength: aws.Int64(int64(len(p.Body))),
		ContentType: optional(p.ContentType), ContentEncoding: optional(p.ContentEncoding), Metadata: headers(p.Metadata),
		Tagging: tagging(p.Tags), IfNoneMatch: onlyNew(p), StorageClass: s.StorageClass,
		ServerSideEncryption: s.Encryption, SSEKMSKeyId: optional(s.KMSKey), BucketKeyEnabled: s.bucketKey(), ACL: s.ACL,
		ChecksumCRC32C: sum.of("crc32c"), ChecksumCRC32: sum.of("crc32"), ChecksumSHA256: sum.of("sha256"),
	}, s.unsigned)
	return s.explain(err, p.Key)
}

// putParts writes a large object. It is there when its last call has succeeded.
func (s *Store) putParts(ctx context.Context, p *objects.Put) error {
	size := max(p.PartSize, (len(p.Body)+mostPart-1)/mostPart)
	begin, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	up, err := s.client.CreateMultipartUpload(begin, &awss3.CreateMultipartUploadInput{
		Bucket: &s.bucket, Key: &p.Key, ContentType: optional(p.ContentType), ContentEncoding: optional(p.ContentEncoding),
		Metadata: headers(p.Metadata), Tagging: tagging(p.Tags), StorageClass: s.StorageClass,
		ServerSideEncryption: s.Encryption, SSEKMSKeyId: optional(s.KMSKey), BucketKeyEnabled: s.bucketKey(), ACL: s.ACL,
		ChecksumAlgorithm: s.algorithm(),
	})
	if err != nil {
		return s.explain(err, p.Key)
	}
	parts := make([]types.CompletedPart, (len(p.Body)+size-1)/size)
	errs := make([]error, len(parts))
	all, stop := context.WithCancel(ctx)
	defer stop()
	call.Beside(atOnce, len(parts), func(i int) {
		part := p.Body[i*size : min((i+1)*size, len(p.Body))]
		if parts[i], errs[i] = s.putPart(all, p.Key, up.UploadId, i, part); errs[i] != nil {
			stop()
		}
	})
	if err = first(errs); err == nil {
		err = s.complete(ctx, p.Key, up.UploadId, parts, onlyNew(p))
	}
	if err != nil {
		s.abort(ctx, p.Key, up.UploadId)
	}
	return s.explain(err, p.Key)
}

// first is the first of the errors that is not only the end of the others.
func first(errs []error) (err error) {
	for _, e := range errs {
		if e != nil && (err == nil || errors.Is(err, context.Canceled)) {
			err = e
		}
	}
	return err
}

func (s *Store) putPart(ctx context.Context, key string, upload *string, i int,
	body []byte) (types.CompletedPart, error) {
	ctx, cancel := within(ctx, len(body))
	defer cancel()
	sum := s.sum(body)
	part := types.CompletedPart{PartNumber: aws.Int32(int32(i + 1)), ChecksumCRC32C: sum.of("crc32c"),
		ChecksumCRC32: sum.of("crc32"), ChecksumSHA256: sum.of("sha256")}
	out, err := s.client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &s.bucket, Key: &key, UploadId: upload, PartNumber: part.PartNumber, Body: bytes.NewReader(body),
		ContentLength: aws.Int64(int64(len(body))), ChecksumCRC32C: part.ChecksumCRC32C,
		ChecksumCRC32: part.ChecksumCRC32, ChecksumSHA256: part.ChecksumSHA256, ChecksumAlgorithm: s.algorithm(),
	}, s.unsigned)
	if err != nil {
		return part, err
	}
	part.ETag = out.ETag
	return part, nil
}

func (s *Store) complete(ctx context.Context, key string, upload *string, parts []types.CompletedPart,
	only *string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout) // S3 puts the parts together meanwhile
	defer cancel()
	_, err := s.client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{Bucket: &s.bucket, Key: &key,
		UploadId: upload, IfNoneMatch: only, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
	return err
}

// abort removes the parts of an upload. Where that fails as well, a lifecycle rule of the
// bucket has to.
func (s *Store) abort(ctx context.Context, key string, upload *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, _ = s.client.AbortMultipartUpload(ctx,
		&awss3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: &key, UploadId: upload})
}

// within is the deadline of a call with so many bytes.
func within(ctx context.Context, size int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout+time.Duration(size/slowest)*time.Second)
}

// unsigned leaves the payload out of the signature where TLS and a checksum protect it:
// hashing it would cost more than sending it.
func (s *Store) unsigned(o *awss3.Options) {
	if !s.signed && s.algorithm() != "" {
		o.APIOptions = append(o.APIOptions, v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
	}
}

func (s *Store) bucketKey() *bool {
	if s.BucketKey {
		return &s.BucketKey
	}
	return nil
}

func onlyNew(p *objects.Put) *string {
	if p.IfAbsent {
		return aws.String("*")
	}
	return nil
}

// sum is a checksum and what it is called.
type sum struct{ name, text string }

func (s sum) of(name string) *string {
	if s.name != name {
		return nil
	}
	return &s.text
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *Store) sum(body []byte) sum {
	var h hash.Hash
	switch s.Checksum {
	case "crc32c":
		h = crc32.New(castagnoli)
	case "crc32":
		h = crc32.NewIEEE()
	case "sha256":
		h = sha256.New()
	default:
		return sum{}
	}
	h.Write(body)
	return sum{s.Checksum, base64.StdEncoding.EncodeToString(h.Sum(nil))}
}

func (s *Store) algorithm() types.ChecksumAlgorithm {
	if s.Checksum == "none" {
		return ""
	}
	return types.ChecksumAlgorithm(strings.ToUpper(s.Checksum))
}

// headers are metadata as headers carry it: in ASCII.
func headers(pairs []objects.Pair) map[string]string {
	all := make(map[string]string, len(pairs))
	for _, p := range pairs {
		all[p.Name] = mime.BEncoding.Encode("UTF-8", p.Value)
	}
	return all
}

func tagging(pairs []objects.Pair) *string {
	all := url.Values{}
	for _, p := range pairs {
		all.Set(p.Name, p.Value)
	}
	return optional(all.Encode())
}
