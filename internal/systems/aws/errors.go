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

// Causes says what errors that all services share mean. A service with rows of its own puts them before these.
var Causes = []cause.Row{
	{If: wantsSSO, Kind: cause.Credentials,
		Remedy: "sign in: aws sso login, with --profile unless it is the default profile"},
	{If: lacksCredentials, Kind: cause.Credentials,
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

// Explain returns the error of a call with its class, its remedy, and what the call was about, such as "queue orders".
func Explain(err error, about string) error { return causes.Explain(err, about) }

var (
	errMissing = errors.New("the queue or topic does not exist")
	errDenied  = errors.New("the credentials lack a permission")
)

// noCredentials is the error of a session for which no credentials were found.
type noCredentials struct{ error }

func (e *noCredentials) Unwrap() error { return e.error }

// lacksCredentials reports whether a call failed because there were no credentials to sign it with.
func lacksCredentials(err error) bool {
	if _, ok := errors.AsType[*noCredentials](err); ok {
		return true
	}
	_, answered := errors.AsType[smithy.APIError](err)
	return !answered && !httpx.IsUnsent(err) && mentions(err, "get identity:", "get credentials:")
}

func wantsSSO(err error) bool {
	return lacksCredentials(err) && mentions(err, "SSO token", "SSO session")
}

func mentions(err error, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(err.Error(), part) })
}

// CodeOf returns the code of a service's error, without the prefix that older protocols add, and the text of the error.
// code is "" if the service has not answered.
func CodeOf(err error) (code, text string) {
	api, answered := errors.AsType[smithy.APIError](err)
	if !answered || lacksCredentials(err) {
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
	if lacksCredentials(err) { // the SDK lists all places that it has searched, in one long line
		return shorten("no AWS credentials: " + err.Error())
	}
	if unsent, ok := errors.AsType[*httpx.Unsent](err); ok {
		return "can't be reached: " + unsent.Error()
	}
	if send, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return send.Err.Error()
	}
	return ""
}

// shorten returns the beginning of a long text.
func shorten(text string) string {
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

// serverFault reports whether the service, and not the request, has caused an error.
func serverFault(err error) bool {
	api, answered := errors.AsType[smithy.APIError](err)
	res, ok := errors.AsType[*smithyhttp.ResponseError](err)
	return answered && (api.ErrorFault() != smithy.FaultClient || ok && res.Response != nil && res.HTTPStatusCode() >= 500)
}

// Missing reports whether an error says that a queue or topic does not exist.
func Missing(err error) bool { return errors.Is(Explain(err, ""), errMissing) }

// Denied reports whether an error says that the credentials lack a permission.
func Denied(err error) bool { return errors.Is(Explain(err, ""), errDenied) }

// longestHint bounds the delay that a server may ask for.
const longestHint = 5 * time.Minute

// DelayOf returns how long the service asks the client to wait before the next try, or 0 if it does not ask.
func DelayOf(err error) time.Duration {
	if res, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && res.Response != nil {
		return hint(res.Response.Header)
	}
	return 0
}

// hint returns the delay that the headers of an answer ask for, or 0.
func hint(h http.Header) time.Duration {
	if ms, err := strconv.ParseInt(h.Get("X-Amz-Retry-After"), 10, 32); err == nil && ms > 0 {
		return min(time.Duration(ms)*time.Millisecond, longestHint)
	}
	return min(httpx.RetryAfter(h.Get("Retry-After"), time.Now()), longestHint)
}
