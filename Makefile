# tare: the commands of the project. "make help" lists them.

GO ?= go

# The race detector needs a C compiler. Without one the tests run all the same.
RACE := $(shell command -v gcc >/dev/null 2>&1 && echo -race)

# Steps of "make test". Most tests wait, for processes, timeouts and each other: those with the race detector leave a
# fifth of two cores to the other steps, which run beside them. A step that fails does not hide the others.
BESIDE := vet laws contenders grpc raceless compared
STEPS := $(BESIDE) race

.PHONY: weigh contenders test $(STEPS:%=test-%) steps-beside steps-race fuzz check-slow check-others bench pgo dist \
	lint lint-prose help programs

weigh: ## weigh the ways of serving a Go handler on this machine (about eight minutes)
	$(GO) run ./cmd/tare weigh

EXPERIMENTS := $(patsubst experiments/%/experiment.yaml,%,$(wildcard experiments/*/experiment.yaml)) targets

contenders: ## build, unpack and install all that is weighed, below .cache/
	$(GO) build -o .cache/tare ./cmd/tare
	failed=0; for experiment in $(EXPERIMENTS); do .cache/tare weigh $$experiment --prepare || failed=1; done; exit $$failed

# Packages that build on other systems, too.
PORTABLE := . ./fcgi ./upgrade ./load/... ./front/... ./internal/engine/... ./internal/wire/... ./internal/poll/... \
	./internal/client/... ./internal/privilege ./internal/listen ./internal/sdnotify ./internal/certs ./internal/acme \
	./internal/anchor ./internal/poison

# Tests that call testkit.NoRace run without the race detector: their names, and their packages.
RACELESS_FILES := $(shell grep -rl --include='*_test.go' --exclude-dir='.?*' 'testkit[.]NoRace' .)
RACELESS := ^($(shell awk '/^func Test/ { name = $$2; sub("[^A-Za-z0-9_].*", "", name) } /testkit[.]NoRace/ { print name }' \
	$(RACELESS_FILES) | sort -u | paste -s -d '|'))$$
RACELESS_PACKAGES := $(sort $(dir $(RACELESS_FILES)))

# The newest release of each version of Go that is supported. They have the fixes of net/http and crypto/tls, and tare
# does what they do. COMPARED are the tests that compare it with net/http.
GO_RELEASES := go1.26.11 go1.27.4
COMPARED := NetHTTP|FileServer|ServerField|HTTP2Config|Transport|BothPaths|WaitingForBody|ExtendedConnect
COMPARED_PACKAGES := ./fcgi ./internal/client ./internal/engine ./internal/engine/h2 ./internal/engine/wrapped ./internal/wire/... ./front/internal/files

# The packages whose tests take longest begin first, so that no processor waits for the last of them.
LONGEST := ./internal/cli ./internal/engine ./internal/lab ./internal/engine/wrapped ./load ./front ./internal/lab/trial

# By default a program with the race detector sleeps for a second before it exits. Tests start hundreds of them.
test test-race: export GORACE := atexit_sleep_ms=50

# Tests have unix sockets in TMPDIR, whose paths are short, and configurations that do not quote its path.
test $(STEPS:%=test-%): export TMPDIR := $(shell case "$$TMPDIR" in (*[!a-zA-Z0-9/._-]*|?????????????????????*|'') echo /tmp ;; (*) echo "$$TMPDIR" ;; esac)

test: programs ## run all tests: this is what CI runs
	@mkdir -p $(dir $(GOTEST_SKIPS)); rm -f $(GOTEST_SKIPS) $(FAILED); \
	$(MAKE) --no-print-directory -j 2 steps-beside steps-race || echo make >>$(FAILED); \
	if grep -v 'with the race detector' $(GOTEST_SKIPS) 2>/dev/null >$(GOTEST_SKIPS).list; then \
		echo "skipped:"; sort -u $(GOTEST_SKIPS).list; fi; \
	test ! -e $(FAILED) || { echo "failed:" $$(cat $(FAILED)); exit 1; }

FAILED := $(CURDIR)/.cache/failed

run = for step in $(1); do $(MAKE) --no-print-directory test-$$step || echo $$step >>$(FAILED); done

steps-beside:
	+@$(call run,$(BESIDE))

steps-race:
	+@$(call run,race)

# Runs "go test", and notes skipped tests for the end.
GOTEST := $(GO) run ./internal/gotest
export GOTEST_SKIPS := $(CURDIR)/.cache/skips

test-vet:
	$(GO) vet ./...
	$(GO) vet -tags 'http3 otel' ./internal/cli
	$(GO) vet -tags poison ./internal/poison

# Which room imports which, and whether documents are true.
test-laws:
	$(GOTEST) ./internal/laws

test-contenders:
	$(GO) -C contenders vet ./...
	$(GO) -C contenders/engines vet ./...
	$(GO) -C contenders/engines test -benchtime 20ms .

test-grpc:
	$(GO) -C internal/grpctest vet ./...
	$(GO) -C internal/grpctest test $(RACE) -tags poison ./...

test-raceless:
	@# test-compared runs the tests of net/http's server.
	$(GOTEST) -vet off -run '$(RACELESS)' -skip ServerTestsOfNetHTTP -timeout 30m $(RACELESS_PACKAGES)

# net/http differs between releases of Go.
test-compared:
	for release in $(GO_RELEASES); do \
		GOTOOLCHAIN=$$release $(GO) test -vet off -run '$(COMPARED)' $(COMPARED_PACKAGES) || exit 1; \
	done

test-race:
	$(GOTEST) $(RACE) -tags poison -vet off -p 3 -parallel 4 -timeout 30m $(LONGEST) ./...

# Every fuzz target of every package, found by its name. Their seeds run in "make test".
FUZZTIME ?= 3m
FUZZPACKAGES ?= ./...

fuzz: ## run every fuzz target for FUZZTIME
	@failed=; packages=$$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(FUZZPACKAGES)) || exit 1; \
	for package in $$packages; do \
		targets=$$($(GO) test -list '^Fuzz' $$package) || { echo "$$targets"; failed="$$failed $$package"; continue; }; \
		for target in $$(echo "$$targets" | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$package || failed="$$failed $$package:$$target"; \
		done; \
	done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

check-slow: programs fuzz ## longer fuzzing, every test many times, a whole run of each experiment
	$(GO) test -short ./...
	$(GO) test $(RACE) -tags poison -count 10 -timeout 90m ./internal/... ./upgrade ./front/... ./load/...
	TARE_SLOW=1 $(GO) test $(RACE) -tags poison -count 1 -timeout 60m . ./internal/... ./upgrade ./front/... ./load/...
	@# The race detector is too slow for as many connections as these tests want.
	TARE_SLOW=1 $(GO) test -count 1 -timeout 60m -run 'TestHTTP2(Floods|Stalled)|TestSlowClients' ./internal/engine ./front/server
	TARE_SLOW=1 $(GO) test -count 1 -timeout 60m -run '$(RACELESS)' $(RACELESS_PACKAGES)
	GOTOOLCHAIN=$(lastword $(GO_RELEASES)) $(GO) run ./internal/others -quick
	$(GO) run ./cmd/tare weigh
	$(GO) run ./cmd/tare weigh targets --blocks 1 --warmup 50ms --measure 200ms

# ONLY is a regular expression of names of projects in internal/others/projects.yaml.
check-others: ## run other projects' tests with tare in place of net/http (hours; ONLY=chi for one)
	@failed=; for release in $(GO_RELEASES); do \
		GOTOOLCHAIN=$$release $(GO) run ./internal/others -only '$(ONLY)' || failed="$$failed $$release"; \
	done; \
	test -n '$(ONLY)' || $(GO) run ./internal/others -document docs/compatibility.md; \
	test -z "$$failed" || { echo "failed with$$failed"; exit 1; }

bench: ## compare with rivals, tell which targets are met, measure the parts (takes hours)
	$(GO) test -run '^$$' -bench . -benchmem ./internal/... ./load/... ./front/...
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./internal/lab
	$(GO) run ./cmd/tare weigh targets

# Its functions are found by name and line, so that an older profile is of use, too.
pgo: ## profile the server, for the compiler to optimize the command (takes a minute)
	$(GO) test ./front/server -run '^$$' -bench '^BenchmarkServe$$' -benchtime 8s -cpuprofile $(CURDIR)/cmd/tare/default.pgo -o /dev/null

# The commit's tag is the version, or else its time and hash. Packages need modules from the Go proxy, and so does the
# newest release of Go, which the lists of modules name.
dist: export GOTOOLCHAIN := $(lastword $(GO_RELEASES))
dist: ## build binaries, packages and images of this commit, below dist/
	$(GO) run ./internal/dist $(if $(VERSION),-version $(VERSION))

LINTER := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
PROSE_LINTER := github.com/vale-cli/vale/v3/cmd/vale@v3.22.0

lint: lint-prose ## run the linters
	GOOS=darwin $(GO) vet $(PORTABLE) ./cmd/tare
	GOOS=windows $(GO) vet $(PORTABLE)
	GOOS=linux GOARCH=386 $(GO) vet $(PORTABLE)
	GOOS=linux GOARCH=arm $(GO) vet ./internal/poll/... ./internal/engine/...
	$(GO) run $(LINTER) run ./...
	cd contenders && $(GO) run $(LINTER) run -c ../.golangci.yml ./...
	cd contenders/engines && $(GO) run $(LINTER) run -c ../../.golangci.yml ./...
	cd internal/grpctest && $(GO) run $(LINTER) run -c ../../.golangci.yml ./...

# It needs a C compiler. Versions from 3.23 on need an unreleased version of a dependency.
lint-prose: ## run the prose linter on documents and comments
	git ls-files '*.md' '*.go' | xargs $(GO) run $(PROSE_LINTER) --config .vale/vale.ini

help: ## show this
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14

# Tests unpack nginx, wrk and php-fpm from their Debian packages by themselves, and flup from PyPI, and build
# h2spec and Pebble from the Go proxy. What has too many parts for that is installed, which starts nothing: a browser,
# systemd-analyze, which verifies the unit of the Debian package, man, and what installs that package in namespaces.
# Without privilege the tests that need these are skipped, visibly.
INSTALLED := chromium:chromium systemd-analyze:systemd man:man-db ip:iproute2 curl:curl

programs:
	@test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 || exit 0; missing=; for pair in $(INSTALLED); do \
		command -v $${pair%%:*} >/dev/null 2>&1 || missing="$$missing $${pair#*:}"; done; \
	test -z "$$missing" || { echo "installing for tests:$$missing"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing >/dev/null; }
