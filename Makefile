# Shortcuts; README.md and CONTRIBUTING.md give the commands behind them.

.PHONY: build test check reference

build: ## the flowd binary, in the root of the repository
	go build -o flowd ./cmd/flowd

test: ## what README.md calls the tests
	go test -race ./...

check: ## all that must hold before a change lands
	./.ci/run

reference: ## docs/reference.md, from the components themselves
	go run ./cmd/flowd docs --markdown > docs/reference.md
