package mqtt

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
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
	text, ok := reasons[r.Code]
	switch {
	case r.atDoor():
		text = "the server does not let this client in"
	case !ok:
		text = "the server refuses it and gives no reason"
	}
	if r.said != "" {
		text += ": " + r.said
	}
	return fmt.Sprintf("%s (0x%02X)", text, r.Code)
}

// atDoor says that the server refuses the client as a whole.
func (r *Refusal) atDoor() bool { return r.door && r.Code == NotAuthorized }

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

// reasons are what reason codes say.
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
	0x8C:          "the server wants another way to authenticate",
	0x8D:          "the server has not heard from this client for too long",
	takenOver:     "another client has connected with the same client_id",
	0x8F:          "the server does not accept the filter",
	badName:       "the server does not accept the topic",
	0x91:          "the server says that the packet's number is in use",
	0x93:          "the server says that more messages were in flight than it accepts",
	tooLarge:      "the message is larger than the server accepts",
	0x96:          "the server receives messages too fast",
	QuotaExceeded: "a quota of the server is exceeded",
	0x98:          "an administrator of the server has ended the connection",
	badFormat:     "the payload is not what its format says",
	noRetain:      "the server does not retain messages",
	noQoS:         "the server does not support this quality of service",
	0x9C:          "the server sends clients to another server",
	0x9D:          "the server sends clients to another server",
	0x9E:          "the server has no shared subscriptions",
	0x9F:          "the server limits how often clients connect",
	0xA0:          "the connection has lasted for as long as the server allows",
	0xA2:          "the server has no subscriptions with wildcards",
}

// causes are the errors that need more than their own text.
var causes = cause.Table{Rows: []cause.Row{
	{If: coded(badVersion), Kind: cause.Misconfigured,
		Remedy: "write `version: 3.1.1`, or `version: 5` if that is what is set"},
	{If: coded(badClientID), Kind: cause.Misconfigured, Remedy: "write another client_id"},
	{If: coded(badLogin), Kind: cause.Credentials, Remedy: "check `user` and `password`"},
	{If: refusedAtDoor, Kind: cause.Credentials,
		Remedy: "check `user`, `password` and `client_id`, and the server's access control"},
	{If: coded(NotAuthorized), Kind: cause.Credentials,
		Remedy: "give this user or client_id the right, in the server's access control"},
	{If: coded(0x8A), Kind: cause.Credentials, Remedy: "ask its administrator"},
	{If: coded(0x8C), Kind: cause.Credentials, Remedy: "check `user`, `password` and `tls`"},
	{If: coded(0x8D), Kind: cause.Lost, Remedy: "lower keep_alive if a network device cuts idle connections"},
	{If: coded(takenOver), Kind: cause.Lost,
		Remedy: "give each client a client_id of its own; stop the other one, if it is an old flowd"},
	{If: coded(0x8F), Kind: cause.Misconfigured, Remedy: "write another filter in `topics`"},
	{If: coded(tooLarge), Kind: cause.Rejected, Remedy: "raise the server's limit, or send less"},
	{If: coded(badName, badFormat), Kind: cause.Rejected},
	{If: coded(0x96), Kind: cause.Lost, Remedy: "set a rate_limit"},
	{If: coded(QuotaExceeded), Kind: cause.Lost, Remedy: "raise it, or wait until others have read"},
	{If: coded(noRetain), Kind: cause.Misconfigured, Remedy: "remove `retain`"},
	{If: coded(noQoS), Kind: cause.Misconfigured, Remedy: "lower `qos`"},
	{If: coded(0x9C, 0x9D), Kind: cause.Lost, Remedy: "write that one's `url`"},
	{If: coded(0x9E), Kind: cause.Misconfigured, Remedy: "remove `share` and $share/"},
	{If: coded(0xA2), Kind: cause.Misconfigured, Remedy: "name the topics"},

	{If: cause.NotTLS, Kind: cause.Lost, Says: "the server does not speak TLS there",
		Remedy: "write mqtt://, or the port of the TLS listener, usually 8883"},
	{If: cause.HungUp, Kind: cause.Lost, Says: "the server has closed the connection without a reason"},
}}

// coded matches reason codes.
func coded(codes ...byte) func(error) bool {
	return func(err error) bool {
		r, ok := errors.AsType[*Refusal](err)
		return ok && slices.Contains(codes, r.Code)
	}
}

func refusedAtDoor(err error) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.atDoor()
}

// Explain gives an error its class, and says what was being done, and what to do about it.
func Explain(err error, doing string) error {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		named := *e
		named.Err = fmt.Errorf("%s: %w", doing, err)
		return &named
	}
	return causes.Explain(err, doing)
}
