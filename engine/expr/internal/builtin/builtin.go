// Package builtin has the functions that come with flowd, a folder for each family. Importing it declares them.
//
// A family is a table of [lang.Builtins]: a usage line, docs, an example, which is tested, and the code. Declare gives some of
// them what few need: a shorter way to write the value, or a check of constants.
package builtin

import (
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/crypto"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/lists"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/numbers"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/patterns"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/sources"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/text"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/times"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/values"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/web"
	"github.com/flowd-io/flowd/engine/expr/internal/builtin/webtoken"
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

func init() {
	lang.Declare(values.Declare, text.Declare, web.Declare, lists.Declare, numbers.Declare, times.Declare, patterns.Declare, crypto.Declare,
		webtoken.Declare, sources.Declare)
}
