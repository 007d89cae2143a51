//go:build !no_sql && (!slim || sql)

package inputs

import (
	_ "github.com/flowd-io/flowd/inputs/postgres_cdc"
	_ "github.com/flowd-io/flowd/inputs/sql"
)
