import type { AgentEndpoint } from '../../agent/agent.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import type { ConversationStatus, StartStatus } from '../../resources/conversation-status.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Poll } from './polling/conversation-poller.ts';

/** Writes a status with the resourceVersion that was read, or throws. Returns the stored status. */
export type SaveStatus = (status: ConversationStatus) => Promise<ConversationStatus>;

export class Scope {
  /** The conversation as it was last read from, or written to, the API server. */
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

  /** `write` stores `scope.status` in the API server. */
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
