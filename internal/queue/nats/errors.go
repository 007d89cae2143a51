package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
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

// rule is what an error means.
type rule struct {
	is     error
	class  engine.Class
	remedy string
}

// rules are the errors of the client that need more than their own text; the first counts.
var rules = []rule{
	{client.ErrAuthorization, engine.Auth, "check user and password, token, nkey or credentials"},
	{client.ErrAuthExpired, engine.Auth, "get new credentials: they have expired"},
	{client.ErrAuthRevoked, engine.Auth, "get new credentials: they were revoked"},
	{client.ErrAccountAuthExpired, engine.Auth, "the account has expired: ask its operator"},
	{client.ErrPermissionViolation, engine.Auth, "give the user the permission"},
	{client.ErrNkeysNotSupported, engine.Auth, "the server does not log in by NKey: use another way"},
	{client.ErrSecureConnRequired, engine.Auth, "the server wants TLS: write tls:// or `tls: {}`"},
	{client.ErrSecureConnWanted, engine.Auth, "the server has no TLS: write nats:// and remove `tls`"},
	{client.ErrMaxPayload, engine.Rejected, "make the message smaller, or raise max_payload of the server"},
	{client.ErrHeadersNotSupported, engine.Permanent, "the server is older than NATS 2.2: upgrade it"},
	{client.ErrBadSubject, engine.Rejected, "a subject has parts without white space, with single dots between"},
	{client.ErrBadHeaderMsg, engine.Rejected, "a header's name has only visible letters, and no colon"},
	{client.ErrNoServers, engine.Transient, "check that the server runs, and its address"},
	{client.ErrNoResponders, engine.Transient, "check that the server has JetStream, and that the account may use it"},
	{jetstream.ErrJetStreamNotEnabled, engine.Transient, "start the server with JetStream: nats-server -js"},
	{jetstream.ErrJetStreamNotEnabledForAccount, engine.Transient, "enable JetStream for the account of this user"},
	{jetstream.ErrNotPullConsumer, engine.Permanent, "name a pull consumer: this one has a deliver subject"},
}

const noConsumer = "create the consumer, write `declare: {consumer: …}`, or correct its name"

var apiRules = map[jetstream.ErrorCode]rule{
	jetstream.JSErrCodeStreamNotFound: {nil, engine.Transient, "create the stream, write " +
		"`declare`, or correct its name"},
	jetstream.JSErrCodeConsumerNotFound:     {nil, engine.Transient, noConsumer},
	jetstream.JSErrCodeConsumerDoesNotExist: {nil, engine.Transient, noConsumer},
	jetstream.JSErrCodeStreamMessageExceedsMaximum: {nil, engine.Rejected, "make the message smaller, or raise " +
		"max_msg_size of the stream"},
	jetstream.JSErrCodeStreamWrongLastSequence:         {nil, engine.Rejected, "something else has written there since"},
	jetstream.JSErrCodeStreamWrongLastSequenceConstant: {nil, engine.Rejected, "something else has written there since"},
	codeWrongLastID: {nil, engine.Rejected, "something else has written there since"},
	codeWrongStream: {nil, engine.Rejected, "another stream has the subject: correct `subject` or `stream`"},
	codeOverlap:     {nil, engine.Permanent, "another stream has one of the subjects: correct `declare`"},
	codeNoResources: {nil, engine.Transient, "the server has no room for it: give it more memory or disk"},
	codeMemoryFull:  {nil, engine.Transient, "the server has no memory left for streams: make room, or raise its limit"},
	codeStorageFull: {nil, engine.Transient, "the server has no disk left for streams: make room, or raise its limit"},
	codeStoreFailed: {nil, engine.Transient, "the stream is full: make room, raise its limits, or let it discard " +
		"old messages"},
	codeSealed:        {nil, engine.Permanent, "the stream is sealed, and takes no more messages"},
	codeNotAvailable:  {nil, engine.Transient, "JetStream has no leader at present: start the missing servers"},
	codeTooManyStream: {nil, engine.Permanent, "the account has as many streams as it may have"},
}

// Explain gives an error of the client its class, says what was being done, and what to do about it.
func Explain(err error, doing string) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*engine.Error](err); known {
		return err
	}
	class, text, remedy := judge(err)
	if text == "" {
		text = strings.TrimPrefix(err.Error(), "nats: ")
	}
	text = doing + ": " + text
	if remedy != "" {
		text += " (" + remedy + ")"
	}
	return &engine.Error{Class: class, Err: explained{text, err}}
}

// explained is an error in other words.
type explained struct {
	text  string
	cause error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.cause }

// judge is what an error means.
func judge(err error) (class engine.Class, text, remedy string) {
	if e := apiError(err); e != nil {
		if r, ok := apiRules[e.ErrorCode]; ok {
			return r.class, e.Description, r.remedy
		}
		text = e.Description
	}
	for _, r := range rules {
		if errors.Is(err, r.is) {
			return r.class, text, r.remedy
		}
	}
	var dial *net.OpError
	switch {
	case errors.As(err, new(x509.HostnameError)):
		return engine.Auth, "", "use a name that the certificate has, or set `tls: {server_name: …}`"
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(x509.UnknownAuthorityError)):
		return engine.Auth, "", "name the authority in `tls: {ca: FILE}`"
	case errors.As(err, new(tls.RecordHeaderError)):
		return engine.Auth, "", "the server does not speak TLS at this port: check the port, or remove `tls`"
	case errors.As(err, &dial) && dial.Op == "dial":
		return engine.Transient, "", "check that the server runs, and its address"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, client.ErrTimeout):
		return engine.Transient, "the server does not answer in time", ""
	case errors.Is(err, io.EOF):
		return engine.Transient, "the server has closed the connection", ""
	}
	return engine.Transient, text, ""
}

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

// Held makes an error one of the output: no message is to blame.
func Held(err error) error {
	e := *engine.ErrorOf(err, engine.Transient)
	e.Holds = true
	return &e
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
