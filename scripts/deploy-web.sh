#!/bin/sh
# Uploads the page to the bucket of a deployed stack, or removes it. Needs Python, and the AWS CLI with credentials.
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

# put FILE NAME TYPE CACHE
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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
url=$(output PageUrl)
covers=$(find web/assets/covers -name '*.js' -exec basename {} .js \; | LC_ALL=C sort)
# What the app says of itself, what the stack says, and the covers that are uploaded: the later one wins.
# shellcheck disable=SC2086 # no name has spaces
output PageConfig | python3 -c '
import json, sys
with open("web/config.json", encoding="utf-8") as own:
    print(json.dumps({**json.load(own), **json.load(sys.stdin), "covers": sys.argv[1:]}))' $covers >"$work/config.json"

# The page needs only one file of the client, which its modules import from client/.
files=$(find web/assets clients/js/hongbao.js -type f \( -name '*.js' -o -name '*.css' -o -name '*.svg' -o -name '*.png' \) | LC_ALL=C sort)
# All files are in a folder that is named by their content, so browsers may keep them for ever. Older folders stay for pages
# that are still open.
# shellcheck disable=SC2086 # no name has spaces
version=$(python3 -c '
import hashlib, pathlib, sys
listed = "".join(f"{hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest()}  {name}\n" for name in sys.argv[1:])
print("v-" + hashlib.sha256(listed.encode()).hexdigest()[:16])' $files)
for file in $files; do
    case $file in
        *.js) type='text/javascript; charset=utf-8' ;;
        *.css) type='text/css; charset=utf-8' ;;
        *.svg) type=image/svg+xml ;;
        *.png) type=image/png ;;
    esac
    case $file in
        clients/js/*) name=client/${file#clients/js/} ;;
        *) name=${file#web/} ;;
    esac
    put "$file" "$version/$name" "$type" 'public, max-age=31536000, immutable'
done
# The manifest and the HTML come last, so that the files that they name exist. Chats want the whole address of a preview's picture.
for name in manifest.webmanifest packet.html index.html; do
    case $name in
        *.html) type='text/html; charset=utf-8' ;;
        *) type=application/manifest+json ;;
    esac
    sed -e "s#content=\"\(\.\./\)\{0,1\}assets/#content=\"$url$version/assets/#" \
        -e "s#\"\(\(\.\./\)\{0,1\}\)\(assets\|client\)/#\"\1$version/\3/#g" "web/$name" >"$work/$name"
    put "$work/$name" "$name" "$type" no-cache
done
put "$work/config.json" config.json application/json no-store
aws cloudfront create-invalidation --distribution-id "$(output PageDistributionId)" --paths '/*' --output text --query Invalidation.Id >/dev/null
echo "the page: $url"
