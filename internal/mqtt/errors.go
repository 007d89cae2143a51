package mqtt

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/flowd-io/flowd/engine"
)

// Reason codes of version 5 that are looked for. Those of 3.1.1 are translated to them.
const (
	refused       = 0x80 // and all above: it did not work
	badVersion    = 0x84
	badClientID   = 0x85
	badLogin      = 0x86
	NotAuthorized = 0x87
	unavailable   = 0x88
	takenOver     = 0x8E
	badName       = 0x90
	tooLarge      = 0x95
	QuotaExceeded = 0x97
	badFormat     = 0x99
	noRetain      = 0x9A
	noQoS         = 0x9B
)

// Refusal is a reason code of the server's that says no.
type Refusal struct {
	Code byte
	said string // the server's own words; "": none
	door bool   // it is about the connection as a whole
}

func (r *Refusal) Error() string {
	_, text, remedy := judge(r.Code)
	if r.door && r.Code == NotAuthorized {
		text = "the server does not let this client in"
		remedy = "check `user`, `password` and `client_id`, and the server's access control"
	}
	if r.said != "" {
		text += ": " + r.said
	}
	text = fmt.Sprintf("%s (0x%02X", text, r.Code)
	if remedy != "" {
		text += ": " + remedy
	}
	return text + ")"
}

// Class is what kind of failure it is, where it concerns a connection or a subscription.
func (r *Refusal) Class() engine.Class {
	class, _, _ := judge(r.Code)
	return class
}

// OfMessage says that the code is about one message, not about who sends it or when.
func (r *Refusal) OfMessage() bool {
	switch r.Code {
	case NotAuthorized, badName, tooLarge, badFormat, noRetain, noQoS, 0x81, 0x82, 0x83:
		return true
	}
	return false
}

// TakenOver says that the connection ended because another client came with its client id.
func TakenOver(err error) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.Code == takenOver
}

// judge is what a reason code means.
func judge(code byte) (class engine.Class, text, remedy string) {
	class = engine.Transient
	switch code {
	case 0x81:
		text = "the server can't read a packet"
	case 0x82:
		text = "the server says that the protocol was violated"
	case 0x83:
		text = "the server does not accept it"
	case badVersion:
		return engine.Permanent, "the server does not speak this version of the protocol",
			"write `version: 3.1.1`, or `version: 5` if that is what is set"
	case badClientID:
		return engine.Permanent, "the server does not accept the client id", "write another client_id"
	case badLogin:
		return engine.Auth, "the server refuses user and password", "check `user` and `password`"
	case NotAuthorized:
		return engine.Auth, "the server does not permit it",
			"give this user or client_id the right, in the server's access control"
	case unavailable:
		text = "the server is not available"
	case 0x89:
		text = "the server is busy"
	case 0x8A:
		return engine.Auth, "the server has banned this client", "ask its administrator"
	case 0x8B:
		text = "the server is shutting down"
	case 0x8C:
		return engine.Auth, "the server wants another way to authenticate", "check `user`, `password` and `tls`"
	case 0x8D:
		text = "the server has not heard from this client for too long"
		remedy = "lower keep_alive if a network device cuts idle connections"
	case takenOver:
		text = "another client has connected with the same client_id"
		remedy = "give each client a client_id of its own; stop the other one, if it is an old flowd"
	case 0x8F:
		return engine.Permanent, "the server does not accept the filter", "write another filter in `topics`"
	case badName:
		return engine.Rejected, "the server does not accept the topic", ""
	case 0x91:
		text = "the server says that the packet's number is in use"
	case 0x93:
		text = "the server says that more messages were in flight than it takes"
	case tooLarge:
		return engine.Rejected, "the message is larger than the server takes", "raise the server's limit, or send less"
	case 0x96:
		text, remedy = "the server receives messages too fast", "set a rate_limit"
	case QuotaExceeded:
		text, remedy = "a quota of the server is exceeded", "raise it, or wait until others have read"
	case 0x98:
		text = "an administrator of the server has ended the connection"
	case badFormat:
		return engine.Rejected, "the payload is not what its format says", ""
	case noRetain:
		return engine.Permanent, "the server does not retain messages", "remove `retain`"
	case noQoS:
		return engine.Permanent, "the server does not support this quality of service", "lower `qos`"
	case 0x9C, 0x9D:
		text, remedy = "the server sends clients to another server", "write that one's `url`"
	case 0x9E:
		return engine.Permanent, "the server has no shared subscriptions", "remove `share` and $share/"
	case 0x9F:
		text = "the server limits how often clients connect"
	case 0xA0:
		text = "the connection has lasted for as long as the server allows"
	case 0xA2:
		return engine.Permanent, "the server has no subscriptions with wildcards", "name the topics"
	default:
		text = "the server refuses it and gives no reason"
	}
	return class, text, remedy
}

// errHungUp is the end of a connection of which the server says nothing.
var errHungUp = errors.New("the server has closed the connection without a reason")

// isAlert says that the server has refused the TLS handshake.
func isAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}

// Explain gives an error its class, and says what was being done, and what to do about it.
func Explain(err error, doing string) error {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		named := *e
		named.Err = fmt.Errorf("%s: %w", doing, err)
		return &named
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return engine.Errorf(r.Class(), "%s: %w", doing, err)
	}
	class, remedy := engine.Transient, ""
	switch {
	case errors.As(err, new(x509.HostnameError)):
		class, remedy = engine.Auth, "set tls.server_name to a name that the certificate has"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		class, remedy = engine.Auth, "set tls.ca to the certificate of the authority that signed it"
	case errors.As(err, new(tls.RecordHeaderError)):
		err = errors.New("the server does not speak TLS there")
		remedy = "write mqtt://, or the port of the TLS listener, usually 8883"
	case isAlert(err):
		class, remedy = engine.Auth, "the server may want a client's certificate: set tls.cert and tls.key"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errHungUp
	case errors.Is(err, net.ErrClosed):
		err = errors.New("the connection is closed")
	}
	if remedy != "" {
		return engine.Errorf(class, "%s: %w (%s)", doing, err, remedy)
	}
	return engine.Errorf(class, "%s: %w", doing, err)
}
