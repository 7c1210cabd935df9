#!/usr/bin/env bash
# Starts a conversation, polls its start task, then the conversation: the way of the public
# documentation, with curl and jq.
set -euo pipefail
: "${BASE_URL:?}" "${API_KEY:?}"

call() { curl --silent --show-error --fail --max-time 20 --header "Authorization: Bearer $API_KEY" --header 'Content-Type: application/json' "$@"; }

task=$(call --request POST "$BASE_URL/api/v1/app-conversations" --data '{
  "initial_message": {"content": [{"type": "text", "text": "Say hello."}]},
  "selected_repository": "acme/shop"
}')
task_id=$(jq --raw-output .id <<<"$task")
echo "started $task_id: $(jq --raw-output .status <<<"$task")"

conversation_id=
for _ in $(seq 300); do
  task=$(call --request GET "$BASE_URL/api/v1/app-conversations/start-tasks?ids=$task_id" | jq '.[0]')
  case $(jq --raw-output .status <<<"$task") in
    READY) conversation_id=$(jq --raw-output .app_conversation_id <<<"$task"); break ;;
    ERROR) echo "failed: $(jq --raw-output .error <<<"$task")"; exit 1 ;;
  esac
  sleep 0.1
done
echo "ready $conversation_id"

for _ in $(seq 300); do
  record=$(call --request GET "$BASE_URL/api/v1/app-conversations?ids=$conversation_id" | jq '.[0]')
  status=$(jq --raw-output .execution_status <<<"$record")
  case $status in
    finished | error | stuck | waiting_for_confirmation) break ;;
  esac
  sleep 0.1
done
echo "ended $status $(jq --raw-output '"\(.sandbox_status) \(.selected_repository)"' <<<"$record")"

call "$BASE_URL/api/v1/app-conversations/search?limit=1" | jq --raw-output '"page \(.items | length) \(.next_page_id == null)"'
# The array comes in pieces; curl -N shows each as it is there.
call --no-buffer --request POST "$BASE_URL/api/v1/app-conversations/stream-start" --data '{
  "initial_message": {"content": [{"type": "text", "text": "Say hello."}]}, "selected_repository": "acme/shop"
}' | jq --raw-output '"streamed \(map(.status) | join(" ")) \(.[-1].app_conversation_id != null)"'
