import { conversationQuotas, type ConversationQuota } from '../resources/conversation-quota.ts';
import { apiVersion } from '../resources/group.ts';
import type { NewObject } from '@conversation-operator/kube/object';

/** Initial quota of an installation. Later starts keep the changes of users. */
export const defaultQuota = (namespace: string): NewObject<ConversationQuota> => ({
  apiVersion,
  kind: conversationQuotas.kind,
  metadata: { name: 'default', namespace },
  spec: {
    ...{
      scope: 'Owner',
      limit: 10,
      onExceeded: 'PauseOldest',
      minActiveSeconds: 0,
      autoResume: 'All',
    },
    // Why these numbers: docs/sizing.md.
    ...{ maxConversations: 1_000, maxStoredBytes: 64 * 1024 * 1024, maxSandboxes: 100 },
  },
});
