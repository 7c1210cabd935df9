"""The published Python client, with our address and key: a sandbox of its own, and a conversation in it followed by WebSocket."""

import json
import os

from openhands.sdk import LLM, Conversation
from openhands.tools.preset.default import get_default_agent
from openhands.workspace import OpenHandsCloudWorkspace

llm = LLM(model="openai/m", base_url=os.environ["MODEL_URL"], api_key="of-the-client", usage_id="agent")
kinds = []
with OpenHandsCloudWorkspace(
    cloud_api_url=os.environ["BASE_URL"],
    cloud_api_key=os.environ["API_KEY"],
    # Sandboxes are folders here, so /workspace is that of the machine.
    working_dir=os.environ["WORKING_DIR"],
) as workspace:
    command = workspace.execute_command("echo from the client")
    conversation = Conversation(
        agent=get_default_agent(llm=llm, cli_mode=True),
        workspace=workspace,
        callbacks=[lambda event: kinds.append(type(event).__name__)],
        visualizer=None,
    )
    conversation.send_message(os.environ["MESSAGE"])
    conversation.run(timeout=60)
    status = conversation.state.execution_status.value
    stored = [type(event).__name__ for event in conversation.state.events]
    read = workspace.execute_command("cat python.txt", cwd=os.environ["WORKING_DIR"])
    conversation.close()
print(json.dumps({"command": command.stdout, "status": status, "live": kinds, "stored": stored, "file": read.stdout}))
