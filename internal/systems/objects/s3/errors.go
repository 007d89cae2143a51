package s3

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/systems/aws"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

const (
	noBucket = "the bucket does not exist"
	create   = "create it, or correct `bucket`, `region` or `endpoint`"
)

// causes are what the errors of calls about an object mean.
var causes = cause.Table{Code: codeOf, Delay: aws.DelayOf, Rows: slices.Concat([]cause.Row{
	{Codes: []string{"NoSuchBucket"}, Kind: cause.Missing, Says: noBucket, Remedy: create},
	{Codes: []string{"NoSuchUpload"}, Kind: cause.Lost},
	{If: status(http.StatusNotFound), Kind: cause.Rejected, Says: objects.ErrMissing.Error(), Means: objects.ErrMissing},
	{If: status(http.StatusPreconditionFailed), Kind: cause.Rejected, Says: objects.ErrChanged.Error(),
		Means: objects.ErrChanged},
	{If: isElsewhere, Kind: cause.Missing, Remedy: "correct `region` or `endpoint`"},
	{Codes: []string{"InvalidObjectState"}, Kind: cause.Rejected, Remedy: "restore the object: it is archived"},
	{Codes: []string{"EntityTooLarge", "MetadataTooLarge", "KeyTooLongError"}, Kind: cause.TooLarge,
		Remedy: "send less at once, such as by `bytes` of `batch`"},
	{Codes: []string{"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"},
		If: status(http.StatusInsufficientStorage), Kind: cause.Busy, Remedy: "make room in the store: until then, all messages wait"},
	{Codes: []string{"NotImplemented"}, If: status(http.StatusNotImplemented), Kind: cause.Rejected,
		Remedy: "the store does not support this"},
	{Codes: []string{"InvalidToken", "TokenRefreshRequired", "Forbidden", "AllAccessDisabled", "AccountProblem", "NotSignedUp",
		"InvalidPayer", "RequestTimeTooSkewed"}, Kind: cause.Credentials,
		Remedy: "check the credentials, their permissions, and the machine's clock"},
	{Codes: []string{"RequestTimeout", "OperationAborted", "ConditionalRequestConflict", "BadDigest", "IncompleteBody",
		"XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch", "RestoreAlreadyInProgress", "KMS.*"}, Kind: cause.Lost},
}, aws.Causes, []cause.Row{
	{If: status(http.StatusRequestTimeout, http.StatusTooManyRequests), Kind: cause.Throttled},
	{If: blamesRequest, Kind: cause.Rejected},
})}

// bucketCauses are what the errors of calls about a bucket mean.
var bucketCauses = cause.Table{Code: causes.Code, Delay: causes.Delay, Rows: slices.Concat([]cause.Row{
	{If: status(http.StatusNotFound), Kind: cause.Missing, Says: noBucket, Remedy: create},
}, causes.Rows)}

// explain gives an error of a call its class and a remedy. Without a key, the call was about the bucket.
func (s *Store) explain(err error, key string) error {
	if err == nil {
		return nil
	}
	if s.wrongRegion(err) {
		err = &elsewhere{err, fmt.Sprintf("the bucket is not in %s, but in %s", s.session.Region(),
			cmp.Or(regionOf(err), "another region"))}
	}
	if key == "" {
		return bucketCauses.Explain(err, "bucket "+s.bucket)
	}
	return causes.Explain(err, "object "+key+" in bucket "+s.bucket)
}

func codeOf(err error) (code, text string) {
	if e, ok := errors.AsType[*elsewhere](err); ok {
		return "", e.text
	}
	return aws.CodeOf(err)
}

// elsewhere is the error of a call to another region than the bucket's.
type elsewhere struct {
	error
	text string
}

func (e *elsewhere) Unwrap() error { return e.error }

func isElsewhere(err error) bool {
	_, ok := errors.AsType[*elsewhere](err)
	return ok
}

var redirects = []string{"PermanentRedirect", "MovedPermanently", "TemporaryRedirect", "Redirect",
	"AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}

func (s *Store) wrongRegion(err error) bool {
	if code, _ := aws.CodeOf(err); slices.Contains(redirects, code) || statusOf(err) == http.StatusMovedPermanently {
		return true
	}
	r := regionOf(err)
	return statusOf(err) == http.StatusBadRequest && r != "" && r != s.session.Region()
}

func status(all ...int) func(error) bool {
	return func(err error) bool { return slices.Contains(all, statusOf(err)) }
}

func blamesRequest(err error) bool { return statusOf(err) >= 400 && statusOf(err) < 500 }

// statusOf is the status of the answer that was an error, or 0.
func statusOf(err error) int {
	if res := responseOf(err); res != nil {
		return res.StatusCode
	}
	return 0
}

// regionOf is where the bucket is, as an answer says.
func regionOf(err error) string {
	if res := responseOf(err); res != nil {
		return res.Header.Get("X-Amz-Bucket-Region")
	}
	return ""
}

func responseOf(err error) *smithyhttp.Response {
	if res, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return res.Response
	}
	return nil
}
