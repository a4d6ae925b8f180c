# Sluice. `make` alone lists the targets.

.DEFAULT_GOAL := help
SHELL         := /bin/bash
.SHELLFLAGS   := -eu -o pipefail -c

GO      ?= go
VERSION := $(shell git describe --always --dirty --tags 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)

PYTHON    := /usr/lib/python3/dist-packages
PERL      := /usr/share/perl5
LIBRARIES := /usr/lib/x86_64-linux-gnu

# Real programs that the end-to-end tests meet, and the C compiler that the race
# detector needs. Command, then the Debian package that has it.
TOOLS := cc:build-essential nginx:nginx haproxy:haproxy caddy:caddy wrk:wrk \
         h2load:nghttp2-client /usr/include/openssl/ssl.h:libssl-dev curl:curl ab:apache2-utils \
         qemu-system-x86_64:qemu-system-x86 pebble:pebble \
         openssl:openssl gnutls-cli:gnutls-bin certutil:libnss3-tools chromium:chromium firefox-esr:firefox-esr javac:default-jdk-headless \
         wget:wget wget2:wget2 node:nodejs $(PERL)/LWP/Protocol/https.pm:liblwp-protocol-https-perl \
         $(PYTHON)/aiohttp:python3-aiohttp $(PYTHON)/httpx:python3-httpx $(PYTHON)/h2:python3-h2 $(PYTHON)/requests:python3-requests \
         $(LIBRARIES)/libcurl-gnutls.so.4:libcurl3-gnutls $(LIBRARIES)/libcurl-nss.so.4:libcurl3-nss

# Programs in Go that Debian has not: command, then what go install takes.
GOTOOLS := h2spec:github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible

# What the application of the overload benchmark is made of.
JARS := /usr/share/java
APPLICATION := javac:default-jdk-headless pg_ctlcluster:postgresql \
         $(JARS)/tomcat10-embed-core.jar:libtomcat10-embed-java \
         $(JARS)/tomcat10-annotations-api.jar:libtomcat10-java \
         $(JARS)/postgresql.jar:libpostgresql-jdbc-java

.PHONY: help build run deps test vet unit race bench overload abuse scaling split clean go

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: go ## build bin/sluice and bin/hb, each one static file
	@CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/sluice ./cmd/hb

run: build ## build, and run the demo
	@exec bin/sluice run --demo

deps: go ## install what the tests need
	@.ci/deps $(TOOLS)
	@for tool in $(GOTOOLS); do \
	  command -v "$${tool%%:*}" >/dev/null || [ -x "$$($(GO) env GOPATH)/bin/$${tool%%:*}" ] || \
	  { echo "Installing $${tool#*:}"; GOBIN="$$($(GO) env GOPATH)/bin" $(GO) install "$${tool#*:}"; }; done
	@$(GO) build -C internal/e2e/testdata/interop -buildvcs=false -o /dev/null . # downloads what it is made of

test: deps vet unit race ## run every test, all set-up included

vet: go
	@unformatted=$$(gofmt -l cmd internal bench); \
	  if [ -n "$$unformatted" ]; then printf 'run gofmt -w on:\n%s\n' "$$unformatted"; exit 1; fi
	@$(GO) vet ./...

unit: build
	@$(GO) test -timeout 10m ./...

# The end-to-end tests build Sluice with the detector inside when they have it.
race: go
	@CGO_ENABLED=1 $(GO) test -race -timeout 10m ./cmd/... ./internal/...

bench: build deps ## measure Sluice beside its peers; wants a quiet machine
	@$(GO) run ./bench

overload: build ## the published experiment: ramps of users that overload a server
	@.ci/deps $(TOOLS) $(APPLICATION)
	@$(GO) run ./bench/overload -record

abuse: build ## 23 classes of abuse, and what others notice: 10 minutes, wants a quiet machine
	@.ci/deps cc:build-essential
	@$(GO) run ./bench/abuse

scaling: build ## Sluice on ever more CPUs, a process for all, per node, per cache
	@.ci/deps cc:build-essential
	@$(GO) run ./bench/scaling

split: build ## two instances on one machine, unsplit and split by sluice place
	@.ci/deps cc:build-essential pg_ctlcluster:postgresql
	@$(GO) run ./bench/split

clean: ## remove what was built
	@rm -rf bin

go:
	@command -v $(GO) >/dev/null || { echo 'Go 1.26 or newer is missing; see https://go.dev/dl/' >&2; exit 1; }
