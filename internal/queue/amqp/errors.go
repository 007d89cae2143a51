package amqp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/flowd-io/flowd/engine"
	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Explain gives an error of the client its class, says what was being done, and
// what to do about it.
func Explain(err error, doing string) error {
	if _, known := errors.AsType[*engine.Error](err); known {
		return err
	}
	class, text, remedy := judge(err)
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
	if e, ok := errors.AsType[*amqp091.Error](err); ok {
		return reply(e)
	}
	switch {
	case errors.As(err, new(x509.HostnameError)):
		return engine.Auth, err.Error(), "set tls.server_name to a name that the certificate has"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return engine.Auth, err.Error(), "set tls.ca to the certificate of the authority that signed it"
	case errors.As(err, new(tls.RecordHeaderError)):
		return engine.Transient, "the server does not speak TLS there",
			"write amqp://, or the port of the TLS listener, usually 5671"
	}
	return engine.Transient, err.Error(), ""
}

// reply is what a reply code of the broker, or of the client in its place, means.
func reply(e *amqp091.Error) (class engine.Class, text, remedy string) {
	text = e.Reason
	if e.Server {
		text = fmt.Sprintf("the broker says %d %s", e.Code, e.Reason)
	}
	switch e.Code {
	case amqp091.AccessRefused:
		switch {
		case errors.Is(e, amqp091.ErrCredentials), strings.Contains(e.Reason, "Login was refused"):
			return engine.Auth, "the broker refuses the login",
				"check user and password, and that this user may log in from here"
		case errors.Is(e, amqp091.ErrVhost), strings.Contains(e.Reason, "access to vhost"):
			return engine.Auth, "the broker refuses the virtual host",
				"check that it exists, and that the user has permissions in it: rabbitmqctl set_permissions -p VHOST USER …"
		case strings.Contains(e.Reason, "in exclusive use"):
			return engine.Transient, text, "another consumer has exclusive use of it; stop that one"
		case strings.Contains(e.Reason, "access to topic"):
			return engine.Rejected, text, "rabbitmqctl set_topic_permissions"
		}
		return engine.Auth, text,
			"give the user the permission: rabbitmqctl set_permissions -p VHOST USER CONFIGURE WRITE READ"
	case amqp091.NotAllowed:
		if strings.Contains(e.Reason, "vhost") {
			return engine.Auth, text,
				"check the URL's path and `vhost`; the virtual host / is written /%2F, or left out"
		}
	case amqp091.NotFound:
		return engine.Transient, text, "create it, or write `declare`"
	case amqp091.ResourceLocked:
		return engine.Transient, text, "another connection has exclusive use of it, until that connection ends"
	case amqp091.ContentTooLarge:
		return engine.Rejected, text, ""
	case amqp091.PreconditionFailed:
		switch {
		case strings.Contains(e.Reason, "inequivalent arg"):
			return engine.Transient, text, "change `declare` to match the broker, or delete what the broker has"
		case strings.Contains(e.Reason, "timed out"):
			return engine.Transient, text,
				"messages were in flight for longer than the broker's consumer_timeout; raise it, or make the pipeline faster"
		}
	case amqp091.FrameError:
		if !e.Server {
			text = "the connection was lost: " + e.Reason
		}
	}
	return engine.Transient, text, ""
}

// Lost is why a channel or connection is no longer there.
func Lost(e *amqp091.Error, what string) error {
	if e == nil {
		return engine.Errorf(engine.Transient, "%s: closed", what)
	}
	return Explain(e, what)
}

// Unreachable says that an error is about reaching the broker at all, which time may
// heal.
func Unreachable(err error) bool {
	reply, ok := errors.AsType[*amqp091.Error](err)
	if ok && reply.Server {
		return reply.Code == amqp091.ConnectionForced
	}
	return ClassOf(err) == engine.Transient && (ok || errors.As(err, new(*net.OpError)) || isTimeout(err))
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
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
