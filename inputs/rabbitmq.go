//go:build !no_rabbitmq && (!slim || rabbitmq)

package inputs

import _ "github.com/flowd-io/flowd/inputs/rabbitmq"
