package s3

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	smithy "github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/aws"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

// The codes of S3 that internal/systems/aws does not know.
var (
	elsewhere = []string{"PermanentRedirect", "MovedPermanently", "TemporaryRedirect", "Redirect",
		"AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
	refused = []string{"InvalidToken", "TokenRefreshRequired", "Forbidden", "AllAccessDisabled", "AccountProblem",
		"NotSignedUp", "InvalidPayer", "RequestTimeTooSkewed"}
	full  = []string{"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"}
	again = []string{"RequestTimeout", "OperationAborted", "ConditionalRequestConflict", "BadDigest", "IncompleteBody",
		"XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch", "NoSuchUpload", "RestoreAlreadyInProgress"}
)

// classify gives an error of a call its class and a remedy. Without a key, the call was
// about the bucket.
func (s *Store) classify(err error, key string) error {
	if err == nil {
		return nil
	}
	what := "bucket " + s.bucket
	if key != "" {
		what = "object " + key + " in " + what
	}
	code, status := "", statusOf(err)
	said := err // in the words of the store, without those of the library
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
		said = api
		if text := api.ErrorMessage(); text != "" {
			said = fmt.Errorf("%s: %s", code, text)
		}
	}
	switch {
	case code == "NoSuchBucket", status == http.StatusNotFound && key == "":
		return mistake(engine.Errorf(engine.Transient,
			"bucket %s does not exist (create it, or correct `bucket`, `region` or `endpoint`)", s.bucket))
	case status == http.StatusNotFound && code != "NoSuchUpload":
		return engine.Errorf(engine.Rejected, "%s: %w", what, objects.ErrMissing)
	case status == http.StatusPreconditionFailed:
		return engine.Errorf(engine.Rejected, "%s: %w", what, objects.ErrChanged)
	case slices.Contains(elsewhere, code), status == http.StatusMovedPermanently,
		status == http.StatusBadRequest && s.wrongRegion(err):
		return mistake(engine.Errorf(engine.Transient, "bucket %s is not in %s, but in %s (correct `region` or `endpoint`)",
			s.bucket, s.session.Region(), cmp.Or(regionOf(err), "another region")))
	case code == "InvalidObjectState":
		return engine.Errorf(engine.Rejected, "%s: is archived: %w (restore it)", what, said)
	case code == "EntityTooLarge", code == "MetadataTooLarge", code == "KeyTooLongError":
		return engine.Errorf(engine.TooLarge, "%s: %w (send less at once, such as by `bytes` of `batch`)", what, said)
	case slices.Contains(full, code), status == http.StatusInsufficientStorage:
		return held(engine.Errorf(engine.Transient, "%s: %w (make room in the store: until then, all messages wait)", what, said))
	case code == "NotImplemented", status == http.StatusNotImplemented:
		return engine.Errorf(engine.Rejected, "%s: the store can't do this: %w", what, said)
	case slices.Contains(refused, code):
		return engine.Errorf(engine.Auth, "%s: %w (check the credentials, their permissions, and the machine's clock)",
			what, said)
	case slices.Contains(again, code), strings.HasPrefix(code, "KMS."):
		return engine.Errorf(engine.Transient, "%s: %w", what, said)
	}
	e := aws.Classify(err, what)
	if was, ok := errors.AsType[*engine.Error](e); ok && was.Class == engine.Transient && mine(status, code) {
		was.Class = engine.Rejected
	}
	return e
}

// mine says whether a code that is not known is about the request itself.
func mine(status int, code string) bool {
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	return status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests &&
		!throttled
}

func mistake(e *engine.Error) error {
	e.Mistake = true
	return held(e)
}

func held(e *engine.Error) error {
	e.Holds = true
	return e
}

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

func (s *Store) wrongRegion(err error) bool {
	r := regionOf(err)
	return r != "" && r != s.session.Region()
}

func responseOf(err error) *smithyhttp.Response {
	if res, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return res.Response
	}
	return nil
}
