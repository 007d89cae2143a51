package nats

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JetStream's error codes for which its client has no names.
const (
	codeNoResources   jetstream.ErrorCode = 10023
	codeMemoryFull    jetstream.ErrorCode = 10028
	codeStorageFull   jetstream.ErrorCode = 10047
	codeWrongStream   jetstream.ErrorCode = 10060
	codeOverlap       jetstream.ErrorCode = 10065
	codeWrongLastID   jetstream.ErrorCode = 10070
	codeStoreFailed   jetstream.ErrorCode = 10077
	codeSealed        jetstream.ErrorCode = 10109
	codeNotAvailable  jetstream.ErrorCode = 10008
	codeTooManyStream jetstream.ErrorCode = 10027
)

// causes says what errors of the client and error codes of JetStream mean.
var causes = cause.Table{Code: codeOf, Rows: []cause.Row{
	{Codes: codes(jetstream.JSErrCodeStreamNotFound), Kind: cause.Awaited,
		Remedy: "create the stream, write `declare`, or correct its name"},
	{Codes: codes(jetstream.JSErrCodeConsumerNotFound, jetstream.JSErrCodeConsumerDoesNotExist), Kind: cause.Awaited,
		Remedy: "create the consumer, write `declare: {consumer: …}`, or correct its name"},
	{Codes: codes(jetstream.JSErrCodeStreamMessageExceedsMaximum), Kind: cause.Rejected,
		Remedy: "make the message smaller, or raise max_msg_size of the stream"},
	{Codes: codes(jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant,
		codeWrongLastID), Kind: cause.Rejected, Remedy: "another writer has changed it meanwhile"},
	{Codes: codes(codeWrongStream), Kind: cause.Rejected,
		Remedy: "the subject belongs to another stream: correct `subject` or `stream`"},
	{Codes: codes(codeOverlap), Kind: cause.Misconfigured,
		Remedy: "one of the subjects belongs to another stream: correct `declare`"},
	{Codes: codes(codeNoResources), Kind: cause.Busy,
		Remedy: "the server has no room for it: give it more memory or disk"},
	{Codes: codes(codeMemoryFull), Kind: cause.Busy,
		Remedy: "the server has no memory left for streams: make room, or raise its limit"},
	{Codes: codes(codeStorageFull), Kind: cause.Busy,
		Remedy: "the server has no disk left for streams: make room, or raise its limit"},
	{Codes: codes(codeStoreFailed), Kind: cause.Lost, // the limit of a subject or of the stream is reached: see IsFull
		Remedy: "the stream is full: make room, raise its limits, or let it discard old messages"},
	{Codes: codes(codeSealed), Kind: cause.Misconfigured, Remedy: "the stream is sealed, and accepts no more messages"},
	{Codes: codes(codeNotAvailable), Kind: cause.Busy,
		Remedy: "JetStream has no leader at present: start the missing servers"},
	{Codes: codes(codeTooManyStream), Kind: cause.Misconfigured, Remedy: "the account has reached its limit of streams"},

	{Is: client.ErrAuthorization, Kind: cause.Credentials, Remedy: "check user and password, token, nkey or credentials"},
	{Is: client.ErrAuthExpired, Kind: cause.Credentials, Remedy: "get new credentials: they have expired"},
	{Is: client.ErrAuthRevoked, Kind: cause.Credentials, Remedy: "get new credentials: they were revoked"},
	{Is: client.ErrAccountAuthExpired, Kind: cause.Credentials, Remedy: "the account has expired: ask its operator"},
	{Is: client.ErrPermissionViolation, Kind: cause.Credentials, Remedy: "give the user the permission"},
	{Is: client.ErrNkeysNotSupported, Kind: cause.Credentials,
		Remedy: "the server does not support login by NKey: use another way"},
	{Is: client.ErrSecureConnRequired, Kind: cause.Credentials, Remedy: "the server requires TLS: write tls:// or `tls: {}`"},
	{Is: client.ErrSecureConnWanted, Kind: cause.Credentials,
		Remedy: "the server does not support TLS: write nats:// and remove `tls`"},
	{Is: client.ErrMaxPayload, Kind: cause.Rejected,
		Remedy: "make the message smaller, or raise max_payload of the server"},
	{Is: client.ErrHeadersNotSupported, Kind: cause.Misconfigured,
		Remedy: "the server is older than NATS 2.2: upgrade it"},
	{Is: client.ErrBadSubject, Kind: cause.Rejected,
		Remedy: "the parts of a subject are not empty, have no white space, and are separated by dots"},
	{Is: client.ErrBadHeaderMsg, Kind: cause.Rejected,
		Remedy: "the name of a header has only visible ASCII characters, and no colon"},
	{Is: client.ErrNoServers, Kind: cause.Unreachable, Remedy: "check that the server runs, and its address"},
	{Is: client.ErrNoResponders, Kind: cause.Awaited,
		Remedy: "check that the server has JetStream, and that the account may use it"},
	{Is: jetstream.ErrJetStreamNotEnabled, Kind: cause.Awaited, Remedy: "start the server with JetStream: nats-server -js"},
	{Is: jetstream.ErrJetStreamNotEnabledForAccount, Kind: cause.Awaited,
		Remedy: "enable JetStream for the account of this user"},
	{Is: jetstream.ErrNotPullConsumer, Kind: cause.Misconfigured,
		Remedy: "name a pull consumer: this one has a deliver subject"},
	{Is: client.ErrTimeout, Kind: cause.Slow, Says: "the server does not answer in time"},
	{If: cause.HungUp, Kind: cause.Lost, Says: "the server closed the connection"},
}}

// codes converts error codes of JetStream to codes of the table.
func codes(all ...jetstream.ErrorCode) (texts []string) {
	for _, c := range all {
		texts = append(texts, strconv.Itoa(int(c)))
	}
	return texts
}

// codeOf returns JetStream's code of an error, and the text of the error without the library's prefix.
func codeOf(err error) (code, text string) {
	if e := apiError(err); e != nil {
		return strconv.Itoa(int(e.ErrorCode)), e.Description
	}
	return "", strings.TrimPrefix(err.Error(), "nats: ")
}

// Explain returns an error with its class and remedy, and with what was being done.
func Explain(err error, doing string) error { return causes.Explain(err, doing) }

// apiError returns JetStream's error in err, or nil.
func apiError(err error) *jetstream.APIError {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e
	}
	if e, ok := errors.AsType[jetstream.JetStreamError](err); ok {
		return e.APIError()
	}
	return nil
}

// errorCode returns the code of JetStream's error, or 0.
func errorCode(err error) jetstream.ErrorCode {
	if e := apiError(err); e != nil {
		return e.ErrorCode
	}
	return 0
}

// Rejected returns an error with the class rejected: the message is to blame.
func Rejected(err error) error {
	return engine.Errorf(engine.Rejected, "%w", engine.ErrorOf(err, engine.Rejected).Err)
}

// jittered returns a random duration between half of d and d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// IsFull reports whether an error says that the stream or the server accepts no messages at all.
func IsFull(err error) bool {
	e := apiError(err)
	if e == nil {
		return false
	}
	switch e.ErrorCode {
	case codeStoreFailed:
		return !strings.Contains(e.Description, "per subject")
	case codeNoResources, codeMemoryFull, codeStorageFull, codeNotAvailable, codeSealed:
		return true
	}
	return false
}

// WrongStream reports whether an error says that the subject does not belong to the expected stream.
func WrongStream(err error) bool { return errorCode(err) == codeWrongStream }

// WrongSequence reports whether an error says that another writer has written to a subject meanwhile.
func WrongSequence(err error) bool {
	code := errorCode(err)
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}
