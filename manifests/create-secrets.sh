#!/usr/bin/env bash
# Creates the secrets of an installation, with random passwords: manifests/create-secrets.sh NAMESPACE
# Where the database is elsewhere: DATABASE_URI=postgresql://user:password@host/mlflow manifests/create-secrets.sh NAMESPACE
# Where only kfrec-mlflow is missing, it is made alone: the MLflow server gives the steps' account that password at its
# next start.
set -euo pipefail
namespace=${1:?the namespace is missing: manifests/create-secrets.sh NAMESPACE}
random() { head -c 24 /dev/urandom | base64 | tr -d '/+=\n'; }
# create NAME KEY=VALUE ...: by stdin, since every user of the machine sees the arguments of a program.
create() {
  local name=$1 pair
  shift
  {
    printf 'apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ndata:\n' "$name"
    for pair; do printf '  %s: %s\n' "${pair%%=*}" "$(printf %s "${pair#*=}" | base64 | tr -d '\n')"; done
  } | kubectl -n "$namespace" create -f -
}
exists() { kubectl -n "$namespace" get secret "$1" >/dev/null 2>&1; }
if exists kfrec-mlflow; then
  # New passwords would not match: the database and the server keep those of their first start.
  echo "secret kfrec-mlflow exists in $namespace; nothing was changed" >&2
  exit 2
fi
if exists kfrec-mlflow-server; then
  echo "secret kfrec-mlflow-server exists in $namespace and is kept; afterwards:" \
    "kubectl -n $namespace rollout restart deployment/kfrec-mlflow" >&2
else
  database=$(random)
  uri=${DATABASE_URI:-postgresql://mlflow:$database@kfrec-postgres:5432/mlflow}
  # The default driver of an address depends on SQLAlchemy's version; the image has psycopg.
  case $uri in postgres://* | postgresql://*) uri=postgresql+psycopg://${uri#*://} ;; esac
  escaped=${uri//%/%%} # in an ini file, % starts a reference
  create kfrec-mlflow-server \
    POSTGRES_PASSWORD="$database" \
    MLFLOW_BACKEND_STORE_URI="$uri" \
    MLFLOW_FLASK_SERVER_SECRET_KEY="$(random)" \
    MLFLOW_AUTH_ADMIN_PASSWORD="$(random)" \
    basic_auth.ini="[mlflow]
default_permission = READ
database_uri = $escaped
admin_username = admin
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
auth_cache_ttl_seconds = 60
"
fi
# Steps mount this secret, so it holds only what they need.
create kfrec-mlflow MLFLOW_TRACKING_USERNAME=kfrec MLFLOW_TRACKING_PASSWORD="$(random)"
