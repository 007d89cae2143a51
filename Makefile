# Shortcuts; README.md and CONTRIBUTING.md give the commands behind them.

.PHONY: build test check bench reference

build: ## the flowd binary, in the root of the repository
	go build -o flowd ./cmd/flowd

test: ## what README.md calls the tests
	go test -race ./...

check: ## all that must hold before a change lands
	./.ci/run

bench: ## flowd beside hand-written Go, benthos and jq, in ten minutes
	go run ./test/bench

reference: ## docs/reference.md, from the components themselves
	go run ./cmd/flowd docs --markdown > docs/reference.md
