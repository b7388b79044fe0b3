#!/usr/bin/env bash
# Makes the secrets of an installation, with passwords nobody chose: manifests/create-secrets.sh NAMESPACE
# Where the database is elsewhere: DATABASE_URI=postgresql://user:password@host/mlflow manifests/create-secrets.sh NAMESPACE
set -euo pipefail
namespace=${1:?the namespace is missing: manifests/create-secrets.sh NAMESPACE}
random() { head -c 24 /dev/urandom | base64 | tr -d '/+=\n'; }
if kubectl -n "$namespace" get secret kfrec-mlflow-server >/dev/null 2>&1; then
  echo "secret kfrec-mlflow-server exists in $namespace and stays as it is; delete it first to make new passwords" >&2
  exit 2
fi
database=$(random)
admin=$(random)
uri=${DATABASE_URI:-postgresql://mlflow:$database@kfrec-postgres:5432/mlflow}
kubectl -n "$namespace" create secret generic kfrec-mlflow-server \
  --from-literal=POSTGRES_PASSWORD="$database" \
  --from-literal=MLFLOW_BACKEND_STORE_URI="$uri" \
  --from-literal=MLFLOW_FLASK_SERVER_SECRET_KEY="$(random)" \
  --from-literal=MLFLOW_AUTH_ADMIN_PASSWORD="$admin" \
  --from-literal=basic_auth.ini="[mlflow]
default_permission = READ
database_uri = $uri
admin_username = admin
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"
kubectl -n "$namespace" create secret generic kfrec-mlflow \
  --from-literal=MLFLOW_TRACKING_USERNAME=admin --from-literal=MLFLOW_TRACKING_PASSWORD="$admin"
