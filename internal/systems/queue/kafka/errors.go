package kafka

import (
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine/cause"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// causes says what errors of brokers and of the client mean. Any other error is a lost connection.
var causes = cause.Table{Rows: []cause.Row{
	{Is: kerr.SaslAuthenticationFailed, Kind: cause.Credentials, Remedy: "check user, password and mechanism in `sasl`"},
	{Is: kerr.UnsupportedSaslMechanism, Kind: cause.Credentials, Remedy: "choose a mechanism in `sasl` that the listener allows"},
	{Is: kerr.IllegalSaslState, Kind: cause.Credentials,
		Remedy: "this listener expects no login, or another one: check port and `sasl`"},
	{Is: kerr.TopicAuthorizationFailed, Kind: cause.Credentials,
		Remedy: "give the user the permission: kafka-acls --add --allow-principal User:NAME --operation READ or WRITE --topic TOPIC"},
	{Is: kerr.GroupAuthorizationFailed, Kind: cause.Credentials,
		Remedy: "give the user the permission: kafka-acls --add --allow-principal User:NAME --operation READ --group GROUP"},
	{Is: kerr.TransactionalIDAuthorizationFailed, Kind: cause.Credentials,
		Remedy: "give the user the permission: kafka-acls --add --allow-principal User:NAME --operation WRITE --transactional-id ID"},
	{Is: kerr.ClusterAuthorizationFailed, Kind: cause.Credentials,
		Remedy: "give the user the permission IDEMPOTENT_WRITE or ALTER on the cluster, whichever the operation needs"},
	{Is: kerr.UnknownTopicOrPartition, Kind: cause.Awaited, Remedy: "create the topic, write `declare`, or correct its name"},
	{Is: kerr.UnknownTopicID, Kind: cause.Awaited, Remedy: "the topic was deleted, or deleted and created again: flowd looks it up again"},
	{Is: kerr.MessageTooLarge, Kind: cause.Rejected,
		Remedy: "make the message smaller, or raise max.message.bytes of the topic and `max_bytes` of the output"},
	{Is: kerr.RecordListTooLarge, Kind: cause.Rejected, Remedy: "make the message smaller, or raise segment.bytes of the topic"},
	{Is: kerr.InvalidTopicException, Kind: cause.Rejected,
		Remedy: "a topic's name has 1 to 249 letters, digits, dots, underscores and hyphens"},
	{Is: kerr.InvalidRecord, Kind: cause.Rejected, Remedy: "the topic refuses this record; records of a compacted topic need a key"},
	{Is: kerr.InvalidTimestamp, Kind: cause.Rejected,
		Remedy: "the timestamp is too far from the broker's clock: see message.timestamp.before.max.ms and after.max.ms of the topic"},
	{Is: kerr.PolicyViolation, Kind: cause.Rejected, Remedy: "a policy of the cluster forbids this: ask its administrators"},
	{Is: kerr.UnsupportedCompressionType, Kind: cause.Misconfigured, Remedy: "choose another `compression`"},
	{Is: kerr.UnsupportedVersion, Kind: cause.Misconfigured, Remedy: "the brokers are too old for this"},
	{Is: kerr.UnsupportedForMessageFormat, Kind: cause.Misconfigured,
		Remedy: "the topic has a message format older than 0.11: upgrade it"},
	{Is: kerr.FencedInstanceID, Kind: cause.Misconfigured, Remedy: "another member uses the same `instance_id`: each needs its own"},
	{Is: kerr.InconsistentGroupProtocol, Kind: cause.Misconfigured,
		Remedy: "other members of the group use another `protocol`: all need the same"},
	{Is: kerr.InvalidSessionTimeout, Kind: cause.Misconfigured,
		Remedy: "choose a `session_timeout` between group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers"},
	{Is: kerr.InvalidTransactionTimeout, Kind: cause.Misconfigured,
		Remedy: "choose a `transaction: {timeout: …}` of at most transaction.max.timeout.ms of the brokers"},
	{If: cause.AnyOf(kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState), Kind: cause.Lost,
		Remedy: "the transaction took longer than its timeout, or another process has the same transactional ID: " +
			"each needs its own `transaction: {id: …}` or `instance_id`"},
	{If: cause.AnyOf(kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend), Kind: cause.Lost,
		Remedy: "too few replicas are in sync: start the missing brokers"},
	{Is: kgo.ErrRecordTimeout, Kind: cause.Lost, Remedy: "no broker has confirmed it in time"},
	{Is: kgo.ErrRecordRetries, Kind: cause.Lost, Remedy: "no broker has confirmed it"},
	{Is: kgo.ErrClientClosed, Kind: cause.Lost},

	{If: cause.NotTLS, Kind: cause.Misconfigured,
		Remedy: "the broker does not use TLS on this port: check the port, or remove `tls`"},
	{If: cause.Undialled, Kind: cause.Unreachable,
		Remedy: "check that the broker runs, and its address; brokers name each other by advertised.listeners"},
	{If: cause.HungUp, Kind: cause.Lost, Says: "the broker closed the connection",
		Remedy: "it does so when it expects TLS, or refuses the login: check the port, `tls` and `sasl`"},
	{Is: context.DeadlineExceeded, Kind: cause.Lost, Says: "the brokers do not answer"},
}}

// Explain returns an error of the client with its class and remedy, and with what was being done.
func Explain(err error, doing string) error { return causes.Explain(err, doing) }

// Fenced reports whether the brokers have ended a transaction, so that it can't continue.
func Fenced(err error) bool { return isFencing(err) }

var isFencing = cause.AnyOf(kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.TransactionAbortable,
	kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber)

// IsPermanent reports whether a broker has refused a request that it will refuse again.
func IsPermanent(err error) bool {
	e, ok := errors.AsType[*kerr.Error](err)
	return ok && !e.Retriable
}

// BlamesRecord reports whether a broker has refused a batch because of one of its records. The client then fails all records that
// wait for the partition, and any of them may be to blame.
func BlamesRecord(err error) bool { return isBlaming(err) }

var isBlaming = cause.AnyOf(kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp,
	kerr.PolicyViolation, kerr.CorruptMessage, kerr.UnknownServerError)
