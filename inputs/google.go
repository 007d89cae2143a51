//go:build !no_google && (!slim || google)

package inputs

import _ "github.com/flowd-io/flowd/inputs/gcs"
