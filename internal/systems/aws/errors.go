package aws

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// The codes that are distinguished, without the prefixes of older protocols.
var (
	refused = []string{ // who calls
		"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSignatureException",
		"MissingAuthenticationToken", "MissingAuthenticationTokenException",
		"ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "IncompleteSignature", "InvalidSecurity",
		"RequestExpired", "OptInRequired",
	}
	denied = []string{"AccessDenied", "AccessDeniedException", "AuthorizationError", "AuthorizationErrorException",
		"NotAuthorized", "KmsAccessDenied", "KMSAccessDenied", "KmsOptInRequired", "KMSOptInRequired"}
	missing = []string{"QueueDoesNotExist", "NonExistentQueue", "NotFound", "NotFoundException", "QueueDeletedRecently"}
	slower  = []string{"RequestThrottled", "Throttled", "ThrottledException", "KmsThrottled", "KMSThrottling",
		"KMSThrottlingException", "OverLimit"}
	later = []string{"InternalError", "InternalFailure", "InternalErrorException", "ServiceUnavailable",
		"ServiceUnavailableException", "ServiceFault", "KmsInvalidState", "KMSInvalidState", "KmsDisabled",
		"KMSDisabled", "KmsNotFound", "KMSNotFound"}
)

// Classify gives an error of a call its class and a remedy. What is the thing that
// the call was about, such as "queue orders".
func Classify(err error, what string) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*engine.Error](err); known {
		return err
	}
	if httpx.IsUnsent(err) {
		return unsent(err, what)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	operation := ""
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		operation = strings.ToLower(op.Service()) + ":" + op.Operation()
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		e := Answer(api.ErrorCode(), api.ErrorMessage(), what, operation, api.ErrorFault() == smithy.FaultClient)
		if res, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && res.Response != nil {
			if e.Class == engine.Rejected && res.HTTPStatusCode() >= 500 {
				e.Class = engine.Transient
			}
			e.Delay = hint(res.Response.Header)
		}
		return e
	}
	if strings.Contains(err.Error(), "get identity:") || strings.Contains(err.Error(), "get credentials:") {
		return credentialsError(err)
	}
	if send, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return engine.Errorf(engine.Transient, "%s: %w", what, send.Err)
	}
	return engine.Errorf(engine.Transient, "%s: %w", what, err)
}

// unsent is the error of a call of which nothing was sent.
func unsent(err error, what string) *engine.Error {
	class := engine.Transient
	if errors.Is(err, context.DeadlineExceeded) {
		class = engine.Timeout
	}
	cause, _ := errors.AsType[*httpx.Unsent](err)
	e := engine.Errorf(class, "%s: can't be reached: %w (check `endpoint` and `region`, and the network)", what, cause)
	e.Holds = true
	return e
}

// Answer is the error that a code of a service means, of a call or of one of its entries.
func Answer(code, message, what, operation string, sender bool) *engine.Error {
	code = bare(code)
	text := code
	if message = strings.TrimSpace(message); message != "" && message != "UnknownError" {
		text += ": " + message
	}
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	switch {
	case slices.Contains(refused, code):
		return engine.Errorf(engine.Auth,
			"%s: the credentials are refused: %s (check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, `profile`, `role` or `credentials`)", what,
			text)
	case slices.Contains(denied, code):
		return engine.Errorf(engine.Auth, "%s: %s (allow these credentials %s)", what, text,
			cmp.Or(operation, "to do this"))
	case slices.Contains(missing, code):
		e := engine.Errorf(engine.Transient,
			"%s does not exist: %s (create it, or correct its name, `region` or `endpoint`)", what, text)
		e.Mistake = true
		return e
	case throttled || slices.Contains(slower, code) || slices.Contains(later, code) || !sender:
		return engine.Errorf(engine.Transient, "%s: %s", what, text)
	}
	return engine.Errorf(engine.Rejected, "%s: %s", what, text)
}

// credentialsError says that there are no credentials to call with. The cause lists all
// places that were searched, in one long line.
func credentialsError(cause error) error {
	text := cause.Error()
	if len(text) > 300 {
		text = text[:300] + "…"
	}
	if strings.Contains(text, "SSO token") || strings.Contains(text, "SSO session") {
		return engine.Errorf(engine.Auth,
			"no AWS credentials: %s (sign in: aws sso login, with --profile for another than the default)", text)
	}
	return engine.Errorf(engine.Auth,
		"no AWS credentials: %s (set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, `profile`, `role` or `credentials`)",
		text)
}

// Missing says whether an error is about a queue that does not exist.
func Missing(err error) bool { return hasCode(err, missing) }

// Denied says whether credentials lack a permission.
func Denied(err error) bool { return hasCode(err, denied) }

func hasCode(err error, codes []string) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && slices.Contains(codes, bare(api.ErrorCode()))
}

// bare is a code without its prefix.
func bare(code string) string { return code[strings.LastIndexAny(code, ".#")+1:] }

// longestHint bounds what a server may ask for.
const longestHint = 5 * time.Minute

// hint is how long a server asks to wait: 0 is no hint.
func hint(h http.Header) time.Duration {
	if ms, err := strconv.ParseInt(h.Get("X-Amz-Retry-After"), 10, 32); err == nil && ms > 0 {
		return min(time.Duration(ms)*time.Millisecond, longestHint)
	}
	return min(httpx.RetryAfter(h.Get("Retry-After"), time.Now()), longestHint)
}
