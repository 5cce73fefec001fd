#!/bin/sh
# Sends requests to older versions of the functions. The next deployment publishes new ones. Needs the AWS CLI with credentials.
#
#   scripts/rollback.sh STACK                    each function goes to the version before its current one
#   scripts/rollback.sh STACK FUNCTION VERSION   one function (Send, Grab, GrabOnInstances, View or Wallet) goes to a version
set -eu

stack=${1:?usage: scripts/rollback.sh STACK [FUNCTION VERSION]}
functions=${2:-Send Grab GrabOnInstances View Wallet}

# A stack that is missing is an error, not one without functions.
aws cloudformation describe-stacks --stack-name "$stack" >/dev/null

for function in $functions; do
    # GrabOnInstances exists only with its parameter.
    name=$(aws cloudformation describe-stack-resource --stack-name "$stack" --logical-resource-id "$function" \
        --query StackResourceDetail.PhysicalResourceId --output text 2>/dev/null) || continue
    current=$(aws lambda get-alias --function-name "$name" --name live --query FunctionVersion --output text)
    # shellcheck disable=SC2016 # the backquotes belong to the query
    versions=$(aws lambda list-versions-by-function --function-name "$name" --output text \
        --query 'Versions[?Version!=`$LATEST`].Version' | tr '\t' '\n' | sort -n)
    if [ -n "${3:-}" ]; then
        target=$(echo "$versions" | grep -x "$3") || { echo "$function has no version $3" >&2; exit 1; }
    else
        target=$(echo "$versions" | awk -v current="$current" '$1 + 0 < current + 0' | tail -n 1)
    fi
    if [ -z "$target" ]; then
        echo "$function: no version is older than $current" >&2
        continue
    fi
    aws lambda update-alias --function-name "$name" --name live --function-version "$target" \
        --routing-config 'AdditionalVersionWeights={}' >/dev/null
    echo "$function: from version $current to $target"
done
