#!/bin/sh
# Uploads the page to the bucket of a deployed stack, or removes it. Needs the AWS CLI with credentials.
#
#   scripts/deploy-web.sh STACK           uploads web/ and its client with this deployment's config.json, and invalidates CloudFront's copies
#   scripts/deploy-web.sh STACK --remove  empties the bucket: CloudFormation deletes only empty ones
#
# Does nothing for a stack without the page (parameter Page).
set -eu

stack=${1:?usage: scripts/deploy-web.sh STACK [--remove]}
cd "$(dirname "$0")/.."

output() {
    aws cloudformation describe-stacks --stack-name "$stack" --output text \
        --query "Stacks[0].Outputs[?OutputKey=='$1'].OutputValue"
}

# put FILE NAME TYPE CACHE. Names stay while files change, so CACHE makes browsers revalidate their copies.
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

# The index comes last, so that the files that it names exist. The page needs only this file of the client.
for file in $(find web/assets clients/js/hongbao.js -type f \( -name '*.js' -o -name '*.css' -o -name '*.svg' \) | LC_ALL=C sort) web/index.html; do
    case $file in
        *.js) type='text/javascript; charset=utf-8' ;;
        *.css) type='text/css; charset=utf-8' ;;
        *.svg) type=image/svg+xml ;;
        *.html) type='text/html; charset=utf-8' ;;
    esac
    # The page's modules import the client from client/.
    case $file in
        clients/js/*) name=client/${file#clients/js/} ;;
        *) name=${file#web/} ;;
    esac
    put "$file" "$name" "$type" no-cache
done
put "$config" config.json application/json no-store
aws cloudfront create-invalidation --distribution-id "$(output PageDistributionId)" --paths '/*' --output text --query Invalidation.Id >/dev/null
echo "the page: $(output PageUrl)"
