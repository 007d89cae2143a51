//go:build !no_rabbitmq && (!slim || rabbitmq)

package outputs

import _ "github.com/flowd-io/flowd/outputs/rabbitmq"
