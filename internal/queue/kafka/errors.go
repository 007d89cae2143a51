package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// rule is what an error of the client means.
type rule struct {
	err    error
	class  engine.Class
	remedy string
}

// rules are the errors that need more than their own text; the first that matches counts.
var rules = []rule{
	{kerr.SaslAuthenticationFailed, engine.Auth, "check user, password and mechanism in `sasl`"},
	{kerr.UnsupportedSaslMechanism, engine.Auth, "choose a mechanism in `sasl` that the listener allows"},
	{kerr.IllegalSaslState, engine.Auth, "this listener expects no login, or another one: check port and `sasl`"},
	{kerr.TopicAuthorizationFailed, engine.Auth,
		"give the user the right: kafka-acls --add --allow-principal User:NAME --operation READ or WRITE --topic TOPIC"},
	{kerr.GroupAuthorizationFailed, engine.Auth,
		"give the user the right: kafka-acls --add --allow-principal User:NAME --operation READ --group GROUP"},
	{kerr.TransactionalIDAuthorizationFailed, engine.Auth,
		"give the user the right: kafka-acls --add --allow-principal User:NAME --operation WRITE --transactional-id ID"},
	{kerr.ClusterAuthorizationFailed, engine.Auth,
		"give the user the right IDEMPOTENT_WRITE or ALTER on the cluster, as the operation needs it"},
	{kerr.UnknownTopicOrPartition, engine.Transient, "create the topic, write `declare`, or correct its name"},
	{kerr.UnknownTopicID, engine.Transient, "the topic was deleted, or deleted and created again: flowd looks again"},
	{kerr.MessageTooLarge, engine.Rejected, "make the message smaller, or raise max.message.bytes of the topic and `max_bytes` of the output"},
	{kerr.RecordListTooLarge, engine.Rejected, "make the message smaller, or raise segment.bytes of the topic"},
	{kerr.InvalidTopicException, engine.Rejected, "a topic's name has 1 to 249 letters, digits, dots, underscores and hyphens"},
	{kerr.InvalidRecord, engine.Rejected, "the topic refuses this record; a compacted topic takes none without a key"},
	{kerr.InvalidTimestamp, engine.Rejected,
		"the timestamp is too far from the broker's clock: see message.timestamp.before.max.ms and after.max.ms of the topic"},
	{kerr.PolicyViolation, engine.Rejected, "the cluster has a policy that forbids this: ask its administrators"},
	{kerr.UnsupportedCompressionType, engine.Permanent, "choose another `compression`"},
	{kerr.UnsupportedVersion, engine.Permanent, "the brokers are too old for this"},
	{kerr.UnsupportedForMessageFormat, engine.Permanent, "the topic has a message format older than 0.11: upgrade it"},
	{kerr.FencedInstanceID, engine.Permanent, "another member uses the same `instance_id`: each needs its own"},
	{kerr.InconsistentGroupProtocol, engine.Permanent, "other members of the group use another `protocol`: all need the same"},
	{kerr.InvalidSessionTimeout, engine.Permanent,
		"choose a `session_timeout` between group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers"},
	{kerr.InvalidTransactionTimeout, engine.Permanent,
		"choose a `transaction: {timeout: …}` of at most transaction.max.timeout.ms of the brokers"},
	{kerr.ProducerFenced, engine.Transient, fencedRemedy},
	{kerr.InvalidProducerEpoch, engine.Transient, fencedRemedy},
	{kerr.InvalidTxnState, engine.Transient, fencedRemedy},
	{kerr.NotEnoughReplicas, engine.Transient, "too few replicas are in sync: start the missing brokers"},
	{kerr.NotEnoughReplicasAfterAppend, engine.Transient, "too few replicas are in sync: start the missing brokers"},
	{kgo.ErrRecordTimeout, engine.Transient, "no broker has confirmed it in time"},
	{kgo.ErrRecordRetries, engine.Transient, "no broker has confirmed it"},
	{kgo.ErrClientClosed, engine.Transient, ""},
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
	if remedy != "" {
		return engine.Errorf(class, "%s: %s%w (%s)", doing, text, err, remedy)
	}
	return engine.Errorf(class, "%s: %s%w", doing, text, err)
}

func judge(err error) (class engine.Class, text, remedy string) {
	for _, r := range rules {
		if errors.Is(err, r.err) {
			return r.class, "", r.remedy
		}
	}
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	var dial *net.OpError
	switch {
	case errors.As(err, &unknown):
		return engine.Auth, "", "name the authority in `tls: {ca: FILE}`"
	case errors.As(err, &host):
		return engine.Auth, "", "use the name in the certificate, or set `tls: {server_name: …}`"
	case errors.As(err, &record):
		return engine.Permanent, "", "the broker does not speak TLS at this port: check the port, or remove `tls`"
	case errors.As(err, &dial) && dial.Op == "dial":
		return engine.Transient, "", "check that the broker runs, and its address; brokers name each other by advertised.listeners"
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return engine.Transient, "the broker closed the connection: ",
			"it does so when it expects TLS, or refuses the login: check the port, `tls` and `sasl`"
	case errors.Is(err, context.DeadlineExceeded):
		return engine.Transient, "the brokers do not answer: ", ""
	}
	return engine.Transient, "", ""
}

const fencedRemedy = "the transaction took longer than its timeout, or another process has the same transactional ID: " +
	"each needs its own `transaction: {id: …}` or `instance_id`"

// Fenced says that brokers have ended a transaction, and take no more of it.
func Fenced(err error) bool {
	return slices.ContainsFunc(fencing, func(f error) bool { return errors.Is(err, f) })
}

var fencing = []error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.TransactionAbortable,
	kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber}

// Final says that a broker has refused something and will refuse it again.
func Final(err error) bool {
	e, ok := errors.AsType[*kerr.Error](err)
	return ok && !e.Retriable
}

// Blames says that a broker has refused a record. It refuses a whole batch then, and the client fails all that waits
// for the partition: any of these may be to blame.
func Blames(err error) bool {
	return slices.ContainsFunc(blaming, func(b error) bool { return errors.Is(err, b) })
}

var blaming = []error{kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp,
	kerr.PolicyViolation, kerr.CorruptMessage, kerr.UnknownServerError}
