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

// causes are the errors of the client, and the reply codes of the broker, that need more than their own text. An answer
// without a row is about the configuration, as far as the start of a pipeline is concerned.
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
	{If: ofClient, Kind: cause.Lost},
	{If: reason(amqp091.ConnectionForced, ""), Kind: cause.Lost},
	{If: reason(amqp091.ResourceError, ""), Kind: cause.Lost},
	{If: reason(amqp091.InternalError, ""), Kind: cause.Lost},
	{If: cause.NotTLS, Kind: cause.Lost, Says: "the server does not speak TLS there",
		Remedy: "write amqp://, or the port of the TLS listener, usually 5671"},
}}

// refusal matches what the broker refuses for want of a right: a certain error of the client, or with a text in its
// reason.
func refusal(is error, text string) func(error) bool {
	matches := reason(amqp091.AccessRefused, text)
	return func(err error) bool { return is != nil && errors.Is(err, is) || matches(err) }
}

// reason matches a reply code whose reason has a text.
func reason(code int, text string) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*amqp091.Error](err)
		return ok && e.Code == code && strings.Contains(e.Reason, text)
	}
}

// ofClient matches errors that the client makes: the broker did not say so.
func ofClient(err error) bool {
	e, ok := errors.AsType[*amqp091.Error](err)
	return ok && !e.Server
}

// replyOf returns a reply code, and what the broker says.
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

// Explain gives an error of the client its class, says what was being done, and what to do about it.
func Explain(err error, doing string) error { return causes.Explain(err, doing) }

// Lost is why a channel or connection is no longer there.
func Lost(e *amqp091.Error, what string) error {
	if e == nil {
		return engine.Errorf(engine.Transient, "%s: closed", what)
	}
	return Explain(e, what)
}

// Code is the reply code in an error, or 0.
func Code(err error) int {
	if e, ok := errors.AsType[*amqp091.Error](err); ok {
		return e.Code
	}
	return 0
}

// Singly says that one message may be why the broker has closed a channel: it is too
// large, has a property that it may not have, or a topic that the user may not use.
func Singly(err error) bool {
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Holds {
		return false
	}
	switch Code(err) {
	case amqp091.PreconditionFailed, amqp091.ContentTooLarge:
		return true
	case amqp091.AccessRefused:
		return ClassOf(err) == engine.Rejected
	}
	return false
}
