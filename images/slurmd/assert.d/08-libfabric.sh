#!/bin/bash
# Prevents: a libfabric too old for the plugin (1.18), or one whose own libraries are not in this distribution.
fi_info=$ASSERT_ROOT/opt/amazon/efa/bin/fi_info
said=$("$fi_info" --version 2>&1) || fail "$fi_info --version: $said; a library of it is missing, see ldd; ibverbs-providers brings libefa"
version=$(sed -nE 's/^libfabric: ([0-9]+\.[0-9]+).*/\1/p' <<<"$said")
if [ -z "$version" ] || [ "$(printf '%s\n' 1.18 "$version" | sort -V | head -n 1)" != 1.18 ]; then
  fail "libfabric: got '${version:-$said}', the plugin needs 1.18 or later; take a newer DLC image"
fi
echo "libfabric $version"
