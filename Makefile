# Shortcuts; README.md and CONTRIBUTING.md give the commands behind them.

.PHONY: build test check bench reference notice audit

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

notice: ## NOTICE, from the licences of what is linked
	go run ./internal/notice > NOTICE.new && mv NOTICE.new NOTICE

audit: ## gosec, and govulncheck where its database can be reached
	go tool -modfile=tools.mod gosec -quiet -exclude-generated -exclude-dir=examples ./...
	@status=0; go tool -modfile=tools.mod govulncheck ./... >.govulncheck 2>&1 || status=$$?; cat .govulncheck; \
	if grep -qE 'fetching vulnerabilities|dial tcp|no such host|Forbidden' .govulncheck; then \
		echo 'SKIPPED: the vulnerability database could not be reached: nothing is known about known vulnerabilities' >&2; status=0; fi; \
	rm -f .govulncheck; exit $$status
