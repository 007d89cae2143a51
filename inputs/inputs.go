// Package inputs is the list of built-in inputs.
package inputs

import (
	_ "github.com/flowd-io/flowd/inputs/azure_blob"
	_ "github.com/flowd-io/flowd/inputs/file"
	_ "github.com/flowd-io/flowd/inputs/gcs"
	_ "github.com/flowd-io/flowd/inputs/generate"
	_ "github.com/flowd-io/flowd/inputs/http_server"
	_ "github.com/flowd-io/flowd/inputs/kafka"
	_ "github.com/flowd-io/flowd/inputs/nats"
	_ "github.com/flowd-io/flowd/inputs/pipe"
	_ "github.com/flowd-io/flowd/inputs/poll"
	_ "github.com/flowd-io/flowd/inputs/postgres_cdc"
	_ "github.com/flowd-io/flowd/inputs/rabbitmq"
	_ "github.com/flowd-io/flowd/inputs/s3"
	_ "github.com/flowd-io/flowd/inputs/sequence"
	_ "github.com/flowd-io/flowd/inputs/sql"
	_ "github.com/flowd-io/flowd/inputs/sqs"
	_ "github.com/flowd-io/flowd/inputs/stdin"
)
