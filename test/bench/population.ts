import { buildClaim } from '../../src/controllers/sandbox/claim.ts';
import type { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { issueKey } from '../../src/gateway/auth/key.ts';
import { apiKeys } from '../../src/resources/api-key.ts';
import { conversations } from '../../src/resources/conversation.ts';
import { persistentVolumeClaims } from '@conversation-operator/kube/core';
import { apiVersion } from '../../src/resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { ownSandboxName } from '../../src/resources/ids.ts';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import { SandboxCondition, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { sandboxTemplates } from '../../src/resources/sandbox-template.ts';
import { sessionKeyFor } from '../support/session-key.ts';
import { inParallel, namespace } from './api-server.ts';
import { masterKey } from './gateway-process.ts';

const owner = 'alice';
const atOnce = 16;
const time = '2026-03-01T12:00:04Z';
const message =
  'Read the failing test of the parser, find out since when it fails, and mend it without changing the test.';

const is = (type: string, reason: string) => ({
  type,
  status: 'True' as const,
  reason,
  message: 'So it is.',
  lastTransitionTime: time,
});

export const newKey = async (client: HttpKubeClient): Promise<string> =>
  (await issueKey({ client, namespace, owner })).key;

/** The session key of a sandbox that the holder of an API key is shown. */
export const sessionKeyIn = async (
  client: HttpKubeClient,
  sandbox: Sandbox,
  apiKey: string,
): Promise<string> => {
  const { items } = await client.list(apiKeys, { namespace });
  return sessionKeyFor(sandbox, { apiKey, apiKeys: items, keys: new SandboxKeys([masterKey]) });
};

export const addTemplate = (client: HttpKubeClient, where = namespace) =>
  client.create(sandboxTemplates, {
    apiVersion,
    kind: 'SandboxTemplate',
    metadata: { namespace: where, name: 'default' },
    spec: {
      displayName: 'Default',
      podTemplate: { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } },
      agent: { port: 8000, workingDir: '/workspace' },
      storage: { size: '1Gi', retain: false },
      startDeadline: '5m',
    },
  });

/** A sandbox that runs, with its agent at this address. */
export async function addSandbox(
  client: HttpKubeClient,
  name: string,
  podIP: string,
  agentPort: number,
  whose = owner,
): Promise<Sandbox> {
  await client.create(sandboxes, {
    apiVersion,
    kind: 'Sandbox',
    metadata: { namespace, name },
    spec: { owner: whose, templateName: 'default', replicas: 1 },
  });
  const status = {
    phase: 'RUNNING' as const,
    podName: name,
    podUID: 'pod-1',
    podIP,
    agentPort,
    activeSinceTime: time,
    conditions: [
      is(SandboxCondition.admitted, 'Admitted'),
      is(SandboxCondition.agentReady, 'Connected'),
      is(SandboxCondition.ready, 'Running'),
    ],
  };
  return client.mergePatch(sandboxes, namespace, name, { status }, { subresource: 'status' });
}

/** READY conversations of one owner in running sandboxes, with all fields. Returns their ids. */
export async function addConversations(
  client: HttpKubeClient,
  count: number,
): Promise<readonly string[]> {
  const began = Date.now();
  const ids = Array.from({ length: count }, (_, index) => newUuid(began + index));
  await inParallel(count, atOnce, async (index) => {
    const id = ids[index] ?? '';
    const sandboxName = ownSandboxName(id);
    await client.create(conversations, {
      apiVersion,
      kind: 'Conversation',
      metadata: { namespace, name: id },
      spec: {
        owner,
        templateName: 'default',
        initialMessage: { role: 'user', content: [{ type: 'text', text: message }], run: true },
        repository: { name: `group/project-${index % 50}`, branch: 'main' },
        agent: { model: 'a-model' },
      },
    });
    await addSandbox(client, sandboxName, `10.244.${(index >> 8) % 256}.${index % 256}`, 8000);
    const statuses = [
      'WORKING',
      'WAITING_FOR_SANDBOX',
      'PREPARING_REPOSITORY',
      'SETTING_UP_SKILLS',
      'READY',
    ] as const;
    const status = {
      start: {
        status: 'READY' as const,
        transitions: statuses.map((passed) => ({ status: passed, time })),
      },
      sandboxName,
      sandboxStatus: 'RUNNING' as const,
      executionStatus: 'running' as const,
      title: `Mend the parser (${index})`,
      lastActivityTime: time,
      metrics: { accumulatedCost: '0.1234', promptTokens: 12_345, completionTokens: 1234 },
    };
    await client.mergePatch(conversations, namespace, id, { status }, { subresource: 'status' });
  });
  return ids;
}

const printed = 'Cloning into the working tree...\nadded 312 packages in 4s\n'.repeat(20);
const step = (name: string) => ({
  name,
  state: 'done',
  startedAt: time,
  updatedAt: time,
  endedAt: time,
  exitCode: 0,
  output: printed,
});

/** Conversations of one owner, paused after work: each with its sandbox and a volume. */
export async function addPausedConversations(
  client: HttpKubeClient,
  count: number,
): Promise<readonly string[]> {
  const ids = await addConversations(client, count);
  const template = await client.get(sandboxTemplates, namespace, 'default');
  await inParallel(count, atOnce, async (index) => {
    const id = ids[index] ?? '';
    const conversation = await client.get(conversations, namespace, id);
    const name = ownSandboxName(id);
    const ownerReferences = [ownerReferenceTo(conversation, { controller: true })];
    const sandbox = await client.mergePatch(sandboxes, namespace, name, {
      metadata: { ownerReferences },
      spec: { replicas: 0 },
    });
    await client.create(persistentVolumeClaims, buildClaim(sandbox, template));
    const capacity = { storage: '1Gi' };
    const bound = { phase: 'Bound', accessModes: ['ReadWriteOnce'], capacity };
    await client.mergePatch(
      persistentVolumeClaims,
      namespace,
      name,
      { status: bound },
      { subresource: 'status' },
    );
    const lived = {
      masterKeyId: '116bc2957062',
      agentKind: 'openhands',
      agentEpoch: 1,
      lastContainerID: `containerd://${id}${id}`,
    };
    await client.mergePatch(
      sandboxes,
      namespace,
      name,
      { status: lived },
      { subresource: 'status' },
    );
    const start = { ...conversation.status?.start, steps: [step('clone'), step('setup')] };
    const status = { sandboxUID: sandbox.metadata.uid, agentEpoch: 1, start };
    await client.mergePatch(conversations, namespace, id, { status }, { subresource: 'status' });
  });
  return ids;
}
