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

// Codes of JetStream's errors that its client has no names for.
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

// causes are the errors of the client, and of JetStream by their codes, that need more than their own text.
var causes = cause.Table{Code: codeOf, Rows: []cause.Row{
	{Codes: codes(jetstream.JSErrCodeStreamNotFound), Kind: cause.Awaited,
		Remedy: "create the stream, write `declare`, or correct its name"},
	{Codes: codes(jetstream.JSErrCodeConsumerNotFound, jetstream.JSErrCodeConsumerDoesNotExist), Kind: cause.Awaited,
		Remedy: "create the consumer, write `declare: {consumer: …}`, or correct its name"},
	{Codes: codes(jetstream.JSErrCodeStreamMessageExceedsMaximum), Kind: cause.Rejected,
		Remedy: "make the message smaller, or raise max_msg_size of the stream"},
	{Codes: codes(jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant,
		codeWrongLastID), Kind: cause.Rejected, Remedy: "something else has written there since"},
	{Codes: codes(codeWrongStream), Kind: cause.Rejected,
		Remedy: "another stream has the subject: correct `subject` or `stream`"},
	{Codes: codes(codeOverlap), Kind: cause.Misconfigured,
		Remedy: "another stream has one of the subjects: correct `declare`"},
	{Codes: codes(codeNoResources), Kind: cause.Busy,
		Remedy: "the server has no room for it: give it more memory or disk"},
	{Codes: codes(codeMemoryFull), Kind: cause.Busy,
		Remedy: "the server has no memory left for streams: make room, or raise its limit"},
	{Codes: codes(codeStorageFull), Kind: cause.Busy,
		Remedy: "the server has no disk left for streams: make room, or raise its limit"},
	{Codes: codes(codeStoreFailed), Kind: cause.Lost, // of one subject, or of the stream: see Full
		Remedy: "the stream is full: make room, raise its limits, or let it discard old messages"},
	{Codes: codes(codeSealed), Kind: cause.Misconfigured, Remedy: "the stream is sealed, and accepts no more messages"},
	{Codes: codes(codeNotAvailable), Kind: cause.Busy,
		Remedy: "JetStream has no leader at present: start the missing servers"},
	{Codes: codes(codeTooManyStream), Kind: cause.Misconfigured, Remedy: "the account has as many streams as it may have"},

	{Is: client.ErrAuthorization, Kind: cause.Credentials, Remedy: "check user and password, token, nkey or credentials"},
	{Is: client.ErrAuthExpired, Kind: cause.Credentials, Remedy: "get new credentials: they have expired"},
	{Is: client.ErrAuthRevoked, Kind: cause.Credentials, Remedy: "get new credentials: they were revoked"},
	{Is: client.ErrAccountAuthExpired, Kind: cause.Credentials, Remedy: "the account has expired: ask its operator"},
	{Is: client.ErrPermissionViolation, Kind: cause.Credentials, Remedy: "give the user the permission"},
	{Is: client.ErrNkeysNotSupported, Kind: cause.Credentials,
		Remedy: "the server does not support login by NKey: use another way"},
	{Is: client.ErrSecureConnRequired, Kind: cause.Credentials, Remedy: "the server wants TLS: write tls:// or `tls: {}`"},
	{Is: client.ErrSecureConnWanted, Kind: cause.Credentials,
		Remedy: "the server has no TLS: write nats:// and remove `tls`"},
	{Is: client.ErrMaxPayload, Kind: cause.Rejected,
		Remedy: "make the message smaller, or raise max_payload of the server"},
	{Is: client.ErrHeadersNotSupported, Kind: cause.Misconfigured,
		Remedy: "the server is older than NATS 2.2: upgrade it"},
	{Is: client.ErrBadSubject, Kind: cause.Rejected,
		Remedy: "a subject has parts without white space, with single dots between"},
	{Is: client.ErrBadHeaderMsg, Kind: cause.Rejected,
		Remedy: "a header's name has only visible letters, and no colon"},
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

// codes are codes of JetStream as the table has them.
func codes(all ...jetstream.ErrorCode) (texts []string) {
	for _, c := range all {
		texts = append(texts, strconv.Itoa(int(c)))
	}
	return texts
}

// codeOf returns JetStream's code of an error, and the text without the library's name.
func codeOf(err error) (code, text string) {
	if e := apiError(err); e != nil {
		return strconv.Itoa(int(e.ErrorCode)), e.Description
	}
	return "", strings.TrimPrefix(err.Error(), "nats: ")
}

// Explain gives an error of the client its class, says what was being done, and what to do about it.
func Explain(err error, doing string) error { return causes.Explain(err, doing) }

// apiError is what JetStream says, or nil.
func apiError(err error) *jetstream.APIError {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return e
	}
	if e, ok := errors.AsType[jetstream.JetStreamError](err); ok {
		return e.APIError()
	}
	return nil
}

// Code is the code of JetStream's error, or 0.
func Code(err error) jetstream.ErrorCode {
	if e := apiError(err); e != nil {
		return e.ErrorCode
	}
	return 0
}

// Rejected makes an error one of a message.
func Rejected(err error) error {
	return engine.Errorf(engine.Rejected, "%w", engine.ErrorOf(err, engine.Rejected).Err)
}

// jittered is between half of d and d.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Full says that a stream, or the server, has no room for any message.
func Full(err error) bool {
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

// WrongStream says that another stream than the expected one has the subject.
func WrongStream(err error) bool { return Code(err) == codeWrongStream }

// WrongSequence says that something else has written to a subject since.
func WrongSequence(err error) bool {
	code := Code(err)
	return code == jetstream.JSErrCodeStreamWrongLastSequence || code == jetstream.JSErrCodeStreamWrongLastSequenceConstant
}
