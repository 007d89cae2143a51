package gcs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/network/httpx"
	"github.com/flowd-io/flowd/internal/systems/objects"
)

const (
	noBucket  = "the bucket does not exist"
	create    = "create it, or correct `bucket` or `endpoint`"
	mostDelay = 5 * time.Minute // is believed of Retry-After
)

// causes are what the errors of calls about an object that exists mean.
var causes = cause.Table{Code: codeOf, Delay: delayOf, Refused: cause.Rejected, Rows: []cause.Row{
	{If: says("bucket does not exist"), Kind: cause.Missing, Remedy: create},
	{If: status(http.StatusNotFound), Kind: cause.Rejected, Says: objects.ErrMissing.Error(), Means: objects.ErrMissing},
	{If: status(http.StatusPreconditionFailed, http.StatusNotModified), Kind: cause.Rejected,
		Says: objects.ErrChanged.Error(), Means: objects.ErrChanged},
	{If: status(http.StatusUnauthorized), Kind: cause.Credentials,
		Remedy: "check `credentials`, or GOOGLE_APPLICATION_CREDENTIALS"},
	{Codes: []string{"rateLimitExceeded", "userRateLimitExceeded", "quotaExceeded"}, If: status(http.StatusTooManyRequests),
		Kind: cause.Throttled},
	{If: passes, Kind: cause.Lost},
	{Codes: []string{"retentionPolicyNotMet", "objectUnderActiveHold"}, Kind: cause.Rejected,
		Remedy: "a policy or a hold protects the object"},
	{If: status(http.StatusForbidden), Kind: cause.Credentials,
		Remedy: "give these credentials a role such as roles/storage.objectUser on the bucket"},
	{If: status(http.StatusRequestEntityTooLarge), Kind: cause.TooLarge},
	{If: httpx.IsUnsent, Kind: cause.Unreachable, Remedy: "check `endpoint`, and the network"},
}}

// bucketCauses are what the errors of calls about a bucket, or an object that need not exist, mean.
var bucketCauses = cause.Table{Code: codeOf, Delay: delayOf, Refused: cause.Rejected, Rows: slices.Concat([]cause.Row{
	{If: status(http.StatusNotFound), Kind: cause.Missing, Says: noBucket, Remedy: create},
}, causes.Rows)}

// explain gives an error of a call its class and a remedy. Without a key, the call was about the bucket. creates says
// that the object need not exist.
func (s *Store) explain(err error, key string, creates bool) error {
	if key == "" || creates {
		return bucketCauses.Explain(err, s.what(key))
	}
	return causes.Explain(err, s.what(key))
}

// answer is an answer of the service that is an error.
type answer struct {
	status       int
	reason, text string
	delay        time.Duration // that the service asks for
}

func (a *answer) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, a.reason)) + ": " + a.text
}

func answerOf(res *http.Response) *answer {
	head, _ := io.ReadAll(io.LimitReader(res.Body, mostError))
	var said struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	_ = json.Unmarshal(head, &said)
	a := &answer{status: res.StatusCode,
		delay: min(httpx.RetryAfter(res.Header.Get("Retry-After"), time.Now()), mostDelay)}
	if len(said.Error.Errors) > 0 {
		a.reason = said.Error.Errors[0].Reason
	}
	a.text = cmp.Or(said.Error.Message, strings.TrimSpace(string(head[:min(len(head), 300)])), http.StatusText(res.StatusCode))
	return a
}

// codeOf returns the reason in an answer. An error without an answer shows no URL: that of an upload is a secret.
func codeOf(err error) (code, text string) {
	if a, ok := errors.AsType[*answer](err); ok {
		return cmp.Or(a.reason, http.StatusText(a.status), "unknown"), a.Error()
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

func delayOf(err error) time.Duration {
	if a, ok := errors.AsType[*answer](err); ok {
		return a.delay
	}
	return 0
}

func status(all ...int) func(error) bool {
	return func(err error) bool {
		a, ok := errors.AsType[*answer](err)
		return ok && slices.Contains(all, a.status)
	}
}

func says(text string) func(error) bool {
	return func(err error) bool {
		a, ok := errors.AsType[*answer](err)
		return ok && a.status == http.StatusNotFound && strings.Contains(a.text, text)
	}
}

// passes reports whether the status of an answer says that the same request may work later.
func passes(err error) bool {
	a, ok := errors.AsType[*answer](err)
	return ok && (a.status >= 500 || status(http.StatusRequestTimeout, http.StatusConflict, http.StatusGone)(err))
}
