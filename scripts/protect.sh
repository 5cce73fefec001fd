#!/bin/sh
# Sets the stack policies of a deployment, so that no update replaces or deletes what has state. `make deploy` runs it. Needs the
# AWS CLI with credentials.
#
#   scripts/protect.sh STACK          protects
#   scripts/protect.sh STACK --open   lets the next deployment replace or delete anything; docs/OPERATE.md says when
set -eu

stack=${1:?usage: scripts/protect.sh STACK [--open]}
# Logical ids in template.yaml, and in stacks/state.yaml.
root='State'
state='Table BackupVault UserPool UserPoolClient RedisNodes RedisServerless Vpc PrivateSubnet*'

policy() {
    statements='{"Effect": "Allow", "Principal": "*", "Action": "Update:*", "Resource": "*"}'
    for id; do
        statements="$statements, {\"Effect\": \"Deny\", \"Principal\": \"*\", \"Action\": [\"Update:Replace\", \"Update:Delete\"], \"Resource\": \"LogicalResourceId/$id\"}"
    done
    echo "{\"Statement\": [$statements]}"
}

set -f
if [ "${2:-}" = --open ]; then root='' state=''; fi
nested=$(aws cloudformation describe-stack-resource --stack-name "$stack" --logical-resource-id State \
    --query StackResourceDetail.PhysicalResourceId --output text)
# shellcheck disable=SC2086 # a word is a logical id
aws cloudformation set-stack-policy --stack-name "$nested" --stack-policy-body "$(policy $state)"
# shellcheck disable=SC2086
aws cloudformation set-stack-policy --stack-name "$stack" --stack-policy-body "$(policy $root)"
if [ "${2:-}" = --open ]; then
    echo "$stack: the next deployment may replace or delete anything, and protects it again if it succeeds. Else: scripts/protect.sh $stack" >&2
fi
