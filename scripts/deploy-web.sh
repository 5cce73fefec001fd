#!/bin/sh
# Puts the page into the bucket of a deployed stack, or takes it out again. Needs the AWS CLI, with credentials.
#
#   scripts/deploy-web.sh STACK           uploads web/, with this deployment's config.json, and lets CloudFront forget the old
#   scripts/deploy-web.sh STACK --remove  empties the bucket: CloudFormation deletes no other
#
# A stack without the page (parameter Page) has nothing to do here.
set -eu

stack=${1:?usage: scripts/deploy-web.sh STACK [--remove]}
web=$(cd "$(dirname "$0")/../web" && pwd)

output() {
    aws cloudformation describe-stacks --stack-name "$stack" --output text \
        --query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue"
}

# put FILE NAME TYPE CACHE: names stay the same while files change, so each use asks whether its copy is still good.
put() {
    aws s3 cp --only-show-errors --content-type "$3" --cache-control "$4" "$1" "s3://$bucket/$2"
}

bucket=$(output PageBucketName)
if [ -z "$bucket" ] || [ "$bucket" = None ]; then
    echo "$stack has no page" >&2
    exit 0
fi
if [ "${2:-}" = --remove ]; then
    aws s3 rm --only-show-errors --recursive "s3://$bucket"
    exit 0
fi

config=$(mktemp)
trap 'rm -f "$config"' EXIT
output PageConfig >"$config"

cd "$web"
# The index comes last: whoever gets the new one finds the files that it names. What the page does not need (its documents,
# its types) stays here.
for file in $(find assets client -type f \( -name '*.js' -o -name '*.css' -o -name '*.svg' \) | LC_ALL=C sort) index.html; do
    case $file in
        *.js) type='text/javascript; charset=utf-8' ;;
        *.css) type='text/css; charset=utf-8' ;;
        *.svg) type=image/svg+xml ;;
        *.html) type='text/html; charset=utf-8' ;;
    esac
    put "$file" "$file" "$type" no-cache
done
put "$config" config.json application/json no-store
aws cloudfront create-invalidation --distribution-id "$(output PageDistributionId)" --paths '/*' --output text --query Invalidation.Id >/dev/null
echo "the page: $(output PageUrl)"
