package azure

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/azure"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

const (
	noContainer = "the container does not exist"
	create      = "create it, or correct `container`, `account` or `endpoint`"
	mostDelay   = 5 * time.Minute // is believed of Retry-After
)

// causes are what the errors of calls about a blob mean.
var causes = cause.Table{Code: codeOf, Delay: delayOf, Refused: cause.Rejected, Rows: []cause.Row{
	{Codes: []string{"ContainerNotFound", "ContainerDisabled", "ContainerBeingDeleted", "AccountBeingCreated"},
		Kind: cause.Missing, Remedy: create},
	{If: status(http.StatusNotFound), Kind: cause.Rejected, Says: objects.ErrMissing.Error(), Means: objects.ErrMissing},
	{Codes: []string{"BlobAlreadyExists"}, Kind: cause.Rejected, Says: objects.ErrExists.Error(), Means: objects.ErrExists},
	{Codes: []string{"Lease*"}, Kind: cause.Lost, Remedy: "another client holds a lease: wait, or break the lease"},
	{Codes: []string{"BlobArchived", "BlobBeingRehydrated", "BlobImmutableDueToPolicy", "SnapshotsPresent"},
		Kind: cause.Rejected, Remedy: "the state of the blob does not allow this"},
	{If: status(http.StatusPreconditionFailed, http.StatusNotModified), Kind: cause.Rejected,
		Says: objects.ErrChanged.Error(), Means: objects.ErrChanged},
	{If: status(http.StatusUnauthorized, http.StatusForbidden), Kind: cause.Credentials, Remedy: "check the key, signature " +
		"or identity, and that it has a role such as Storage Blob Data Contributor"},
	{Codes: []string{"RequestBodyTooLarge", "MetadataTooLarge", "BlockCountExceedsLimit", "BlockListTooLong",
		"ContentLengthLargerThanTierLimit"}, If: status(http.StatusRequestEntityTooLarge), Kind: cause.TooLarge},
	{Codes: []string{"Md5Mismatch", "MD5Mismatch", "Crc64Mismatch", "CRC64Mismatch", "InvalidBlockList",
		"InvalidBlobOrBlock"}, Kind: cause.Lost},
	{If: passes, Kind: cause.Lost},
	{If: httpx.IsUnsent, Kind: cause.Unreachable, Remedy: "check `account` or `endpoint`, and the network"},
}}

// containerCauses are what the errors of calls about a container mean.
var containerCauses = cause.Table{Code: codeOf, Delay: delayOf, Refused: cause.Rejected, Rows: slices.Concat([]cause.Row{
	{If: status(http.StatusNotFound), Kind: cause.Missing, Says: noContainer, Remedy: create},
}, causes.Rows)}

// explain gives an error of a call its class and a remedy. Without a key, the call was about the container.
func (s *Store) explain(err error, key string) error {
	switch {
	case azure.IsIdentity(err) && !httpx.IsUnsent(err):
		return azure.TokenError(err)
	case key == "":
		return containerCauses.Explain(err, "container "+s.name)
	}
	return causes.Explain(err, "blob "+key+" in container "+s.name)
}

// codeOf returns the code of an answer, or else its status. The URL of a request may have a signature: it is not shown.
func codeOf(err error) (code, text string) {
	if res := answerOf(err); res != nil {
		code = cmp.Or(res.ErrorCode, http.StatusText(res.StatusCode), strconv.Itoa(res.StatusCode))
		return code, strconv.Itoa(res.StatusCode) + " " + code
	}
	unsent := httpx.IsUnsent(err)
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if unsent {
		return "", "can't be reached: " + err.Error()
	}
	return "", err.Error()
}

func answerOf(err error) *azcore.ResponseError {
	res, _ := errors.AsType[*azcore.ResponseError](err)
	return res
}

func delayOf(err error) time.Duration {
	if res := answerOf(err); res != nil && res.RawResponse != nil {
		return min(httpx.RetryAfter(res.RawResponse.Header.Get("Retry-After"), time.Now()), mostDelay)
	}
	return 0
}

func status(all ...int) func(error) bool {
	return func(err error) bool {
		res := answerOf(err)
		return res != nil && slices.Contains(all, res.StatusCode)
	}
}

// passes reports whether the status of an answer says that the same request may work later.
func passes(err error) bool {
	res := answerOf(err)
	return res != nil && (res.StatusCode >= 500 ||
		status(http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests)(err))
}
