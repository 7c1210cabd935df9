#!/usr/bin/env bash
# Starts a conversation by the deprecated interface, whose answer has its id at once.
set -euo pipefail
: "${BASE_URL:?}" "${API_KEY:?}"

answer=$(curl --silent --show-error --fail --max-time 20 --request POST "$BASE_URL/api/conversations" \
  --header "Authorization: Bearer $API_KEY" --header 'Content-Type: application/json' \
  --data '{"initial_user_msg": "Say hello.", "repository": "acme/shop"}')
echo "$(jq --raw-output .status <<<"$answer") $(jq --raw-output .conversation_id <<<"$answer")"
