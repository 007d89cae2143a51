//go:build !no_google && (!slim || google)

package outputs

import _ "github.com/flowd-io/flowd/outputs/gcs"
