import { bySandbox, conversationIndexers } from '../../../../src/controllers/caches.ts';
import {
  decideDisruption,
  needsNode,
  quietMs,
  DisruptionReconciler,
} from '../../../../src/controllers/disruption/reconcile.ts';
import { buildPod } from '../../../../src/controllers/sandbox/pod.ts';
import { pods, type Pod } from '@conversation-operator/kube/core';
import { IndexedStore } from '@conversation-operator/kube/store';
import type { CachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { cachedPod, type CachedPod } from '../../../../src/resources/cached-core.ts';
import type { ConversationStatus } from '../../../../src/resources/conversation-status.ts';
import { Interner } from '../../../../src/resources/cached-metadata.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';
import {
  aConversation,
  aPod,
  aSandbox,
  aWarmSandbox,
  aTemplate,
  noonMs,
} from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const safeToEvict = 'cluster-autoscaler.kubernetes.io/safe-to-evict';
const doNotDisrupt = 'karpenter.sh/do-not-disrupt';
const keeps = { [safeToEvict]: 'false', [doNotDisrupt]: 'true' };
const letsGo = { [safeToEvict]: 'true' };
const sandbox = aSandbox();

const podWith = (annotations: Readonly<Record<string, string>>, of = sandbox): Pod => {
  const pod = aPod(of);
  return { ...pod, metadata: { ...pod.metadata, annotations } };
};
const templateWith = (annotations: Readonly<Record<string, string>>): SandboxTemplate => {
  const { spec } = aTemplate();
  return aTemplate({ podTemplate: { ...spec.podTemplate, metadata: { annotations } } });
};

const started: Pick<ConversationStatus, 'start'> = { start: { status: 'READY', transitions: [] } };
const inSandbox = (status: Partial<ConversationStatus>): CachedConversation =>
  aConversation({ status: { ...started, sandboxName: 'sbx-1', ...status } });

describe('a conversation needs its node', () => {
  it.each([
    ['while it starts', { start: { status: 'WAITING_FOR_SANDBOX', transitions: [] } }, true],
    ['while its agent works', { executionStatus: 'running' }, true],
    ['while a question is open', { executionStatus: 'waiting_for_confirmation' }, true],
    [
      'while an interrupted run is to resume',
      { executionStatus: 'paused', interruption: { reason: 'Disruption', time: '' } },
      true,
    ],
    [
      'not after a pause by its owner',
      { executionStatus: 'paused', interruption: { reason: 'User', time: '' } },
      false,
    ],
    ['not when its run is over', { executionStatus: 'finished' }, false],
    ['not after an error', { executionStatus: 'error' }, false],
    ['not before its first run', { executionStatus: 'idle' }, false],
    ['not when its start has failed', { start: { status: 'ERROR', transitions: [] } }, false],
  ] as const)('%s', (_when, status, expected) => {
    expect(needsNode(inSandbox(status as Partial<ConversationStatus>))).toBe(expected);
  });
});

describe('the decision', () => {
  const decide = (
    annotations: Readonly<Record<string, string>>,
    isNeeded: boolean,
    quietForMs = 0,
    template: SandboxTemplate | undefined = aTemplate(),
  ) => decideDisruption({ pod: podWith(annotations), template, isNeeded, quietForMs });

  it.each([
    ['keeps the node at once', decide(letsGo, true), { change: keeps }],
    ['writes nothing that the pod has', decide(keeps, true), {}],
    ['waits before it lets go', decide(keeps, false, 1), { requeueAfterMs: quietMs - 1 }],
    [
      'lets go after the quiet time',
      decide(keeps, false, quietMs),
      { change: { [safeToEvict]: 'true', [doNotDisrupt]: null } },
    ],
    ['writes nothing that let go', decide(letsGo, false, quietMs), {}],
    ['lets a pod of an earlier release go', decide({}, false, quietMs), { change: letsGo }],
    ['works without a template', decide({}, true, 0, undefined), { change: keeps }],
    [
      'leaves an annotation of the template alone',
      decide({ [safeToEvict]: 'false' }, false, quietMs, templateWith({ [safeToEvict]: 'false' })),
      {},
    ],
    [
      'decides on the other one',
      decide({ [safeToEvict]: 'false' }, true, 0, templateWith({ [safeToEvict]: 'false' })),
      { change: { [doNotDisrupt]: 'true' } },
    ],
  ] as const)('%s', (_sentence, decision, expected) => {
    expect(decision).toEqual(expected);
  });
});

describe('the pod of a sandbox begins', () => {
  it.each([
    ['with its node kept', sandbox, aTemplate(), keeps],
    ['without a hold, as that of a warm sandbox', aWarmSandbox('spare-1'), aTemplate(), letsGo],
    [
      'with what its template says',
      sandbox,
      templateWith({ [safeToEvict]: 'true' }),
      { ...keeps, [safeToEvict]: 'true' },
    ],
  ] as const)('%s', (_sentence, of, template, expected) => {
    const { annotations } = buildPod(of, template, { bootstrapKey: 'key' }).metadata;
    const { 'conversation-operator.dev/owner': _owner, ...others } = annotations ?? {};
    expect(others).toEqual(expected);
  });
});

class Scene {
  readonly client = new FakeKubeClient();
  readonly clock = new VirtualClock(noonMs);
  readonly patches: object[] = [];
  readonly stores = {
    sandboxes: new IndexedStore<Sandbox>(),
    conversations: new IndexedStore<CachedConversation>({
      [bySandbox]: conversationIndexers[bySandbox] ?? (() => []),
    }),
    pods: new IndexedStore<CachedPod>(),
    templates: new IndexedStore<SandboxTemplate>(),
  };
  reconciler = this.newReconciler();

  constructor() {
    this.stores.sandboxes.set(sandbox);
    this.stores.templates.set(aTemplate());
  }

  newReconciler(): DisruptionReconciler {
    const { client, clock, stores } = this;
    return new DisruptionReconciler({
      clock,
      stores,
      client: {
        mergePatch: (resource, namespace, name, patch, options) => {
          this.patches.push(patch);
          return client.mergePatch(resource, namespace, name, patch, options);
        },
      },
    });
  }

  put(pod: Pod): Pod {
    const stored = this.client.put(pods, pod);
    this.stores.pods.set(cachedPod(stored, new Interner()));
    return stored;
  }

  async reconcile(): Promise<number | undefined> {
    const result = await this.reconciler.reconcile(
      { namespace: 'default', name: 'sbx-1' },
      new AbortController().signal,
    );
    return result?.requeueAfterMs;
  }

  /** The cache catches up. */
  async observed(): Promise<Readonly<Record<string, string>> | undefined> {
    const [pod] = (await this.client.list(pods)).items;
    if (pod !== undefined) this.stores.pods.set(cachedPod(pod, new Interner()));
    return pod?.metadata.annotations;
  }
}

describe('the annotations of a pod', () => {
  it('follow the run, and an agent that flips its state costs two writes in the quiet time', async () => {
    const scene = new Scene();
    scene.put(podWith(letsGo));
    for (let second = 0; second < 120; second++) {
      const executionStatus = second % 2 === 0 ? 'running' : 'finished';
      scene.stores.conversations.set(inSandbox({ executionStatus }));
      await scene.reconcile();
      await scene.observed();
      await scene.clock.advance(1_000);
    }
    expect(scene.patches).toHaveLength(1);
    expect(await scene.observed()).toEqual(keeps);
    scene.stores.conversations.set(inSandbox({ executionStatus: 'finished' }));
    const first = await scene.reconcile();
    await scene.clock.advance(first ?? 0);
    expect(await scene.reconcile()).toBeUndefined();
    expect(await scene.observed()).toEqual(letsGo);
    expect(scene.patches).toHaveLength(2);
  });

  it('of a warm sandbox that was claimed stay until its conversation is in it, and cost no write', async () => {
    const scene = new Scene();
    const warmSandbox = scene.put(podWith(letsGo));
    await scene.reconcile();
    await scene.clock.advance(quietMs * 2);
    scene.put({ ...warmSandbox, metadata: { ...warmSandbox.metadata, annotations: keeps } });
    expect(await scene.reconcile()).toBe(quietMs);
    scene.stores.conversations.set(inSandbox({ executionStatus: 'running' }));
    await scene.reconcile();
    expect(scene.patches).toEqual([]);
  });

  it('are written once more by another leader only where they differ', async () => {
    const scene = new Scene();
    scene.put(podWith(keeps));
    scene.stores.conversations.set(inSandbox({ executionStatus: 'running' }));
    scene.reconciler = scene.newReconciler();
    await scene.reconcile();
    expect(scene.patches).toEqual([]);
  });

  it('stay on a pod of the same name that the cache does not show yet', async () => {
    const scene = new Scene();
    const pod = scene.put(podWith(letsGo));
    scene.client.put(pods, { ...pod, metadata: { ...pod.metadata, uid: 'another' } });
    scene.stores.conversations.set(inSandbox({ executionStatus: 'running' }));
    await scene.reconcile();
    const [stored] = (await scene.client.list(pods)).items;
    expect(stored?.metadata.annotations).toEqual(letsGo);
  });

  it('are no business of a pod that is being deleted, has ended, or is gone', async () => {
    const scene = new Scene();
    scene.stores.conversations.set(inSandbox({ executionStatus: 'running' }));
    await scene.reconcile();
    scene.put(aPod(sandbox, {}, { deleting: true }));
    await scene.reconcile();
    scene.put(aPod(sandbox, { phase: 'Failed' }));
    await scene.reconcile();
    expect(scene.patches).toEqual([]);
  });

  it('do not follow conversations of another owner that name the sandbox', async () => {
    const scene = new Scene();
    scene.put(podWith(letsGo));
    const foreign = inSandbox({ executionStatus: 'running' });
    scene.stores.conversations.set({ ...foreign, spec: { ...foreign.spec, owner: 'mallory' } });
    await scene.reconcile();
    expect(scene.patches).toEqual([]);
  });
});
