#!/bin/sh
# Make deploy/.env, which compose.yaml reads its passwords and tokens from: new ones, for its owner alone to read.
#
#   sh deploy/env.sh
set -eu
umask 077
file=$(dirname "$0")/.env
if [ -e "$file" ]; then
  echo "$file is there already. What runs was started with its secrets, so it stays: remove it yourself" >&2
  exit 1
fi

secret() {  # $1: how many bytes, in hex
  head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'
}

cat > "$file" <<END
POSTGRES_PASSWORD=$(secret 24)
PREFECT_PASSWORD=$(secret 24)
RAY_TOKEN=$(secret 32)
S3_ACCESS_KEY=$(secret 10)
S3_SECRET_KEY=$(secret 24)
SERVE_KEY=$(secret 24)
END
echo "$file has new secrets. The password that Prefect's page asks for: its PREFECT_PASSWORD"
