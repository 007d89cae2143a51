package engine

import (
	"strings"
	"sync"
)

// Phrases that several remedies share.
const (
	bulkRequests = "send bulk requests with a step `http`: flowd docs elasticsearch shows the recipe"
	overHTTP     = "write `http` with the URL of its API"
	asProgram    = "write a `program` for it (flowd docs programs), or read a command: `COMMAND | flowd -c FILE`, with an input `stdin`"
	byProgram    = "write a `program` for it (flowd docs programs), or hand messages to a command with a step `exec`"
	pluginFor    = "write a plugin: flowd plugin new"
)

// peerTypes are components of Benthos, Vector, Logstash and Fluent Bit, by kind and name, with what to write instead. It is built on
// first use, since only mistakes need it. A key may hold several names, separated by spaces.
var peerTypes = sync.OnceValue(func() map[string]map[string]string {
	both := map[string]string{
		"aws_s3 amazon_s3":                               "write `s3`",
		"aws_sqs amazonsqs":                              "write `sqs`",
		"aws_sns":                                        "write `sns`",
		"amqp amqp_0_9 amqp_1 rabbit":                    "write `rabbitmq`",
		"azure_blob_storage blob_storage":                "write `azure_blob`",
		"gcp_cloud_storage google_cloud_storage":         "write `gcs`",
		"kafka_franz redpanda redpanda_common kafka_lag": "write `kafka`",
		"nats_jetstream jetstream nats_stream":           "write `nats` with `stream`",
		"redis_streams":                                  "write `redis_stream`",
		"redis":                                          "write `redis_stream`, `redis_list` or `redis_pubsub`",
		"postgres postgresql mysql mariadb sqlite clickhouse database jdbc sql_raw sql_insert sql_select gcp_bigquery_select": "write `sql`",
		"http_client":                     "write `http`",
		"inproc":                          "write `pipe`",
		"pubsub gcp_pubsub google_pubsub": "Pub/Sub has no component: read and write it through Kafka or HTTP, or " + pluginFor,
		"kinesis aws_kinesis aws_kinesis_firehose aws_kinesis_streams kinesis_firehose": "Kinesis has no component: " + pluginFor,
		"pulsar":                        "Pulsar has no component: use its Kafka or MQTT protocol handler",
		"websocket socket tcp udp unix": "there is no component for sockets: " + pluginFor,
		"mongodb mongo cassandra dynamodb aws_dynamodb couchbase cosmosdb": "it has no component: " + pluginFor,
		"sftp ftp hdfs": "it has no component: mount it as a folder and use `file`, or use `s3`, `gcs` or `azure_blob`",
		"aws_event_hubs azure_event_hubs event_hubs":                "write `kafka`: Event Hubs speaks its protocol (flowd docs kafka)",
		"azure_queue_storage azure_table_storage azure_service_bus": "it has no component: " + overHTTP,
		"dynamic": "write `service.pipelines`: pipelines then come and go over the admin API",
	}
	of := map[string]map[string]string{
		"input": {
			"elasticsearch opensearch splunk influxdb": "write `http`, which polls its API",
			"beats lumberjack fluent forward logstash opentelemetry otlp": "there is no input for this protocol: let it send HTTP or Kafka, and " +
				"write `http_server` or `kafka`",
			"syslog": "write `stdin` or `file`, which a syslog daemon writes, with a step `decode: syslog`",
			"journald docker_logs kubernetes_logs exec subprocess": asProgram,
			"http http_listener webhook":                           "write `http_server`",
			"tail filelog":                                         "write `file: {path: …, follow: true}`",
			"csv":                                                  "write `file: {path: …, framing: csv}`",
			"demo_logs dummy cron schedule timer":                  "write `generate` with an `interval`",
			"debezium cdc pg_stream":                               "write `postgres_cdc`",
			"mysql_cdc mongodb_cdc":                                "only PostgreSQL's changes can be read: write `postgres_cdc`",
			"broker read_until batched":                            "write each input under a name of its own in `inputs`",
			"console":                                              "write `stdin`",
		},
		"output": {
			"elasticsearch elasticsearch_v8 elasticsearch_v9 opensearch": bulkRequests,
			"loki splunk splunk_hec splunk_hec_logs datadog_logs newrelic honeycomb influxdb influxdb_logs questdb " +
				"snowflake_put snowflake_streaming gcp_bigquery bigquery databricks axiom logdna prometheus_remote_write": overHTTP,
			"slack discord pagerduty email smtp telegram webhook": "write `http` with the URL of its webhook",
			"console print stdio":         "write `stdout`",
			"blackhole null devnull":      "write `drop`",
			"subprocess exec command":     byProgram,
			"sync_response http_response": "write `reply`",
			"broker fan_out":              "write `batchers` with `output: [a, b]`",
			"switch route":                "write `batchers` with `match`",
			"nack reject reject_errored":  "write `on_failure: {then: return}`",
			"retry drop_on":               "write `retry` and `on_failure` beside the output's type",
			"cache":                       "write a step `cache: {set: …}`",
			"http_server":                 "write `reply` to answer requests of an input `http_server`",
			"kafka_connect":               "write `kafka`",
		},
		"processor": {
			"mapping bloblang remap": "write `set` or `map`", "mutation mutate": "write `set`, `rename` or `unset`",
			"unarchive": "write `split`", "catch": "write `on_error` on the step that may fail",
			"throttle": "write `rate_limit`", "broker fan_out": "write `batchers`",
			"http_client": "write `http`", "command subprocess execd": "write `exec`, or `program` if it keeps running",
			"lua ruby javascript python wasm awk script": "write an expression in `set` or `map`, or a `program` (flowd docs programs)",
			"parse_log":                    "write `decode: syslog`",
			"date":                         `write ` + "`set: {at: 'parse_time(at)'}`",
			"dissect parse_regex":          "write `decode: {regex: …}`",
			"parse_json json_parser":       "write `decode: json`",
			"xml avro protobuf msgpack kv": "write `decode` or `encode` with this format",
			"schema_registry_decode":       "write `decode: {avro: …}` with a registry",
			"schema_registry_encode":       "write `encode: {avro: …}` with a registry",
			"json_schema":                  "write `validate`",
			"cached":                       "write `cache`, or `lookup()` in a table",
			"translate enrich jdbc_static jdbc_streaming": "write `lookup()` in a table of `resources.tables`, or a step `sql`",
			"workflow":                                "write `parallel`",
			"route exclusive_route":                   "write `batchers` with `match`, or a step `switch`",
			"drop discard":                            "write `filter` with the condition of messages that stay",
			"delete remove remove_field":              "write `unset`, or `filter` for messages",
			"add_field add_fields record_transformer": "write `set`",
			"fingerprint":                             "write `set: {id: to_hex(sha256(raw()))}`",
			"uuid":                                    "write `set: {id: uuid()}`",
			"clone":                                   "write `batchers` with `continue: true`",
			"insert_part select_parts":                "write `split`, `filter` or `archive`",
			"metrics count":                           "write `metric`",
			"assert":                                  "write `fail` with `when`",
			"group_by group_by_value partition":       "write `batchers` with `key`",
			"batch window":                            "write it in `batchers`",
			"sentinel noop":                           "remove it",
		},
		"batcher": {"batching": "write `batch`", "system_window": "write `window`", "group_by group_by_value": "write `key` beside the type"},
		"cache": {
			"lru ttlru":                        "write `memory`",
			"memcached mongodb couchbase":      "write `redis` or `sql`",
			"multilevel":                       "name one cache",
			"aws_s3 gcp_cloud_storage":         "write `file`, `redis` or `sql`",
			"aws_dynamodb":                     "write `redis` or `sql`",
			"postgres postgresql mysql sqlite": "write `sql`",
			"noop":                             "remove the steps that use it",
		},
	}
	all := map[string]map[string]string{}
	add := func(kind string, words map[string]string) {
		if all[kind] == nil {
			all[kind] = map[string]string{}
		}
		for names, remedy := range words {
			for name := range strings.FieldsSeq(names) {
				all[kind][name] = remedy
			}
		}
	}
	add("input", both)
	add("output", both)
	for kind, words := range of {
		add(kind, words)
	}
	return all
})
