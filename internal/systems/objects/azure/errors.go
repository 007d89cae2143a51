package azure

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/azure"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

// The codes that are distinguished.
var (
	absent = []string{"ContainerNotFound", "ContainerDisabled", "ContainerBeingDeleted", "AccountBeingCreated"}
	kept   = []string{"BlobArchived", "BlobBeingRehydrated", "BlobImmutableDueToPolicy", "SnapshotsPresent"}
	large  = []string{"RequestBodyTooLarge", "MetadataTooLarge", "BlockCountExceedsLimit", "BlockListTooLong",
		"ContentLengthLargerThanTierLimit"}
	again = []string{"Md5Mismatch", "MD5Mismatch", "Crc64Mismatch", "CRC64Mismatch", "InvalidBlockList", "InvalidBlobOrBlock"}
)

const mostDelay = 5 * time.Minute // is believed of Retry-After

// classify gives an error of a call its class and a remedy. Without a key, the call was about
// the container.
func (s *Store) classify(err error, key string) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*engine.Error](err); known {
		return err
	}
	what := "container " + s.name
	if key != "" {
		what = "blob " + key + " in " + what
	}
	if res, ok := errors.AsType[*azcore.ResponseError](err); ok && !azure.IsIdentity(err) {
		e := s.meaning(res.StatusCode, res.ErrorCode, what, key)
		if res.RawResponse != nil {
			e.Delay = min(httpx.RetryAfter(res.RawResponse.Header.Get("Retry-After"), time.Now()), mostDelay)
		}
		return e
	}
	unsent := httpx.IsUnsent(err)
	if u, ok := errors.AsType[*url.Error](err); ok { // its URL may have a signature
		err = u.Err
	}
	switch {
	case unsent:
		e := engine.Errorf(engine.Transient, "%s: can't be reached: %w (check `account` or `endpoint`, and the network)", what,
			err)
		if errors.Is(err, context.DeadlineExceeded) {
			e.Class = engine.Timeout
		}
		e.Holds = true
		return e
	case azure.IsIdentity(err):
		return azure.Refused(err)
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return engine.Errorf(engine.Timeout, "%s: no answer in time: %w", what, err)
	}
	return engine.Errorf(engine.Transient, "%s: %w", what, err)
}

func (s *Store) meaning(status int, code, what, key string) *engine.Error {
	text := cmp.Or(code, http.StatusText(status))
	switch {
	case slices.Contains(absent, code), status == http.StatusNotFound && key == "":
		e := engine.Errorf(engine.Transient,
			"container %s does not exist: %s (create it, or correct `container`, `account` or `endpoint`)", s.name, text)
		e.Holds, e.Mistake = true, true
		return e
	case status == http.StatusNotFound:
		return engine.Errorf(engine.Rejected, "%s: %w", what, objects.ErrMissing)
	case code == "BlobAlreadyExists":
		return engine.Errorf(engine.Rejected, "%s: %w", what, objects.ErrExists)
	case strings.HasPrefix(code, "Lease"):
		return engine.Errorf(engine.Transient, "%s: another client has a lease on it: %s (wait, or break the lease)", what,
			code)
	case slices.Contains(kept, code):
		return engine.Errorf(engine.Rejected, "%s: its state does not allow this: %s", what, code)
	case status == http.StatusPreconditionFailed, status == http.StatusNotModified:
		return engine.Errorf(engine.Rejected, "%s: %w", what, objects.ErrChanged)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return engine.Errorf(engine.Auth,
			"%s: refused: %s (check the key, signature or identity, and that it has a role such as Storage Blob Data Contributor)",
			what, text)
	case slices.Contains(large, code), status == http.StatusRequestEntityTooLarge:
		return engine.Errorf(engine.TooLarge, "%s: %s", what, text)
	case slices.Contains(again, code), status == http.StatusRequestTimeout, status == http.StatusConflict,
		status == http.StatusTooManyRequests, status >= 500:
		return engine.Errorf(engine.Transient, "%s: %d %s", what, status, text)
	}
	return engine.Errorf(engine.Rejected, "%s: %d %s", what, status, text)
}
