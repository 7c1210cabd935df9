import { OpenHandsClient } from '../../../../../src/agent/openhands-client.ts';
import { TransportError } from '@conversation-operator/kube/errors';
import { conversations, type Conversation } from '../../../../../src/resources/conversation.ts';
import type { StartStatus } from '../../../../../src/resources/conversation-status.ts';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import { sandboxes } from '../../../../../src/resources/sandbox.ts';
import {
  aConversation,
  aSandbox,
  aWarmSandbox,
  admitted,
  condition,
  noon,
} from '../../../../support/builders.ts';
import { ConversationScene } from '../../../../support/conversation-scene.ts';

const own = '019aa6a65c4d7b1e8f1f2f7f4f3a2b10';
const guest = '019aa6a65c4d7b1e8f1f2f7f4f3a2b11';
const agent = new OpenHandsClient();
afterAll(() => agent.close());

const conversationOf = (name: string, status: StartStatus): Conversation => {
  const made = aConversation({
    name,
    status: {
      start: {
        status,
        transitions: [{ status, time: noon }],
        ...(status === 'ERROR' ? { errorCode: 'BranchNotFound', error: 'None.' } : {}),
      },
      sandboxName: 'sbx-1',
      sandboxUID: 'uid-of-sbx-1',
    },
  });
  return { ...made, metadata: { ...made.metadata, uid: `uid-of-${name}` } };
};

/** A sandbox that runs, and its conversations; the sandbox was made for the first one. */
function sceneOf(...users: readonly Conversation[]) {
  const scene = new ConversationScene({ agent });
  const sandbox = aSandbox({
    status: { conditions: [admitted, condition('Ready', 'True', 'Running')] },
  });
  const ownerReferences = users.map((user, index) =>
    ownerReferenceTo(user, { controller: index === 0 }),
  );
  scene.client.put(sandboxes, {
    ...sandbox,
    metadata: { ...sandbox.metadata, ...(users.length === 0 ? {} : { ownerReferences }) },
  });
  for (const user of users) scene.client.put(conversations, user);
  return scene;
}
const failed = conversationOf(own, 'ERROR');

it('gives back a warm sandbox that it has claimed in vain, and keeps the sandbox that it uses', async () => {
  const ready = conversationOf(own, 'READY');
  const scene = sceneOf(ready);
  const warmSandbox = aWarmSandbox('spare');
  scene.client.put(sandboxes, {
    ...warmSandbox,
    metadata: {
      ...warmSandbox.metadata,
      ownerReferences: [ownerReferenceTo(ready, { controller: true })],
    },
    spec: { ...warmSandbox.spec, owner: ready.spec.owner },
  });
  await scene.reconcile(own);
  expect(await scene.sandboxes()).toEqual(['sbx-1']);
});

it('stores why it has failed, then gives its sandbox back', async () => {
  const sandbox = aSandbox({
    status: { conditions: [admitted, condition('Failed', 'True', 'CrashLoop')] },
  });
  const scene = sceneOf(conversationOf(own, 'WAITING_FOR_SANDBOX'));
  const stored = await scene.client.get(sandboxes, 'default', 'sbx-1');
  scene.client.put(sandboxes, {
    ...stored,
    ...(sandbox.status === undefined ? {} : { status: sandbox.status }),
  });
  const order: string[] = [];
  scene.client.fault = ({ verb, plural }) => {
    if (verb === 'delete' || verb === 'updateStatus') order.push(`${verb} ${plural}`);
    return undefined;
  };
  await scene.reconcile(own);
  expect(order).toEqual(['updateStatus conversations', 'delete sandboxes']);
  expect((await scene.conversation(own)).status).toMatchObject({
    start: { status: 'ERROR', errorCode: 'CrashLoop' },
    sandboxStatus: 'ERROR',
    sandboxStatusReason: 'CrashLoop',
    sandboxName: 'sbx-1',
  });
  expect(await scene.sandboxes()).toEqual([]);
});

it('is still in ERROR, for the reason of its own, once its sandbox is gone', async () => {
  const scene = sceneOf(failed);
  for (let round = 0; round < 3; round++) await scene.reconcile(own);
  expect(await scene.sandboxes()).toEqual([]);
  expect((await scene.conversation(own)).status).toMatchObject({
    sandboxStatus: 'ERROR',
    sandboxStatusReason: 'BranchNotFound',
  });
});

it('deletes its sandbox at the next reconcile where the first attempt was lost', async () => {
  const scene = sceneOf(failed);
  scene.client.fault = ({ verb }) =>
    verb === 'delete' ? new TransportError('socket hang up') : undefined;
  await expect(scene.reconcile(own)).rejects.toThrow('socket hang up');
  scene.client.fault = () => undefined;
  await scene.reconcile(own);
  expect(await scene.sandboxes()).toEqual([]);
});

it('asks nothing of the API server once that is done', async () => {
  const scene = sceneOf(failed);
  await scene.reconcile(own);
  const calls: string[] = [];
  await scene.refresh();
  scene.client.fault = ({ verb, plural }) => {
    calls.push(`${verb} ${plural}`);
    return undefined;
  };
  await scene.reconcileBehind(own);
  expect(calls).toEqual([]);
});

describe('a sandbox', () => {
  it.each<[string, StartStatus]>([
    ['that another conversation works in', 'READY'],
    ['that another conversation starts in', 'PREPARING_REPOSITORY'],
  ])('%s stays', async (_sentence, status) => {
    const scene = sceneOf(failed, conversationOf(guest, status));
    await scene.reconcile(own);
    expect(await scene.sandboxes()).toEqual(['sbx-1']);
  });

  it('goes with the last start that fails in it', async () => {
    const scene = sceneOf(failed, conversationOf(guest, 'ERROR'));
    await scene.reconcile(guest);
    expect(await scene.sandboxes()).toEqual([]);
  });

  it('that was not made for a conversation stays', async () => {
    const scene = sceneOf();
    scene.client.put(conversations, failed);
    await scene.reconcile(own);
    expect(await scene.sandboxes()).toEqual(['sbx-1']);
  });

  it('stays for a conversation that has joined it a moment ago', async () => {
    const scene = sceneOf(failed);
    await scene.refresh();
    const { metadata } = await scene.client.get(sandboxes, 'default', 'sbx-1');
    const ownerReferences = [
      ...(metadata.ownerReferences ?? []),
      ownerReferenceTo(conversationOf(guest, 'READY'), { controller: false }),
    ];
    await scene.client.mergePatch(sandboxes, 'default', 'sbx-1', { metadata: { ownerReferences } });
    await scene.reconcileBehind(own);
    expect(await scene.sandboxes()).toEqual(['sbx-1']);
  });

  it('that is another one of the same name stays', async () => {
    const scene = sceneOf({
      ...failed,
      status: { ...failed.status, sandboxUID: 'uid-of-an-earlier-one' },
    });
    await scene.reconcile(own);
    expect(await scene.sandboxes()).toEqual(['sbx-1']);
  });
});
