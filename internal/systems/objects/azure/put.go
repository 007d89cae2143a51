package azure

import (
	"bytes"
	"context"
	"crypto/md5" // #nosec G501 -- what the service has, against damage
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc64"
	"mime"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

const (
	slowest    = 64 << 10 // bytes per second: the deadline of a block leaves time for it
	mostBlocks = 50_000   // of a blob
	atOnce     = 4        // blocks of one blob
)

// Put writes a blob, in blocks if it is large.
func (s *Store) Put(ctx context.Context, p *objects.Put) error {
	var err error
	if len(p.Body) <= p.PartSize || p.PartSize <= 0 {
		err = s.putWhole(ctx, p)
	} else {
		err = s.putBlocks(ctx, p)
	}
	if err = s.explain(err, p.Key); errors.Is(err, objects.ErrChanged) {
		return engine.Errorf(engine.Rejected, "blob %s in container %s: %w", p.Key, s.name, objects.ErrExists)
	}
	return err
}

func (s *Store) putWhole(ctx context.Context, p *objects.Put) error {
	ctx, cancel := within(ctx, len(p.Body))
	defer cancel()
	_, err := s.client.NewBlockBlobClient(p.Key).Upload(ctx, streaming.NopCloser(bytes.NewReader(p.Body)),
		&blockblob.UploadOptions{Tags: tags(p.Tags), Metadata: metadata(p.Metadata), Tier: s.tier(), HTTPHeaders: s.headers(p),
			CPKScopeInfo: s.scope(), AccessConditions: onlyNew(p), TransactionalValidation: s.sum(p.Body)})
	return err
}

// putBlocks writes a large blob, which is there once its blocks are committed. The service
// removes blocks that never are after a week.
func (s *Store) putBlocks(ctx context.Context, p *objects.Put) error {
	client := s.client.NewBlockBlobClient(p.Key)
	size := max(p.PartSize, (len(p.Body)+mostBlocks-1)/mostBlocks)
	ids := make([]string, (len(p.Body)+size-1)/size)
	errs := make([]error, len(ids))
	all, stop := context.WithCancel(ctx)
	defer stop()
	name := rand.Text() // blocks of others that write this blob have another
	call.Beside(atOnce, len(ids), func(i int) {
		body := p.Body[i*size : min((i+1)*size, len(p.Body))]
		ids[i] = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%06d", name, i))
		each, cancel := within(all, len(body))
		defer cancel()
		_, errs[i] = client.StageBlock(each, ids[i], streaming.NopCloser(bytes.NewReader(body)),
			&blockblob.StageBlockOptions{CPKScopeInfo: s.scope(), TransactionalValidation: s.sum(body)})
		if errs[i] != nil {
			stop()
		}
	})
	if err := first(errs); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	_, err := client.CommitBlockList(ctx, ids, &blockblob.CommitBlockListOptions{Tags: tags(p.Tags),
		Metadata: metadata(p.Metadata), Tier: s.tier(), HTTPHeaders: s.headers(p), CPKScopeInfo: s.scope(),
		AccessConditions: onlyNew(p)})
	return err
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

// within is the deadline of a call with so many bytes.
func within(ctx context.Context, size int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout+time.Duration(size/slowest)*time.Second)
}

func (s *Store) tier() *blob.AccessTier {
	if s.Tier == "" {
		return nil
	}
	t := blob.AccessTier(s.Tier)
	return &t
}

func (s *Store) scope() *blob.CPKScopeInfo {
	if s.Scope == "" {
		return nil
	}
	return &blob.CPKScopeInfo{EncryptionScope: &s.Scope}
}

func (s *Store) headers(p *objects.Put) *blob.HTTPHeaders {
	h := &blob.HTTPHeaders{BlobContentType: optional(p.ContentType), BlobContentEncoding: optional(p.ContentEncoding)}
	if s.Checksum == "md5" {
		sum := md5.Sum(p.Body) // #nosec G401 -- as above
		h.BlobContentMD5 = sum[:]
	}
	return h
}

// azureCRC is the polynomial of the service.
var azureCRC = sync.OnceValue(func() *crc64.Table { return crc64.MakeTable(0x9A6C9329AC4BC9B5) })

// sum is what the service verifies of a request.
func (s *Store) sum(body []byte) blob.TransferValidationType {
	switch s.Checksum {
	case "md5":
		sum := md5.Sum(body) // #nosec G401 -- as above
		return blob.TransferValidationTypeMD5(sum[:])
	case "crc64":
		return blob.TransferValidationTypeCRC64(crc64.Checksum(body, azureCRC()))
	}
	return nil
}

func onlyNew(p *objects.Put) *blob.AccessConditions {
	if !p.IfAbsent {
		return nil
	}
	any := azcore.ETagAny
	return &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: &any}}
}

func tags(pairs []objects.Pair) map[string]string {
	if len(pairs) == 0 {
		return nil
	}
	all := make(map[string]string, len(pairs))
	for _, p := range pairs {
		all[p.Name] = p.Value
	}
	return all
}

// metadata is what blobs can have: names are identifiers, and values are headers, in ASCII.
func metadata(pairs []objects.Pair) map[string]*string {
	all := make(map[string]*string, len(pairs))
	for _, p := range pairs {
		name := strings.ReplaceAll(p.Name, "-", "_")
		if name[0] >= '0' && name[0] <= '9' {
			name = "_" + name
		}
		text := mime.BEncoding.Encode("UTF-8", p.Value)
		all[name] = &text
	}
	return all
}
