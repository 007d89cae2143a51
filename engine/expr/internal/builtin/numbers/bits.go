package numbers

import (
	"github.com/flowd-io/flowd/engine/expr/internal/lang"
)

var bitwise = lang.Builtins{
	{"bitand(int, int) int",
		"Bits that are set in both.",
		`bitand(6, 3) → 2`,
		lang.Upstream("bitand")},
	{"bitor(int, int) int",
		"Bits that are set in either.",
		`bitor(6, 3) → 7`,
		lang.Upstream("bitor")},
	{"bitxor(int, int) int",
		"Bits that are set in exactly one of them.",
		`bitxor(6, 3) → 5`,
		lang.Upstream("bitxor")},
	{"bitnand(int, int) int",
		"Bits of the first that are not set in the second.",
		`bitnand(6, 3) → 4`,
		lang.Upstream("bitnand")},
	{"bitnot(int) int",
		"All bits inverted.",
		`bitnot(6) → -7`,
		lang.Upstream("bitnot")},
	{"bitshl(int, int) int",
		"Bits shifted left.",
		`bitshl(1, 4) → 16`,
		shift("bitshl")},
	{"bitshr(int, int) int",
		"Bits shifted right, keeping the sign.",
		`bitshr(-16, 2) → -4`,
		shift("bitshr")},
	{"bitushr(int, int) int",
		"Bits shifted right, filling with zeros.",
		`bitushr(16, 2) → 4`,
		shift("bitushr")},
}

// shift is expr's own shift, by a number of bits that is not negative.
func shift(name string) func(f *lang.Frame, s *lang.Site, args []any) any {
	run := lang.Upstream(name)
	return func(f *lang.Frame, s *lang.Site, args []any) any {
		if args[1].(int) < 0 {
			s.Fail("%s() can't shift by fewer than 0 bits, as %s asks for", s.Name, s.Show(args[1]))
		}
		return run(f, s, args)
	}
}
