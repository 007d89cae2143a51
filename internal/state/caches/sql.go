//go:build !no_sql && (!slim || sql)

package caches

import _ "github.com/flowd-io/flowd/internal/state/caches/sql"
