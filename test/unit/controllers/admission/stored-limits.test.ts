import type { CachedConversation } from '../../../../src/resources/cached-conversation.ts';
import type { ConversationSpec } from '../../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../../src/resources/conversation-status.ts';
import type {
  ConversationQuota,
  ConversationQuotaSpec,
} from '../../../../src/resources/conversation-quota.ts';
import { ownSandboxName } from '../../../../src/resources/ids.ts';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../../../src/status/sandbox-phase.ts';
import { AdmissionScene } from '../../../support/admission-scene.ts';
import { aConversation, aQuota, aSandbox } from '../../../support/builders.ts';
import { cpuMsOf } from '../../../support/cpu-time.ts';

let scene: AdmissionScene;
beforeEach(() => {
  scene = new AdmissionScene();
});
afterEach(() => scene.stop());

const idOf = (index: number) => index.toString(16).padStart(32, '0');
const ready: ConversationStatus = { start: { status: 'READY', transitions: [] } };
const refusedBefore: ConversationStatus = {
  start: { status: 'ERROR', transitions: [], errorCode: 'ConversationLimitExceeded' },
};

function conversation(
  index: number,
  more: { spec?: Partial<ConversationSpec>; status?: ConversationStatus; second?: number } = {},
): CachedConversation {
  const { second = index, ...wish } = more;
  const one = aConversation({ name: idOf(index), ...wish });
  const creationTimestamp = `2026-03-01T12:00:${String(second).padStart(2, '0')}Z`;
  return { ...one, metadata: { ...one.metadata, creationTimestamp } };
}
const shown = (...all: readonly CachedConversation[]): readonly CachedConversation[] => {
  for (const one of all) scene.showConversation(one);
  return all;
};
const codes = (all: readonly CachedConversation[]) =>
  all.map((one) => scene.admission.limits.refusalOf(one)?.code ?? 'accepted');
const quota = (spec: Partial<ConversationQuotaSpec>): Promise<ConversationQuota> =>
  scene.addQuota(aQuota('default', { limit: 100, ...spec }));
const ownSandbox = (of: CachedConversation) => {
  const sandbox = aSandbox({ name: ownSandboxName(of.metadata.name) });
  return {
    ...sandbox,
    metadata: {
      ...sandbox.metadata,
      ownerReferences: [ownerReferenceTo(of, { controller: true })],
    },
  };
};

const ofMallory = (sandbox: Sandbox): Sandbox => ({
  ...sandbox,
  spec: { ...sandbox.spec, owner: 'mallory' },
});

describe('starts that came past the gateway', () => {
  it('are accepted without a limit', () => {
    expect(codes(shown(conversation(1), conversation(2)))).toEqual(['accepted', 'accepted']);
  });

  it('are refused beyond the number of conversations, with a message', async () => {
    await quota({ maxConversations: 2 });
    const [, , third] = shown(conversation(1, { status: ready }), conversation(2), conversation(3));
    expect(third && scene.admission.limits.refusalOf(third)).toEqual({
      code: 'ConversationLimitExceeded',
      message:
        'The quota default allows 2 stored conversations per owner, and 2 are there. Delete some, then start again.',
    });
  });

  it('are refused in the order of their creation, then by name', async () => {
    await quota({ maxConversations: 1 });
    const all = shown(
      conversation(3, { second: 0 }),
      conversation(2, { second: 0 }),
      conversation(1, { second: 1 }),
    );
    expect(codes(all)).toEqual([
      'ConversationLimitExceeded',
      'accepted',
      'ConversationLimitExceeded',
    ]);
  });

  it('are refused beyond the bytes', async () => {
    const [one, two] = [conversation(1), conversation(2)];
    await quota({ maxStoredBytes: one.storedBytes + two.storedBytes - 1 });
    expect(codes(shown(one, two))).toEqual(['accepted', 'StoredBytesLimitExceeded']);
  });

  it('are refused beyond the sandboxes, and only where they need one', async () => {
    await quota({ maxSandboxes: 2 });
    await scene.addSandbox('own');
    const all = shown(
      conversation(1),
      conversation(2),
      conversation(3, { spec: { sandboxName: 'own' } }),
    );
    expect(codes(all)).toEqual(['accepted', 'SandboxLimitExceeded', 'accepted']);
  });

  it('count each sandbox once, before and after it is made', async () => {
    await quota({ maxSandboxes: 2 });
    const [one, two, three] = shown(conversation(1), conversation(2), conversation(3));
    expect(one && codes([one])).toEqual(['accepted']);
    if (one !== undefined) scene.show(ownSandbox(one));
    expect(two && three && codes([two, three])).toEqual(['accepted', 'SandboxLimitExceeded']);
  });

  it('need their sandbox also where a sandbox of another owner names them', async () => {
    await quota({ maxSandboxes: 1 });
    const one = conversation(1);
    scene.show(ofMallory(ownSandbox(one)));
    expect(codes(shown(one, conversation(2)))).toEqual(['accepted', 'SandboxLimitExceeded']);
  });

  it('are refused under the limit of the namespace, whichever owner has taken it', async () => {
    await quota({ scope: 'Namespace', maxConversations: 1 });
    shown(conversation(1, { spec: { owner: 'bob' }, status: ready }));
    expect(codes(shown(conversation(2)))).toEqual(['ConversationLimitExceeded']);
  });

  it('stay accepted when the limit is lowered, also by another leader once they have their sandbox', async () => {
    const before = await quota({ maxConversations: 5 });
    const [one] = shown(conversation(1));
    expect(one && codes([one])).toEqual(['accepted']);
    scene.admission.observeQuota({
      ...before,
      metadata: { ...before.metadata, resourceVersion: '99', generation: 2 },
      spec: { ...before.spec, maxConversations: 0 },
    });
    expect(one && codes([one])).toEqual(['accepted']);
    const [two] = shown(conversation(2));
    expect(two && codes([two])).toEqual(['ConversationLimitExceeded']);
    const three = conversation(3);
    scene.show(ownSandbox(three));
    expect(codes(shown(three))).toEqual(['accepted']);
  });

  it('have room again once enough are deleted, those in ERROR too', async () => {
    await quota({ maxConversations: 1 });
    const both = shown(
      conversation(1, { status: ready }),
      conversation(2, { status: refusedBefore }),
    );
    expect(codes(shown(conversation(3)))).toEqual(['ConversationLimitExceeded']);
    for (const one of [...both, conversation(3)]) {
      scene.stores.conversations.delete('default', one.metadata.name);
      scene.admission.forgetConversation(one);
    }
    expect(codes(shown(conversation(4)))).toEqual(['accepted']);
  });

  it('do not count what is being deleted', async () => {
    await quota({ maxConversations: 1 });
    const one = conversation(1, { status: ready });
    shown({ ...one, metadata: { ...one.metadata, deletionTimestamp: '2026-03-01T13:00:00Z' } });
    expect(codes(shown(conversation(2)))).toEqual(['accepted']);
  });

  it('are checked in no more time when another owner has ten thousand', async () => {
    await quota({ maxConversations: 20_000 });
    for (let index = 1; index <= 10_000; index++)
      scene.admission.limits.observe(conversation(index, { second: 0, spec: { owner: 'bob' } }));
    const cpuMs = await cpuMsOf(() => {
      for (let index = 20_001; index <= 20_200; index++)
        codes(shown(conversation(index, { second: 1 })));
    });
    // The ten thousand are examined once.
    expect(cpuMs).toBeLessThan(2_000);
  });
});

describe('sandboxes that came past the gateway', () => {
  it('fail beyond the limit, in the order of their creation, with the reason', async () => {
    await quota({ maxSandboxes: 2 });
    await Promise.all(['c', 'b', 'a'].map((name) => scene.addSandbox(name)));
    await scene.clock.advance(0);
    const views = await Promise.all(
      ['a', 'b', 'c'].map(async (name) => viewOfSandbox(await scene.stored(name))),
    );
    expect(views.map(({ phase }) => phase)).toEqual(['STARTING', 'STARTING', 'ERROR']);
    expect(views[2]).toEqual({
      phase: 'ERROR',
      reason: 'SandboxLimitExceeded',
      message:
        'The quota default allows 2 stored sandboxes per owner, and 2 are there. Delete some, then start again.',
    });
  });

  it('stay when the limit is lowered, and make no room by failing', async () => {
    const before = await quota({ maxSandboxes: 2 });
    for (const name of ['a', 'b']) await scene.addSandbox(name);
    await scene.clock.advance(0);
    scene.admission.observeQuota({
      ...before,
      metadata: { ...before.metadata, resourceVersion: '99', generation: 2 },
      spec: { ...before.spec, maxSandboxes: 1 },
    });
    await scene.addSandbox('c');
    await scene.clock.advance(0);
    const phases = await Promise.all(
      ['a', 'b', 'c'].map(async (name) => viewOfSandbox(await scene.stored(name)).phase),
    );
    expect(phases).toEqual(['STARTING', 'STARTING', 'ERROR']);
    await scene.clock.advance(60_000);
    expect(viewOfSandbox(await scene.stored('c')).phase).toBe('ERROR');
  });

  it('are refused under the limit of the namespace', async () => {
    await quota({ scope: 'Namespace', maxSandboxes: 1 });
    await scene.addSandbox('bobs', { owner: 'bob' });
    await scene.clock.advance(0);
    await scene.addSandbox('mine');
    await scene.clock.advance(0);
    expect(viewOfSandbox(await scene.stored('mine'))).toMatchObject({
      phase: 'ERROR',
      reason: 'SandboxLimitExceeded',
    });
  });

  it('are refused also where they name the conversation of another owner', async () => {
    await quota({ maxSandboxes: 0 });
    const [one] = shown(conversation(1));
    if (one === undefined) throw new Error('no conversation is shown');
    const made = ofMallory(ownSandbox(one));
    scene.client.put(sandboxes, made);
    scene.show(made);
    await scene.clock.advance(0);
    expect(viewOfSandbox(await scene.stored(made.metadata.name)).phase).toBe('ERROR');
  });

  it('that a start was accepted for are not refused', async () => {
    await quota({ maxSandboxes: 0 });
    const made = ownSandbox(conversation(1));
    scene.client.put(sandboxes, made);
    scene.show(made);
    await scene.clock.advance(0);
    expect(viewOfSandbox(await scene.stored(made.metadata.name)).phase).toBe('STARTING');
  });
});

describe('the counts in the status of a quota', () => {
  it('are of what it limits, for those whom it is for', async () => {
    const all = { maxConversations: 10, maxStoredBytes: 1_000_000, maxSandboxes: 10 };
    const everyone = await quota(all);
    const bobs = await scene.addQuota(
      aQuota('bobs', { owner: 'bob', limit: 5, maxConversations: 3 }),
    );
    const whole = await scene.addQuota(aQuota('whole', { scope: 'Namespace', limit: 50, ...all }));
    const mine = conversation(1, { status: ready });
    const theirs = conversation(2, { status: ready, spec: { owner: 'bob' } });
    const refused = conversation(3, { status: refusedBefore });
    shown(mine, theirs, refused);
    // The quota of bob limits no more than conversations.
    const everything = mine.storedBytes + theirs.storedBytes + refused.storedBytes;
    await scene.addSandbox('a');
    await scene.addSandbox('b', { owner: 'bob' });
    const { limits } = scene.admission;
    expect(limits.countsFor(everyone)).toEqual({
      conversations: 2,
      storedBytes: everything,
      sandboxes: 2,
    });
    expect(limits.countsFor(bobs)).toEqual({ conversations: 1 });
    expect(limits.countsFor(whole)).toEqual({
      conversations: 3,
      sandboxes: 2,
      storedBytes: everything,
    });
  });

  it('are written when they change', async () => {
    await quota({ maxConversations: 10 });
    scene.quotaStatuses.length = 0;
    shown(conversation(1, { status: ready }));
    expect(scene.quotaStatuses).toEqual(['default']);
  });
});
