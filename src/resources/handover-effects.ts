/** Effects of an accepted handover, for the people who offer and accept it. */
export const handoverEffects = {
  moves: [
    'The conversation with its title, messages, events, archive and pull requests, and the question of the agent that waits for an answer.',
    'The sandbox with all files of its volume, among them files into which the agent may have written secrets of the old owner.',
    'Its place under the quotas: conversation, sandbox and archive count for the new owner, whose limits must have room.',
  ],
  stays: [
    'Secrets, settings and API keys of the old owner, secrets given at the start, and messages and answers that the agent has not had.',
    'MCP servers: the agent can no longer use those of the old owner, and gets none of the new one.',
    'Other conversations, also those that this one has started.',
  ],
  consequences: [
    'The sandbox is paused first: a run is interrupted, and processes in the sandbox end. It arrives paused.',
    'All session keys, links and tokens of the sandbox end, and links by which the old owner has shared the conversation. The old owner reads nothing any more.',
    'When the new owner resumes the sandbox, the agent goes on with what it was told and with the instructions of its start, and works with the secrets and the model key of the new owner: read its events first.',
  ],
} as const;
