package aws

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/flowd-io/flowd/engine/cause"
	"github.com/flowd-io/flowd/internal/network/httpx"
)

// Causes are what the errors of all services mean. A service with more rows puts its own before them.
var Causes = []cause.Row{
	{If: wantsSSO, Kind: cause.Credentials,
		Remedy: "sign in: aws sso login, with --profile for another than the default"},
	{If: hasNone, Kind: cause.Credentials,
		Remedy: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, `profile`, `role` or `credentials`"},
	{If: httpx.IsUnsent, Kind: cause.Unreachable, Remedy: "check `endpoint` and `region`, and the network"},
	{Codes: []string{"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch",
		"InvalidSignatureException", "MissingAuthenticationToken", "MissingAuthenticationTokenException", "ExpiredToken",
		"ExpiredTokenException", "InvalidAccessKeyId", "IncompleteSignature", "InvalidSecurity", "RequestExpired",
		"OptInRequired"}, Kind: cause.Credentials, Remedy: "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, `profile`, " +
		"`role` or `credentials`"},
	{Codes: []string{"AccessDenied", "AccessDeniedException", "AuthorizationError", "AuthorizationErrorException",
		"NotAuthorized", "KmsAccessDenied", "KMSAccessDenied", "KmsOptInRequired", "KMSOptInRequired"}, Kind: cause.Credentials,
		Remedy: "allow these credentials this action", Means: errDenied},
	{Codes: []string{"QueueDoesNotExist", "NonExistentQueue", "NotFound", "NotFoundException", "QueueDeletedRecently"},
		Kind: cause.Missing, Says: "it does not exist", Remedy: "create it, or correct its name, `region` or `endpoint`", Means: errMissing},
	{Codes: []string{"RequestThrottled", "Throttled", "ThrottledException", "KmsThrottled", "KMSThrottling",
		"KMSThrottlingException", "OverLimit"}, If: throttled, Kind: cause.Throttled},
	{Codes: []string{"InternalError", "InternalFailure", "InternalErrorException", "ServiceUnavailable",
		"ServiceUnavailableException", "ServiceFault", "KmsInvalidState", "KMSInvalidState", "KmsDisabled", "KMSDisabled",
		"KmsNotFound", "KMSNotFound"}, Kind: cause.Lost},
}

var causes = cause.Table{Code: CodeOf, Delay: DelayOf, Refused: cause.Rejected,
	Rows: append(slices.Clone(Causes), cause.Row{If: serverFault, Kind: cause.Lost})}

// Explain gives an error of a call its class, says what it is about, such as "queue orders", and what to do about it.
func Explain(err error, about string) error { return causes.Explain(err, about) }

var (
	errMissing = errors.New("the queue or topic does not exist")
	errDenied  = errors.New("the credentials lack a permission")
)

// noCredentials is why there are no credentials to open a session with.
type noCredentials struct{ error }

func (e *noCredentials) Unwrap() error { return e.error }

// hasNone reports whether there are no credentials to sign a call with.
func hasNone(err error) bool {
	if _, ok := errors.AsType[*noCredentials](err); ok {
		return true
	}
	_, answered := errors.AsType[smithy.APIError](err)
	return !answered && !httpx.IsUnsent(err) && mentions(err, "get identity:", "get credentials:")
}

func wantsSSO(err error) bool { return hasNone(err) && mentions(err, "SSO token", "SSO session") }

func mentions(err error, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(err.Error(), part) })
}

// CodeOf returns the code of an answer that is an error, without the prefix of older protocols, and what the service says.
func CodeOf(err error) (code, text string) {
	api, answered := errors.AsType[smithy.APIError](err)
	if !answered || hasNone(err) {
		return "", withoutSDK(err)
	}
	code = api.ErrorCode()
	code = code[strings.LastIndexAny(code, ".#")+1:]
	text = code
	if said := strings.TrimSpace(api.ErrorMessage()); said != "" && said != "UnknownError" {
		text += ": " + said
	}
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		text = strings.ToLower(op.Service()) + ":" + op.Operation() + ": " + text
	}
	return code, text
}

// withoutSDK returns the text of an error without what the SDK adds.
func withoutSDK(err error) string {
	if hasNone(err) { // the SDK lists all places that it has searched, in one long line
		return cut("no AWS credentials: " + err.Error())
	}
	if unsent, ok := errors.AsType[*httpx.Unsent](err); ok {
		return "can't be reached: " + unsent.Error()
	}
	if send, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return send.Err.Error()
	}
	return ""
}

// cut returns a text without what is too much to read.
func cut(text string) string {
	if len(text) > 300 {
		return text[:300] + "…"
	}
	return text
}

func throttled(err error) bool {
	code, _ := CodeOf(err)
	_, ok := retry.DefaultThrottleErrorCodes[code]
	return ok
}

// serverFault reports whether a service does not blame the request for an error.
func serverFault(err error) bool {
	api, answered := errors.AsType[smithy.APIError](err)
	res, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return answered && (api.ErrorFault() != smithy.FaultClient || ok && res.Response != nil && res.HTTPStatusCode() >= 500)
}

// Missing reports whether an error is about a queue or a topic that does not exist.
func Missing(err error) bool { return errors.Is(Explain(err, ""), errMissing) }

// Denied reports whether credentials lack a permission.
func Denied(err error) bool { return errors.Is(Explain(err, ""), errDenied) }

// longestHint bounds what a server may ask for.
const longestHint = 5 * time.Minute

// DelayOf returns how long a service asks to wait; 0: it does not ask.
func DelayOf(err error) time.Duration {
	if res, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && res.Response != nil {
		return hint(res.Response.Header)
	}
	return 0
}

// hint is how long a server asks to wait: 0 is no hint.
func hint(h http.Header) time.Duration {
	if ms, err := strconv.ParseInt(h.Get("X-Amz-Retry-After"), 10, 32); err == nil && ms > 0 {
		return min(time.Duration(ms)*time.Millisecond, longestHint)
	}
	return min(httpx.RetryAfter(h.Get("Retry-After"), time.Now()), longestHint)
}
