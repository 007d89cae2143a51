package mqtt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
)

// Reason codes of version 5. The codes of version 3.1.1 are translated to them.
const (
	refused       = 0x80 // this and all higher codes are errors
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

// Refusal is the error that a reason code of the server means.
type Refusal struct {
	Code      byte
	said      string // the server's explanation; "": none
	onConnect bool   // the server has refused the connection
}

func (r *Refusal) Error() string {
	text, ok := reasons[r.Code]
	switch {
	case r.deniesAccess():
		text = "the server does not let this client in"
	case !ok:
		text = "the server refuses it without a reason"
	}
	if r.said != "" {
		text += ": " + r.said
	}
	return fmt.Sprintf("%s (0x%02X)", text, r.Code)
}

// deniesAccess reports whether the server refuses any connection of this client.
func (r *Refusal) deniesAccess() bool { return r.onConnect && r.Code == NotAuthorized }

// BlamesMessage reports whether a message is refused because of its content or topic, so that other messages may succeed.
func (r *Refusal) BlamesMessage() bool {
	switch r.Code {
	case NotAuthorized, badName, tooLarge, badFormat, noRetain, noQoS, 0x81, 0x82, 0x83:
		return true
	}
	return false
}

// TakenOver reports whether the server has closed the connection because another client has connected with the same client id.
func TakenOver(err error) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.Code == takenOver
}

// reasons are the texts of reason codes.
var reasons = map[byte]string{
	0x81:          "the server can't read a packet",
	0x82:          "the server says that the protocol was violated",
	0x83:          "the server does not accept it",
	badVersion:    "the server does not speak this version of the protocol",
	badClientID:   "the server does not accept the client id",
	badLogin:      "the server refuses user and password",
	NotAuthorized: "the server does not permit it",
	unavailable:   "the server is not available",
	0x89:          "the server is busy",
	0x8A:          "the server has banned this client",
	0x8B:          "the server is shutting down",
	0x8C:          "the server requires another authentication method",
	0x8D:          "the server has not heard from this client for too long",
	takenOver:     "another client has connected with the same client_id",
	0x8F:          "the server does not accept the filter",
	badName:       "the server does not accept the topic",
	0x91:          "the server says that the packet id is in use",
	0x93:          "the server says that more messages were in flight than it accepts",
	tooLarge:      "the message is larger than the server accepts",
	0x96:          "the server gets messages faster than it accepts",
	QuotaExceeded: "a quota of the server is exceeded",
	0x98:          "an administrator of the server has ended the connection",
	badFormat:     "the payload does not match its declared format",
	noRetain:      "the server does not retain messages",
	noQoS:         "the server does not support this quality of service",
	0x9C:          "the server sends clients to another server",
	0x9D:          "the server sends clients to another server",
	0x9E:          "the server has no shared subscriptions",
	0x9F:          "the server limits how often clients connect",
	0xA0:          "the connection has lasted for as long as the server allows",
	0xA2:          "the server has no subscriptions with wildcards",
}

// causes says what errors mean. Any other error is a lost connection.
var causes = cause.Table{Rows: []cause.Row{
	{If: hasCode(badVersion), Kind: cause.Misconfigured,
		Remedy: "write `version: 3.1.1`, or `version: 5` if `version` is 3.1.1 now"},
	{If: hasCode(badClientID), Kind: cause.Misconfigured, Remedy: "write another client_id"},
	{If: hasCode(badLogin), Kind: cause.Credentials, Remedy: "check `user` and `password`"},
	{If: deniesAccess, Kind: cause.Credentials,
		Remedy: "check `user`, `password` and `client_id`, and the server's access control"},
	{If: hasCode(NotAuthorized), Kind: cause.Credentials,
		Remedy: "permit it to this user or client_id in the server's access control"},
	{If: hasCode(0x8A), Kind: cause.Credentials, Remedy: "ask the server's administrator"},
	{If: hasCode(0x8C), Kind: cause.Credentials, Remedy: "check `user`, `password` and `tls`"},
	{If: hasCode(0x8D), Kind: cause.Lost, Remedy: "lower keep_alive if a network device cuts idle connections"},
	{If: hasCode(takenOver), Kind: cause.Lost,
		Remedy: "give each client a client_id of its own; if the other one is an old flowd, stop it"},
	{If: hasCode(0x8F), Kind: cause.Misconfigured, Remedy: "write another filter in `topics`"},
	{If: hasCode(tooLarge), Kind: cause.Rejected, Remedy: "raise the server's limit, or send less"},
	{If: hasCode(badName, badFormat), Kind: cause.Rejected},
	{If: hasCode(0x96), Kind: cause.Lost, Remedy: "set a rate_limit"},
	{If: hasCode(QuotaExceeded), Kind: cause.Lost, Remedy: "raise the quota, or wait until consumers have read messages"},
	{If: hasCode(noRetain), Kind: cause.Misconfigured, Remedy: "remove `retain`"},
	{If: hasCode(noQoS), Kind: cause.Misconfigured, Remedy: "lower `qos`"},
	{If: hasCode(0x9C, 0x9D), Kind: cause.Lost, Remedy: "set `url` to the other server"},
	{If: hasCode(0x9E), Kind: cause.Misconfigured, Remedy: "remove `share` and $share/"},
	{If: hasCode(0xA2), Kind: cause.Misconfigured, Remedy: "name the topics"},

	{If: cause.NotTLS, Kind: cause.Lost, Says: "the server does not use TLS on this port",
		Remedy: "write mqtt://, or the port of the TLS listener, usually 8883"},
	{If: cause.HungUp, Kind: cause.Lost, Says: "the server has closed the connection without a reason"},
}}

// hasCode returns a condition that matches reason codes.
func hasCode(codes ...byte) func(error) bool {
	return func(err error) bool {
		r, ok := errors.AsType[*Refusal](err)
		return ok && slices.Contains(codes, r.Code)
	}
}

func deniesAccess(err error) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.deniesAccess()
}

// Explain returns err with its class and remedy, and with what was being done. An [engine.Error] keeps its class.
func Explain(err error, doing string) error {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		named := *e
		named.Err = fmt.Errorf("%s: %w", doing, err)
		return &named
	}
	return causes.Explain(err, doing)
}
