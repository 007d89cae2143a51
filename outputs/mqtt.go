//go:build !no_mqtt && (!slim || mqtt)

package outputs

import _ "github.com/flowd-io/flowd/outputs/mqtt"
