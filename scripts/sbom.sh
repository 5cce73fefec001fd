#!/bin/sh
# Lists what is shipped: a CycloneDX bill of materials in target/sbom for each function and for the program. It has every
# crate of any platform with version and licence, except those that only tests and builds use.
set -eu
cd "$(dirname "$0")/.."
work=target/sbom
scripts/install-tools.sh sbom
tools=$PWD/.tools/bin

# Without the tests, whose crate features would otherwise count as the functions' features.
rm -rf "$work"
mkdir -p "$work/workspace"
cp -R Cargo.lock shared functions local hongbao "$work/workspace"
{
    sed '/^\[workspace\]/,/^$/d' Cargo.toml
    printf '[workspace]\nresolver = "3"\nmembers = ["shared", "functions/*", "local", "hongbao"]\n'
} >"$work/workspace/Cargo.toml"
cd "$work/workspace"
PATH=$tools:$PATH cargo cyclonedx --format json --spec-version 1.5 --no-build-deps --target all --quiet
for program in functions/* hongbao; do
    name=$(basename "$program").cdx.json
    sed "s|file://$PWD|file:///hongbao|g" "$program/$name" >"../$name"
done
cd ..
rm -rf workspace

python3 - ./*.cdx.json <<'PYTHON'
import json, pathlib, sys
for path in map(pathlib.Path, sys.argv[1:]):
    sbom = json.loads(path.read_text())
    assert sbom["bomFormat"] == "CycloneDX", path
    crates = {crate["name"]: crate for crate in sbom["components"]}
    unlicensed = [name for name, crate in crates.items() if not crate.get("licenses")]
    assert not unlicensed, f"{path}: no licence: {unlicensed}"
    assert "proptest" not in crates, f"{path}: what only tests use"
    sdk = crates["aws-sdk-dynamodb"]
    licence = sdk["licenses"][0]["expression"]
    print(f"{path}: {len(sbom['components'])} crates, such as aws-sdk-dynamodb {sdk['version']} ({licence})")
PYTHON
