import { OpenHandsClient } from '../../../../../src/agent/openhands-client.ts';
import { isUnusedBy } from '../../../../../src/controllers/conversation/start/sandbox-release.ts';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import { conversations, type Conversation } from '../../../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../../../src/resources/conversation-status.ts';
import { sandboxes, type Sandbox } from '../../../../../src/resources/sandbox.ts';
import { aConversation, aSandbox, noon } from '../../../../support/builders.ts';
import { ConversationScene } from '../../../../support/conversation-scene.ts';

const agent = new OpenHandsClient();
afterAll(() => agent.close());

const started = (status: 'WORKING' | 'WAITING_FOR_SANDBOX' | 'READY' | 'ERROR') => ({
  start: {
    status,
    transitions: [{ status, time: noon }],
    ...(status === 'ERROR' ? { errorCode: 'StartTimeout', error: 'Too slow.' } : {}),
  },
});
/** The start got a warm sandbox, so the status names that one. */
const inWarmSandbox = {
  ...started('READY'),
  sandboxName: 'spare',
  sandboxUID: 'uid-of-spare',
} satisfies ConversationStatus;
const isMaker = (conversation: Conversation) =>
  ownerReferenceTo(conversation, { controller: true });

interface Made {
  readonly name?: string;
  readonly owner?: string;
  readonly references?: (madeFor: Conversation) => Sandbox['metadata']['ownerReferences'];
  readonly deletionTimestamp?: string;
}

/** A sandbox as the API server has it when a creation is executed after its retry. */
function made(by: Conversation, change: Made = {}): Sandbox {
  const sandbox = aSandbox({ name: change.name ?? 'late', owner: change.owner ?? by.spec.owner });
  const ownerReferences = change.references?.(by) ?? [isMaker(by)];
  const { deletionTimestamp } = change;
  return {
    ...sandbox,
    metadata: {
      ...sandbox.metadata,
      ownerReferences,
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    },
  };
}

describe('the reconcile of a conversation', () => {
  const scene = (conversation: Conversation, ...objects: readonly Sandbox[]) => {
    const made = new ConversationScene({ agent });
    made.client.put(conversations, conversation);
    for (const object of objects) made.client.put(sandboxes, object);
    return made;
  };

  it('deletes a sandbox that was created after the start got a warm sandbox', async () => {
    const conversation = aConversation({ status: inWarmSandbox });
    const plane = scene(
      conversation,
      made(conversation, { name: 'spare' }),
      made(conversation, { name: 'late' }),
    );
    await plane.reconcile(conversation.metadata.name);
    expect(await plane.sandboxes()).toEqual(['spare']);
  });

  it('deletes a sandbox that was created after the start failed without one', async () => {
    const conversation = aConversation({ status: started('ERROR') });
    const plane = scene(conversation, made(conversation));
    await plane.reconcile(conversation.metadata.name);
    expect(await plane.sandboxes()).toEqual([]);
  });

  it('keeps a sandbox that the API server knows as used, although the cache does not', async () => {
    const conversation = aConversation({ status: inWarmSandbox });
    const { name } = conversation.metadata;
    const plane = scene(conversation, made(conversation, { name: 'spare' }));
    await plane.reconcile(name);
    plane.client.put(sandboxes, made(conversation));
    await plane.refresh();
    const stored = await plane.conversation(name);
    const sandbox = { sandboxName: 'late', sandboxUID: 'uid-of-late' };
    plane.client.put(conversations, { ...stored, status: { ...stored.status, ...sandbox } });
    await plane.reconcileBehind(name);
    expect(await plane.sandboxes()).toEqual(['spare', 'late']);
  });

  it('keeps a sandbox that another conversation has just joined', async () => {
    const conversation = aConversation({ status: inWarmSandbox });
    const plane = scene(conversation, made(conversation, { name: 'spare' }), made(conversation));
    await plane.refresh();
    const guest = { ...isMaker(conversation), uid: 'uid-of-guest', controller: false };
    await plane.client.mergePatch(sandboxes, 'default', 'late', {
      metadata: { ownerReferences: [isMaker(conversation), guest] },
    });
    await plane.reconcileBehind(conversation.metadata.name);
    expect(await plane.sandboxes()).toEqual(['spare', 'late']);
  });

  it.each([
    ['deletes the sandbox of a failed start', 'alice', []],
    [
      'keeps a sandbox of its owner that names only a failed start of another owner',
      'bob',
      ['late'],
    ],
  ])('%s', async (_sentence, owner, kept) => {
    const failed = aConversation({
      spec: { sandboxName: 'late' },
      status: { ...started('ERROR'), sandboxName: 'late', sandboxUID: 'uid-of-late' },
    });
    const named = aConversation({ name: 'named', spec: { owner }, status: started('ERROR') });
    const plane = scene(failed, made(named, { owner: 'alice' }));
    plane.client.put(conversations, named);
    await plane.reconcile(failed.metadata.name);
    expect(await plane.sandboxes()).toEqual(kept);
  });
});

describe('a sandbox', () => {
  it.each<[string, boolean, ConversationStatus, Made]>([
    ['that another one was used for is unused', true, inWarmSandbox, {}],
    [
      'during a start in another one is unused',
      true,
      { ...inWarmSandbox, ...started('WAITING_FOR_SANDBOX') },
      {},
    ],
    ['of a failed start that names none is unused', true, started('ERROR'), {}],
    ['of a start that has chosen none yet may be used', false, started('WORKING'), {}],
    ['that the status names is used', false, inWarmSandbox, { name: 'spare' }],
    ['of another owner is not the conversation’s', false, inWarmSandbox, { owner: 'mallory' }],
    [
      'that the conversation has joined is not its own',
      false,
      inWarmSandbox,
      { references: (issuer) => [{ ...isMaker(issuer), controller: false }] },
    ],
    [
      'that another conversation has joined is used',
      false,
      inWarmSandbox,
      {
        references: (issuer) => [
          isMaker(issuer),
          { ...isMaker(issuer), uid: 'x', controller: false },
        ],
      },
    ],
    [
      'of an earlier conversation of that name is not its own',
      false,
      inWarmSandbox,
      { references: (issuer) => [{ ...isMaker(issuer), uid: 'uid-of-earlier' }] },
    ],
    ['that no conversation owns is not its own', false, inWarmSandbox, { references: () => [] }],
    ['that is being deleted needs no deletion', false, inWarmSandbox, { deletionTimestamp: noon }],
  ])('%s', (_sentence, isUnused, status, change) => {
    const conversation = aConversation({ status });
    expect(isUnusedBy(conversation, made(conversation, change))).toBe(isUnused);
  });

  it('with the owner reference of a conversation that joins another one is a person’s', () => {
    const conversation = aConversation({ status: inWarmSandbox, spec: { sandboxName: 'spare' } });
    expect(isUnusedBy(conversation, made(conversation))).toBe(false);
  });
});
