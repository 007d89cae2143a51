# Shortcuts; README.md and CONTRIBUTING.md give the commands behind them.

.PHONY: build test check bench fuzz reference notice audit packages release images signed

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

reference: ## docs/reference, from the components themselves
	rm -rf docs/reference
	go run ./cmd/flowd docs --markdown docs/reference

notice: ## NOTICE, from the licences of what is linked
	go run ./internal/operations/notice > NOTICE.new && mv NOTICE.new NOTICE

TOOL = go tool -modfile=packaging/tools.mod
GORELEASER = $(TOOL) goreleaser release --clean --timeout=4h $(if $(FLOWD_SIGNING_KEY),,--skip=sign)
IMAGE = go run -modfile=packaging/tools.mod packaging/image/main.go

packages: ## archives, deb, rpm, formula and images of this commit, in dist/; nothing is published
	$(GORELEASER) --snapshot
	@$(MAKE) --no-print-directory images signed

release: ## the same for the tag of this commit; uploads a draft to GitHub, and the images to REGISTRY
	@test -n "$(REGISTRY)" || { echo 'set REGISTRY, such as registry.example/flowd' >&2; exit 1; }
	$(GORELEASER)
	@$(MAKE) --no-print-directory images signed
	tag=$$(git describe --tags --exact-match) && \
		$(TOOL) crane push --index dist/image $(REGISTRY):$$tag && \
		$(TOOL) crane push --index dist/image-slim $(REGISTRY):$$tag-slim

images:
	$(IMAGE) dist/image flowd:latest dist/flowd_linux_*/flowd
	$(IMAGE) dist/image-slim flowd:slim dist/slim_linux_*/flowd

signed:
	@test -e dist/checksums.txt.sig || echo 'UNSIGNED: FLOWD_SIGNING_KEY is not set, so dist/checksums.txt has no signature' >&2

# Rules that are left out, and single findings, have their reasons in SECURITY.md.
audit: ## gosec, and govulncheck where its database can be reached
	go tool -modfile=tools.mod gosec -quiet -exclude=G103,G104,G204,G304,G404 -exclude-dir=examples -exclude-dir=test ./...
	@out=$$(go tool -modfile=tools.mod govulncheck ./cmd/flowd 2>&1); status=$$?; echo "$$out"; \
	case "$$out" in *"fetching vulnerabilities"*) \
		echo 'SKIPPED: without its database, govulncheck knows no vulnerabilities' >&2; exit 0;; esac; exit $$status
