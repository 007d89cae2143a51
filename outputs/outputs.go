// Package outputs is the list of built-in outputs.
package outputs

import (
	_ "github.com/flowd-io/flowd/outputs/azure_blob"
	_ "github.com/flowd-io/flowd/outputs/drop"
	_ "github.com/flowd-io/flowd/outputs/fallback"
	_ "github.com/flowd-io/flowd/outputs/file"
	_ "github.com/flowd-io/flowd/outputs/gcs"
	_ "github.com/flowd-io/flowd/outputs/http"
	_ "github.com/flowd-io/flowd/outputs/kafka"
	_ "github.com/flowd-io/flowd/outputs/nats"
	_ "github.com/flowd-io/flowd/outputs/partition"
	_ "github.com/flowd-io/flowd/outputs/pipe"
	_ "github.com/flowd-io/flowd/outputs/rabbitmq"
	_ "github.com/flowd-io/flowd/outputs/reply"
	_ "github.com/flowd-io/flowd/outputs/round_robin"
	_ "github.com/flowd-io/flowd/outputs/s3"
	_ "github.com/flowd-io/flowd/outputs/sns"
	_ "github.com/flowd-io/flowd/outputs/sql"
	_ "github.com/flowd-io/flowd/outputs/sqs"
	_ "github.com/flowd-io/flowd/outputs/stdout"
)
