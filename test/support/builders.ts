import type { Slot, SlotState } from '../../src/quota/slot.ts';
import type { Condition } from '../../src/resources/conditions.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../src/resources/cached-conversation.ts';
import type { Conversation, ConversationSpec } from '../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../src/resources/conversation-status.ts';
import type {
  ConversationQuota,
  ConversationQuotaSpec,
} from '../../src/resources/conversation-quota.ts';
import type { PersistentVolumeClaim, Pod } from '@conversation-operator/kube/core';
import { apiVersion } from '../../src/resources/group.ts';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import {
  SandboxCondition,
  templateVersionAnnotation,
  type Sandbox,
  type SandboxState,
} from '../../src/resources/sandbox.ts';
import type { SandboxPool, SandboxPoolSpec } from '../../src/resources/sandbox-pool.ts';
import type { SandboxTemplate, SandboxTemplateSpec } from '../../src/resources/sandbox-template.ts';

/** The time that builders and fixed clocks agree on. */
export const noon = '2026-03-01T12:00:00.000Z';
export const noonMs = Date.parse(noon);
export const later = (ms: number): string => new Date(noonMs + ms).toISOString();

export const metadata = (name: string) => ({
  name,
  namespace: 'default',
  uid: `uid-of-${name}`,
  resourceVersion: '1',
  generation: 1,
  creationTimestamp: '2026-03-01T12:00:00Z',
});

export const condition = (
  type: string,
  status: Condition['status'],
  reason = 'Because',
  time = noon,
): Condition => ({ type, status, reason, message: `${reason}.`, lastTransitionTime: time });

export const admitted = condition(SandboxCondition.admitted, 'True', 'Admitted');

export interface SandboxWish {
  readonly name?: string;
  readonly owner?: string;
  readonly replicas?: 0 | 1;
  readonly deleting?: boolean;
  readonly status?: Partial<SandboxState>;
}

export const aSandbox = ({
  name = 'sbx-1',
  owner = 'alice',
  replicas = 1,
  deleting = false,
  status,
}: SandboxWish = {}): Sandbox => ({
  apiVersion,
  kind: 'Sandbox',
  metadata: { ...metadata(name), ...(deleting ? { deletionTimestamp: noon } : {}) },
  spec: { owner, templateName: 'default', replicas },
  ...(status === undefined ? {} : { status }),
});

export const aTemplate = (spec: Partial<SandboxTemplateSpec> = {}): SandboxTemplate => ({
  apiVersion,
  kind: 'SandboxTemplate',
  metadata: metadata('default'),
  spec: {
    podTemplate: { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } },
    agent: { port: 8000, workingDir: '/workspace' },
    storage: { size: '1Gi', retain: false },
    startDeadline: '2m',
    ...spec,
  },
});

/** A booted warm sandbox of the pool `default` from `aTemplate()`, unless the status differs. */
export const aWarmSandbox = (name: string, status: Partial<SandboxState> = {}): Sandbox => {
  const sandbox = aSandbox({
    name,
    owner: '',
    status: {
      replicas: 1,
      podUID: `uid-of-the-pod-of-${name}`,
      conditions: [
        condition(SandboxCondition.admitted, 'True', 'Admitted'),
        condition(SandboxCondition.ready, 'False', 'Spare'),
      ],
      ...status,
    },
  });
  const { uid, generation } = aTemplate().metadata;
  return {
    ...sandbox,
    metadata: {
      ...sandbox.metadata,
      annotations: { [templateVersionAnnotation]: `${uid}/${generation}` },
    },
    spec: { ...sandbox.spec, poolName: 'default' },
  };
};

export const aPool = (spec: Partial<SandboxPoolSpec> = {}, name = 'default'): SandboxPool => ({
  apiVersion,
  kind: 'SandboxPool',
  metadata: metadata(name),
  spec: {
    templateName: 'default',
    replicas: 2,
    refill: { maxPerMinute: 60, delay: '0s' },
    ...spec,
  },
});

export const aPod = (
  sandbox: Sandbox,
  status: Pod['status'] = {},
  more: { deleting?: boolean; uid?: string; foreign?: boolean } = {},
): Pod => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: {
    ...metadata(sandbox.metadata.name),
    uid: more.uid ?? 'uid-of-the-pod',
    ...(more.foreign === true
      ? {}
      : { ownerReferences: [ownerReferenceTo(sandbox, { controller: true })] }),
    ...(more.deleting === true ? { deletionTimestamp: noon } : {}),
  },
  spec: { containers: [{ name: 'agent', image: 'agent:1' }] },
  status,
});

type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

export const aContainer = (status: Partial<ContainerStatus> = {}): ContainerStatus => ({
  name: 'agent',
  image: 'agent:1',
  imageID: '',
  ready: false,
  restartCount: 0,
  ...status,
});

/** A pod whose agent runs. */
export const aRunningPod = (sandbox: Sandbox, containerID = 'process://1'): Pod =>
  aPod(sandbox, {
    phase: 'Running',
    podIP: '127.70.0.1',
    containerStatuses: [aContainer({ containerID, state: { running: {} }, ready: true })],
  });

export const aClaim = (sandbox: Sandbox): PersistentVolumeClaim => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: {
    ...metadata(sandbox.metadata.name),
    ownerReferences: [ownerReferenceTo(sandbox, { controller: true })],
  },
  spec: {},
});

/** A conversation as the API server has it, with the fields that caches add. */
export function aConversation(wish: ConversationWish = {}): Conversation & CachedConversation {
  const stored = aStoredConversation(wish);
  const { storedBytes, firstWords } = cachedConversation(stored);
  return { ...stored, storedBytes, firstWords, lacksSteps: false };
}

export interface ConversationWish {
  readonly name?: string;
  readonly spec?: Partial<ConversationSpec>;
  readonly status?: ConversationStatus;
}

/** A conversation as the API server has it. */
export const aStoredConversation = (wish: ConversationWish = {}): Conversation => ({
  apiVersion,
  kind: 'Conversation',
  metadata: metadata(wish.name ?? '019aa6a65c4d7b1e8f1f2f7f4f3a2b10'),
  spec: {
    owner: 'alice',
    templateName: 'default',
    initialMessage: { role: 'user', content: [{ type: 'text', text: 'Say hello.' }], run: true },
    ...wish.spec,
  },
  ...(wish.status === undefined ? {} : { status: wish.status }),
});

export const aQuota = (name: string, spec: Partial<ConversationQuotaSpec>): ConversationQuota => ({
  apiVersion,
  kind: 'ConversationQuota',
  metadata: { ...metadata(name), uid: name },
  spec: {
    scope: 'Owner',
    limit: 1,
    onExceeded: 'PauseOldest',
    minActiveSeconds: 0,
    autoResume: 'All',
    ...spec,
  },
});

/** A slot as `classify` makes it of a sandbox. */
export const aSlot = (uid: string, state: SlotState, more: Partial<Slot> = {}): Slot => ({
  uid,
  name: uid,
  owner: 'alice',
  state,
  warmSandbox: false,
  taken: ['starting', 'running', 'freeing'].includes(state),
  sandbox: aSandbox({ name: uid }),
  requestedAt: 0,
  bare: false,
  explained: true,
  activeSince: 0,
  idleSince: 0,
  confirming: false,
  stalledAt: Infinity,
  automatic: false,
  pausedSince: 0,
  unfinished: false,
  resumesAt: 0,
  releasable: false,
  stored: true,
  undecided: false,
  expiry: undefined,
  ...more,
});
