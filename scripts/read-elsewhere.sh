#!/bin/sh
# Whether DuckDB, polars and pyarrow read captures: unpacks a small one and every capture named, and compares.
# usage: scripts/read-elsewhere.sh [CAPTURE...]
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readers=target/readers
if ! "$readers/bin/python" -c 'import duckdb, polars, pyarrow' 2>/dev/null; then
    python3 -m venv "$readers"
    "$readers/bin/pip" install --quiet duckdb polars pyarrow
fi
cargo run --quiet -p stallmap-schema --example tiny_capture -- "$work/tiny/"
set -- "$@"
count=0
for capture in "$@"; do
    count=$((count + 1))
    cargo run --quiet -p stallmap -- unpack "$capture" "$work/$count"
done
"$readers/bin/python" scripts/read-elsewhere.py "$work"/*
