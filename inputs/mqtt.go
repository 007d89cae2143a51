//go:build !no_mqtt && (!slim || mqtt)

package inputs

import _ "github.com/flowd-io/flowd/inputs/mqtt"
