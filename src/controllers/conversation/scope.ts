import type { AgentEndpoint } from '../../agent/agent.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import type { ConversationStatus, StartStatus } from '../../resources/conversation-status.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Poll } from './polling/conversation-poller.ts';

/** Writes a status on the version that was read, or throws. Returns the status as stored. */
export type SaveStatus = (status: ConversationStatus) => Promise<ConversationStatus>;

export class Scope {
  /** Conversation as the API server has it. */
  stored: CachedConversation;
  status: ConversationStatus;
  sandbox: Sandbox | undefined;
  /** Endpoint of the agent, once a stage of the start has found the sandbox running. */
  endpoint: AgentEndpoint | undefined;
  /** Absolute path of the agent's folder, once a stage of the start has prepared the folder. */
  workingDir: string | undefined;
  /** Answer of the agent to the poll of this reconcile. */
  poll: Poll | undefined;

  readonly signal: AbortSignal;
  readonly save: SaveStatus;

  /** `write` stores the status of the scope. */
  constructor(
    conversation: CachedConversation,
    { signal, write }: Pick<Scope, 'signal'> & { write: (scope: Scope) => Promise<void> },
  ) {
    this.stored = conversation;
    this.status = conversation.status ?? {};
    this.signal = signal;
    this.save = async (status) => {
      this.status = status;
      await write(this);
      return this.status;
    };
  }

  get startStatus(): StartStatus {
    return startStatusOf(this);
  }
}
