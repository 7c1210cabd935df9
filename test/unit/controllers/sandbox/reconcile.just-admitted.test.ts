import { OpenHandsClient } from '../../../../src/agent/openhands-client.ts';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import { aSandbox, admitted, noonMs } from '../../../support/builders.ts';
import { SandboxScene, sceneKeys } from '../../../support/sandbox-scene.ts';

const reserved = {
  conditions: [admitted],
  replicas: 1,
  masterKeyId: sceneKeys.currentKeyId,
  agentKind: 'openhands' as const,
  startingSinceTime: new Date(noonMs).toISOString(),
};

/** A sandbox that was admitted, by this process or another one. */
class JustAdmitted {
  readonly agent = new OpenHandsClient({});
  readonly scene = new SandboxScene({ agent: this.agent });
  /** Whether the sandbox was read before anything was created. */
  readFirst: boolean | undefined;
  readonly #admitted: Sandbox;

  constructor() {
    const { client } = this.scene;
    this.#admitted = client.put(sandboxes, aSandbox({ status: reserved }));
    let reads = 0;
    client.fault = ({ verb, plural }) => {
      if (verb === 'get' && plural === sandboxes.plural) reads++;
      if (verb === 'create') this.readFirst ??= reads > 0;
      return undefined;
    };
  }

  /** Stores another version, without a read. */
  touch(): Promise<unknown> {
    const { name, namespace } = this.#admitted.metadata;
    return this.scene.client.mergePatch(sandboxes, namespace, name, {
      metadata: { labels: { a: 'b' } },
    });
  }

  answered(): void {
    this.scene.podCreations.admitting(this.#admitted.metadata.uid, Promise.resolve(this.#admitted));
  }

  /** Reconciles, and returns the number of claims and of pods. */
  async made(): Promise<readonly number[]> {
    await this.scene.reconcile();
    const { client } = this.scene;
    const lists = [await client.list(persistentVolumeClaims), await client.list(pods)];
    return lists.map(({ items }) => items.length);
  }
}

let objects: JustAdmitted;
beforeEach(() => (objects = new JustAdmitted()));
afterEach(() => objects.agent.close());

it('is not read again before its volume and its pod are created', async () => {
  objects.answered();
  expect([await objects.made(), objects.readFirst]).toEqual([[1, 1], false]);
});

it.each<[string, () => Promise<unknown> | undefined]>([
  ['where another process has admitted it', () => undefined],
  [
    'a second after its admission',
    () => {
      objects.answered();
      return objects.scene.clock.advance(1_001);
    },
  ],
  [
    'where the cache has a version after its admission',
    () => {
      objects.answered();
      return objects.touch();
    },
  ],
])('is read %s', async (_name, before) => {
  await before();
  expect([await objects.made(), objects.readFirst]).toEqual([[1, 1], true]);
});
