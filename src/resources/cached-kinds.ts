import type { ResourceDefinition } from '@conversation-operator/kube/object';
import { apiKeys } from './api-key.ts';
import { cachedConversation } from './cached-conversation.ts';
import { conversationQuotas } from './conversation-quota.ts';
import { conversations, type Conversation } from './conversation.ts';
import type { CustomObject } from './group.ts';
import { handovers } from './handover.ts';
import { Interner, cachedMetadata } from './cached-metadata.ts';
import { ownerSettings } from './owner-settings.ts';
import { sandboxPools } from './sandbox-pool.ts';
import { sandboxTemplates } from './sandbox-template.ts';
import { sandboxes, type Sandbox } from './sandbox.ts';
import { usageRecords, type CachedUsageRecord, type UsageRecord } from './usage-record.ts';

/** Transforms a sandbox for every cache. Equal texts are shared between objects. */
export function cachedSandbox(sandbox: Sandbox, interner: Interner): Sandbox {
  const { spec, status } = sandbox;
  interner.share(spec, 'owner', 'templateName');
  if (status !== undefined)
    interner.share(
      status,
      'message',
      'reason',
      'masterKeyId',
      'agentName',
      'agentTitle',
      'pauseTime',
    );
  // One reconcile writes the same time into several fields, which then share one string.
  for (const condition of status?.conditions ?? [])
    interner.share(condition, 'type', 'reason', 'message', 'lastTransitionTime');
  return cachedObject(sandbox, interner);
}

/** Transforms objects of other kinds for caches, which hold all fields except some metadata. */
export function cachedObject<Spec, Status>(
  object: CustomObject<Spec, Status>,
  interner: Interner,
): CustomObject<Spec, Status> {
  interner.share(object, 'apiVersion', 'kind');
  const metadata = cachedMetadata(object.metadata, interner);
  return metadata === object.metadata ? object : { ...object, metadata };
}

/** Transforms a UsageRecord for every cache. Readers of the other sums ask the API server. */
function cachedUsageRecord(record: UsageRecord, interner: Interner): CachedUsageRecord {
  const { status, ...others } = record;
  if (status === undefined) return cachedObject({ ...others }, interner);
  const { accounts, totals, conversations: entries, upstreams } = status;
  for (const entry of entries ?? []) {
    interner.share(entry, 'name', 'lastDay');
    for (const model of entry.models) interner.share(model, 'model');
  }
  return cachedObject(
    {
      ...others,
      status: {
        ...(accounts === undefined ? {} : { accounts }),
        ...(totals === undefined ? {} : { totals }),
        ...(entries === undefined ? {} : { conversations: entries }),
        ...(upstreams === undefined ? {} : { upstreams }),
      },
    },
    interner,
  );
}

/** The resource of each kind of this group, with the transform of its caches. */
export function cachedKinds(interner = new Interner()) {
  const whole = <Spec, Status>(resource: ResourceDefinition<CustomObject<Spec, Status>>) => ({
    resource,
    transform: (object: CustomObject<Spec, Status>) => cachedObject(object, interner),
  });
  return {
    conversations: {
      resource: conversations,
      transform: (object: Conversation) => cachedConversation(object, interner),
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
    handovers: whole(handovers),
    usageRecords: {
      resource: usageRecords,
      transform: (record: UsageRecord) => cachedUsageRecord(record, interner),
    },
  };
}
