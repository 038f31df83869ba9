# Start an evaluation on a Prefect server, wait for its end, and write report.md (docs/how_to/deploy.md).
# sh evaluate.sh PARAMETERS, with PREFECT_API_URL and, if the server wants it, PREFECT_API_AUTH_STRING; needs curl and jq.
set -eu
ask() {  # PATH FILTER [JSON]
  answer=$(curl --silent --show-error --fail-with-body --retry 5 --header "Content-Type: application/json" \
    ${PREFECT_API_AUTH_STRING:+--user "$PREFECT_API_AUTH_STRING"} ${3:+--data "$3"} "$PREFECT_API_URL/$1") ||
    { printf '%s\n' "$answer" >&2; exit 1; }
  printf '%s\n' "$answer" | jq --raw-output "$2"
}

deployment=$(ask deployments/name/evaluate/evaluate .id)
run=$(ask "deployments/$deployment/create_flow_run" .id \
  "{\"tags\": [\"ci\"], \"idempotency_key\": \"$(date +%s)-$$\", \"parameters\": {\"parameters\": $1}}")
echo "Run $run"
state=SCHEDULED
while [ "$state" != COMPLETED ]; do
  sleep 5
  state=$(ask "flow_runs/$run" .state.type)
  case $state in FAILED | CRASHED | CANCELLED) ask "flow_runs/$run" .state.message >&2; exit 1 ;; esac
done
ask artifacts/filter '.[].data' \
  "{\"artifacts\": {\"flow_run_id\": {\"any_\": [\"$run\"]}, \"key\": {\"any_\": [\"report\"]}}}" > report.md
