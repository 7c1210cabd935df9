import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf, type ConversationStatus, type StartStatus } from '../../resources/conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Look } from './polling/conversation-poller.ts';

/** One reconcile's view of a conversation. `status` is what it is to become; `stored` is what the API server has. */
export class Scope {
  stored: CachedConversation;
  status: ConversationStatus;
  sandbox: Sandbox | undefined;
  /** What the agent has shown, once it has been asked. */
  look: Look | undefined;
  /** What it was told has to be looked at again so soon. */
  againAfterMs: number | undefined;

  constructor(conversation: CachedConversation) {
    this.stored = conversation;
    this.status = conversation.status ?? {};
  }

  get startStatus(): StartStatus {
    return startStatusOf({ status: this.status });
  }
}
