//go:build !no_sql && (!slim || sql)

package outputs

import _ "github.com/flowd-io/flowd/outputs/sql"
