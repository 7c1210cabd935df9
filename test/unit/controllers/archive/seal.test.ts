import { IndexedStore } from '@conversation-operator/kube/store';
import { agentEndpointOf } from '../../../../src/agent/kinds.ts';
import { conversationIndexers } from '../../../../src/controllers/caches.ts';
import type { Archiver, ArchiveOutcome } from '../../../../src/controllers/archive/archiver.ts';
import { SandboxSeal, type SealOptions } from '../../../../src/controllers/archive/seal.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { aConversation, aSandbox, noonMs } from '../../../support/builders.ts';
import { sceneKeys } from '../../../support/sandbox-scene.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

/** A step of an archive: its result and its duration. */
interface Step {
  readonly kind: ArchiveOutcome['kind'];
  readonly ms?: number;
}

const more: Step = { kind: 'more' };
const outcomeOf = ({ kind }: Step) => ({ kind, added: 1, reason: 'StoreFailed' }) as ArchiveOutcome;

/** The end of a pause of a sandbox with some conversations, each of which has these steps. */
async function sealed(
  steps: readonly Step[],
  {
    isStoreFailing = false,
    isRecreated = false,
    conversations = 1,
    ...options
  }: Partial<SealOptions> & {
    readonly isStoreFailing?: boolean;
    /** Whether another conversation gets the name of each one before its first step. */
    readonly isRecreated?: boolean;
    readonly conversations?: number;
  } = {},
) {
  const clock = new VirtualClock(noonMs);
  const sandbox = aSandbox({ status: { podIP: '127.0.0.1', agentPort: 8000 } });
  const { name, uid } = sandbox.metadata;
  const store = new IndexedStore(conversationIndexers);
  const all = Array.from({ length: conversations }, (_none, index) =>
    cachedConversation(
      aConversation({
        name: `c-${index + 1}`,
        status: { sandboxName: name, sandboxUID: uid, start: { status: 'READY', transitions: [] } },
      }),
    ),
  );
  for (const conversation of all) store.set(conversation);
  const taken = new Map<string, number>();
  const recorded: string[] = [];
  const uids = new Set<string>();
  const archiver = {
    conversation: (namespace: string, wanted: string) => store.get(namespace, wanted),
    extend: async ({ conversation }, signal) => {
      const number = taken.get(conversation.metadata.name) ?? 0;
      taken.set(conversation.metadata.name, number + 1);
      uids.add(conversation.metadata.uid);
      const step = steps[number];
      if (step === undefined) throw new Error('no step is left');
      await new Promise<void>((resolve, reject) => {
        clock.after(step.ms ?? 0, resolve);
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
      return outcomeOf(step);
    },
    record: ({ metadata }, { reason }) => {
      uids.add(metadata.uid);
      recorded.push(`${metadata.name} ${reason}`);
      return Promise.resolve(true);
    },
  } satisfies Pick<Archiver, 'conversation' | 'extend' | 'record'>;
  const seal = new SandboxSeal({
    archiver,
    clock,
    metrics: createMetrics(),
    isStoreFailing: () => isStoreFailing,
    archive: {},
    stores: { conversations: store, templates: new IndexedStore({}) },
  } as never);
  const startedAt = clock.monotonic();
  const endpoint = agentEndpointOf(sandbox, sceneKeys);
  if (endpoint === undefined) throw new Error('the sandbox has no agent');
  const { signal } = new AbortController();
  const lists = store.byIndex.bind(store);
  // The call has its conversations before another one gets the name.
  store.byIndex = (...parameters) => {
    const found = lists(...parameters);
    for (const { metadata, ...rest } of isRecreated ? all : [])
      store.set({ metadata: { ...metadata, uid: `another-${metadata.uid}` }, ...rest });
    return found;
  };
  const call = seal.seal(sandbox, endpoint, { maxMs: 15_000, isLast: true, ...options, signal });
  await clock.run(call);
  return { recorded, uids: [...uids], tookMs: clock.monotonic() - startedAt };
}

describe('the archive at the end of a pause', () => {
  it('has everything, however many steps that takes', async () => {
    const { recorded } = await sealed([...Array<Step>(10).fill(more), { kind: 'end' }]);
    expect(recorded).toEqual(['c-1 Complete']);
  });

  it.each<[string, readonly Step[], readonly string[]]>([
    ['a writer that was faster, twice', [{ kind: 'again' }, { kind: 'again' }], ['c-1 Complete']],
    [
      'a writer that was faster each time',
      Array<Step>(3).fill({ kind: 'again' }),
      ['c-1 Incomplete'],
    ],
    ['a failure, which its condition names', Array<Step>(3).fill({ kind: 'failed' }), []],
    ['its limit', [{ kind: 'limit' }], []],
  ])('meets %s', async (_what, steps, expected) => {
    const { recorded } = await sealed([...steps, { kind: 'end' }]);
    expect(recorded).toEqual(expected);
  });

  it('is that of the conversation whose agent ends, not of another one that got its name', async () => {
    const { uids } = await sealed([more, { kind: 'end' }], { isRecreated: true });
    expect(uids).toEqual([aConversation({ name: 'c-1' }).metadata.uid]);
  });

  it('ends at the bound that its steps and its conversations share', async () => {
    const steps = Array<Step>(100).fill({ kind: 'more', ms: 400 });
    const { recorded, tookMs } = await sealed(steps, { maxMs: 2_000, conversations: 3 });
    expect(recorded).toEqual(['c-1 Incomplete', 'c-2 Incomplete', 'c-3 Incomplete']);
    expect(tookMs).toBe(2_000);
  });

  it.each([
    ['a second', 15_000, 1_000],
    ['no more than the pause has left', 300, 300],
  ])('gives a store that fails %s', async (_how, maxMs, expected) => {
    const steps = [{ kind: 'more', ms: 60_000 } as const];
    const { tookMs } = await sealed(steps, { maxMs, isStoreFailing: true });
    expect(tookMs).toBe(expected);
  });
});
