//go:build !no_azure && (!slim || azure)

package inputs

import _ "github.com/flowd-io/flowd/inputs/azure_blob"
