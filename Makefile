# Shortcuts; README.md and CONTRIBUTING.md give the commands behind them.

.PHONY: build test check bench fuzz reference notice audit packages

build: ## the flowd binary, in the root of the repository
	go build -o flowd ./cmd/flowd

test: ## what README.md calls the tests
	go test -race ./...

check: ## all that must hold before a change lands
	./.ci/run

bench: ## flowd beside hand-written Go, benthos and jq, in ten minutes
	go run ./test/bench

FUZZTIME ?= 45s

fuzz: ## every fuzz target, one after the other, for FUZZTIME each: for a night
	@for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -ho --include='*_test.go' '^func Fuzz[A-Za-z0-9]*' $$dir/*_test.go | cut -c6-); do \
			go test $$dir -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) -fuzzminimizetime=10x || exit 1; \
		done; \
	done

reference: ## docs/reference.md, from the components themselves
	go run ./cmd/flowd docs --markdown > docs/reference.md

notice: ## NOTICE, from the licences of what is linked
	go run ./internal/operations/notice > NOTICE.new && mv NOTICE.new NOTICE

packages: ## archives, deb and rpm of this commit, in dist/
	go tool -modfile=packaging/tools.mod goreleaser release --snapshot --clean

# Rules that are left out, and single findings, have their reasons in SECURITY.md.
audit: ## gosec, and govulncheck where its database can be reached
	go tool -modfile=tools.mod gosec -quiet -exclude=G103,G104,G204,G304,G404 -exclude-dir=examples -exclude-dir=test ./...
	@out=$$(go tool -modfile=tools.mod govulncheck ./cmd/flowd 2>&1); status=$$?; echo "$$out"; \
	case "$$out" in *"fetching vulnerabilities"*) \
		echo 'SKIPPED: without its database, govulncheck knows no vulnerabilities' >&2; exit 0;; esac; exit $$status
