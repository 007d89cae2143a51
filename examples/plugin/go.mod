module example.com/myflowd

go 1.26.0

require github.com/flowd-io/flowd v0.0.0

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/expr-lang/expr v1.17.8 // indirect
	github.com/golang-jwt/jwt/v5 v5.3.1 // indirect
	github.com/itchyny/timefmt-go v0.1.9 // indirect
	github.com/ohler55/ojg v1.28.5 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/flowd-io/flowd => ../..
