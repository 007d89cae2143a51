//go:build !no_sql && (!slim || sql)

package processors

import _ "github.com/flowd-io/flowd/processors/sql"
