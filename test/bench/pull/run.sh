#!/usr/bin/env bash
# The complete download of an image, measured against other clients in one run.
# The registry (CNCF distribution), crane and regctl are built from the module
# proxy at the versions of go.mod; skopeo takes part where it is installed.
# Arguments go to the measuring program: run.sh -mib 64 is a short look,
# run.sh -only-ours -mib 10240 the memory of a very large image.
set -euo pipefail
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
export CGO_ENABLED=0
go build -o "$bin/registry" github.com/distribution/distribution/v3/cmd/registry
go build -o "$bin/crane" github.com/google/go-containerregistry/cmd/crane
go build -o "$bin/regctl" github.com/regclient/regclient/cmd/regctl
go build -o "$bin/ours" ./ours
go build -o "$bin/measure" .
"$bin/measure" -bin "$bin" "$@"
