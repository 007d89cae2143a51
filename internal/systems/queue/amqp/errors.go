package amqp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/cause"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// causes says what errors of the client library and reply codes of the broker mean. A reply code without a row counts as a
// mistake in the configuration when a pipeline starts.
var causes = cause.Table{Code: replyOf, Refused: cause.Mismatched, Rows: []cause.Row{
	{If: refusal(amqp091.ErrCredentials, "Login was refused"), Kind: cause.Credentials, Says: "the broker refuses the login",
		Remedy: "check user and password, and that this user may log in from here"},
	{If: refusal(amqp091.ErrVhost, "access to vhost"), Kind: cause.Credentials, Says: "the broker refuses the virtual host",
		Remedy: "check that it exists, and that the user has permissions in it: rabbitmqctl set_permissions -p VHOST USER …"},
	{If: refusal(nil, "in exclusive use"), Kind: cause.Awaited,
		Remedy: "another consumer has exclusive use of it; stop that one"},
	{If: refusal(nil, "access to topic"), Kind: cause.Rejected, Remedy: "rabbitmqctl set_topic_permissions"},
	{If: refusal(nil, ""), Kind: cause.Credentials,
		Remedy: "give the user the permission: rabbitmqctl set_permissions -p VHOST USER CONFIGURE WRITE READ"},
	{If: reason(amqp091.NotAllowed, "vhost"), Kind: cause.Credentials,
		Remedy: "check the URL's path and `vhost`; the virtual host / is written /%2F, or left out"},
	{If: reason(amqp091.NotFound, ""), Kind: cause.Missing, Remedy: "create it, or write `declare`"},
	{If: reason(amqp091.ResourceLocked, ""), Kind: cause.Awaited,
		Remedy: "another connection has exclusive use of it, until that connection ends"},
	{If: reason(amqp091.ContentTooLarge, ""), Kind: cause.Rejected},
	{If: reason(amqp091.PreconditionFailed, "inequivalent arg"), Kind: cause.Mismatched,
		Remedy: "change `declare` to match the broker, or delete what the broker has"},
	{If: reason(amqp091.PreconditionFailed, "timed out"), Kind: cause.Lost,
		Remedy: "messages were in flight for longer than the broker's consumer_timeout; raise it, or make the pipeline faster"},
	{If: fromClient, Kind: cause.Lost},
	{If: reason(amqp091.ConnectionForced, ""), Kind: cause.Lost},
	{If: reason(amqp091.ResourceError, ""), Kind: cause.Lost},
	{If: reason(amqp091.InternalError, ""), Kind: cause.Lost},
	{If: cause.NotTLS, Kind: cause.Lost, Says: "the server does not use TLS on this port",
		Remedy: "write amqp://, or the port of the TLS listener, usually 5671"},
}}

// refusal returns a condition for a missing permission: a certain error of the client library, or a reply whose reason has a
// text.
func refusal(is error, text string) func(error) bool {
	matches := reason(amqp091.AccessRefused, text)
	return func(err error) bool { return is != nil && errors.Is(err, is) || matches(err) }
}

// reason returns a condition for a reply code whose reason has a text.
func reason(code int, text string) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*amqp091.Error](err)
		return ok && e.Code == code && strings.Contains(e.Reason, text)
	}
}

// fromClient reports whether the client library has made an error, and not the broker.
func fromClient(err error) bool {
	e, ok := errors.AsType[*amqp091.Error](err)
	return ok && !e.Server
}

// replyOf returns the reply code in an error, and its text.
func replyOf(err error) (code, text string) {
	e, ok := errors.AsType[*amqp091.Error](err)
	switch {
	case !ok:
		return "", ""
	case e.Server:
		text = fmt.Sprintf("the broker says %d %s", e.Code, e.Reason)
	case e.Code == amqp091.FrameError:
		text = "the connection was lost: " + e.Reason
	default:
		text = e.Reason
	}
	return strconv.Itoa(e.Code), text
}

// Explain returns an error with its class and remedy, and with what was being done.
func Explain(err error, doing string) error { return causes.Explain(err, doing) }

// Lost returns the error of a channel or connection that was closed because of e.
func Lost(e *amqp091.Error, what string) error {
	if e == nil {
		return engine.Errorf(engine.Transient, "%s: closed", what)
	}
	return Explain(e, what)
}

// replyCode returns the reply code in an error, or 0.
func replyCode(err error) int {
	if e, ok := errors.AsType[*amqp091.Error](err); ok {
		return e.Code
	}
	return 0
}

// BlamesMessage reports whether the broker may have closed a channel because of a single message: it is too large, has a
// property that is not allowed, or a topic that the user must not use.
func BlamesMessage(err error) bool {
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Holds {
		return false
	}
	switch replyCode(err) {
	case amqp091.PreconditionFailed, amqp091.ContentTooLarge:
		return true
	case amqp091.AccessRefused:
		return ClassOf(err) == engine.Rejected
	}
	return false
}
