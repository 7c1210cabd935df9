"""The published Python client, on a conversation that was started over REST: what it has done, and one more task."""

import json
import os
from uuid import UUID

from openhands.sdk import LLM, Conversation
from openhands.sdk.workspace import RemoteWorkspace
from openhands.tools.preset.default import get_default_agent

workspace = RemoteWorkspace(host=os.environ["AGENT_URL"], api_key=os.environ["SESSION_KEY"], working_dir=os.environ["WORKING_DIR"])
live = []
conversation = Conversation(
    # Only for what it would create: the conversation keeps its own model.
    agent=get_default_agent(llm=LLM(model="openai/other", usage_id="agent"), cli_mode=True),
    workspace=workspace,
    conversation_id=UUID(os.environ["CONVERSATION_ID"]),
    callbacks=[lambda event: live.append(type(event).__name__)],
    visualizer=None,
)
before = len(conversation.state.events)
conversation.send_message("And another file.")
conversation.run(timeout=60)
status = conversation.state.execution_status.value
conversation.close()
print(json.dumps({"before": before, "after": before + len(live), "status": status, "live": live}))
