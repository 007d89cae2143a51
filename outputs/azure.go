//go:build !no_azure && (!slim || azure)

package outputs

import _ "github.com/flowd-io/flowd/outputs/azure_blob"
