package kafka

import (
	"context"
	"errors"

	"github.com/flowd-io/flowd/engine/cause"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// causes are the errors that need more than their own text.
var causes = cause.Table{Rows: []cause.Row{
	{Is: kerr.SaslAuthenticationFailed, Kind: cause.Credentials, Remedy: "check user, password and mechanism in `sasl`"},
	{Is: kerr.UnsupportedSaslMechanism, Kind: cause.Credentials, Remedy: "choose a mechanism in `sasl` that the listener allows"},
	{Is: kerr.IllegalSaslState, Kind: cause.Credentials,
		Remedy: "this listener expects no login, or another one: check port and `sasl`"},
	{Is: kerr.TopicAuthorizationFailed, Kind: cause.Credentials,
		Remedy: "give the user the right: kafka-acls --add --allow-principal User:NAME --operation READ or WRITE --topic TOPIC"},
	{Is: kerr.GroupAuthorizationFailed, Kind: cause.Credentials,
		Remedy: "give the user the right: kafka-acls --add --allow-principal User:NAME --operation READ --group GROUP"},
	{Is: kerr.TransactionalIDAuthorizationFailed, Kind: cause.Credentials,
		Remedy: "give the user the right: kafka-acls --add --allow-principal User:NAME --operation WRITE --transactional-id ID"},
	{Is: kerr.ClusterAuthorizationFailed, Kind: cause.Credentials,
		Remedy: "give the user the right IDEMPOTENT_WRITE or ALTER on the cluster, as the operation needs it"},
	{Is: kerr.UnknownTopicOrPartition, Kind: cause.Awaited, Remedy: "create the topic, write `declare`, or correct its name"},
	{Is: kerr.UnknownTopicID, Kind: cause.Awaited, Remedy: "the topic was deleted, or deleted and created again: flowd looks again"},
	{Is: kerr.MessageTooLarge, Kind: cause.Rejected,
		Remedy: "make the message smaller, or raise max.message.bytes of the topic and `max_bytes` of the output"},
	{Is: kerr.RecordListTooLarge, Kind: cause.Rejected, Remedy: "make the message smaller, or raise segment.bytes of the topic"},
	{Is: kerr.InvalidTopicException, Kind: cause.Rejected,
		Remedy: "a topic's name has 1 to 249 letters, digits, dots, underscores and hyphens"},
	{Is: kerr.InvalidRecord, Kind: cause.Rejected, Remedy: "the topic refuses this record; a compacted topic takes none without a key"},
	{Is: kerr.InvalidTimestamp, Kind: cause.Rejected,
		Remedy: "the timestamp is too far from the broker's clock: see message.timestamp.before.max.ms and after.max.ms of the topic"},
	{Is: kerr.PolicyViolation, Kind: cause.Rejected, Remedy: "the cluster has a policy that forbids this: ask its administrators"},
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
		Remedy: "the broker does not speak TLS at this port: check the port, or remove `tls`"},
	{If: cause.Undialled, Kind: cause.Unreachable,
		Remedy: "check that the broker runs, and its address; brokers name each other by advertised.listeners"},
	{If: cause.HungUp, Kind: cause.Lost, Says: "the broker closed the connection",
		Remedy: "it does so when it expects TLS, or refuses the login: check the port, `tls` and `sasl`"},
	{Is: context.DeadlineExceeded, Kind: cause.Lost, Says: "the brokers do not answer"},
}}

// Explain gives an error of the client its class, says what was being done, and what to do about it.
func Explain(err error, doing string) error { return causes.Explain(err, doing) }

// Fenced reports whether brokers have ended a transaction, and take no more of it.
func Fenced(err error) bool { return isFencing(err) }

var isFencing = cause.AnyOf(kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.TransactionAbortable,
	kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber)

// Final reports whether a broker has refused something and will refuse it again.
func Final(err error) bool {
	e, ok := errors.AsType[*kerr.Error](err)
	return ok && !e.Retriable
}

// Blames reports whether a broker has refused a record. It then refuses the whole batch, and the client fails all records
// that wait for the partition: any of these may be to blame.
func Blames(err error) bool { return isBlaming(err) }

var isBlaming = cause.AnyOf(kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp,
	kerr.PolicyViolation, kerr.CorruptMessage, kerr.UnknownServerError)
