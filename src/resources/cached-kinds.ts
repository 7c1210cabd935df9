import type { ResourceDefinition } from '@conversation-operator/kube/object';
import { apiKeys } from './api-key.ts';
import { cachedConversation, maxCachedTextBytes } from './cached-conversation.ts';
import { cachedObject } from './cached-object.ts';
import { cachedSandbox } from './cached-sandbox.ts';
import { conversationQuotas } from './conversation-quota.ts';
import { conversations, type Conversation } from './conversation.ts';
import type { CustomObject } from './group.ts';
import { Interner } from './interner.ts';
import { ownerSettings } from './owner-settings.ts';
import { sandboxPools } from './sandbox-pool.ts';
import { sandboxTemplates } from './sandbox-template.ts';
import { sandboxes, type Sandbox } from './sandbox.ts';

/** The resource of each kind of this group, and how a cache keeps its objects. */
export function cachedKinds(interner = new Interner()) {
  const whole = <Spec, Status>(resource: ResourceDefinition<CustomObject<Spec, Status>>) => ({
    resource,
    transform: (object: CustomObject<Spec, Status>) => cachedObject(object, interner),
  });
  return {
    conversations: {
      resource: conversations,
      maxTextBytes: maxCachedTextBytes,
      transform: (object: Conversation, removedBytes: number) =>
        cachedConversation(object, interner, removedBytes),
    },
    sandboxes: {
      resource: sandboxes,
      transform: (object: Sandbox) => cachedSandbox(object, interner),
    },
    templates: whole(sandboxTemplates),
    pools: whole(sandboxPools),
    quotas: whole(conversationQuotas),
    apiKeys: whole(apiKeys),
    ownerSettings: whole(ownerSettings),
  };
}
