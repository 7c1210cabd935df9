import { startDns, type DnsPods } from './cluster-dns.ts';
import type { Connection } from './connections.ts';
import {
  install,
  startStranger,
  strangerAnswer,
  uninstall,
  useModelOfStranger,
  type Values,
} from './installation.ts';
import { modelAnswer } from './places.ts';
import { enforcePolicies } from './policy-engine.ts';
import { Scene } from './scene.ts';

export interface WorldOptions {
  readonly dns: DnsPods;
  readonly rangesMatchCluster: boolean;
  /** Makes what this cluster has before the chart, and returns what ends it. Default: nothing. */
  readonly prepare?: () => Promise<() => Promise<void>>;
  /** Values of the chart beside those that every cluster has. Default: none. */
  readonly values?: Values;
}

/** How long a new rule may take until it is in force. */
const settleMs = 15_000;

export function itPermits(connections: readonly Connection[], scene: () => Scene): void {
  describe('permits and forbids', () => {
    let outcomes: ReadonlyMap<Connection, string>;
    const isRight = (each: Connection) => (outcomes.get(each) === 'open') === each.isPermitted;
    beforeAll(async () => {
      const begun = performance.now();
      do {
        outcomes = await scene().outcomes(connections);
      } while (!connections.every(isRight) && performance.now() - begun < settleMs);
    });
    it.each(
      connections.map(
        (each) => [`${each.from} to ${each.to}: ${each.isPermitted ? 'yes' : 'no'}`, each] as const,
      ),
    )('%s', (_name, each) => {
      const outcome = outcomes.get(each) ?? '';
      expect(outcome).toMatch(each.isPermitted ? /^open$/ : /^(?!open$)/);
    });
  });
}

/** An agent without the internet gets the answer of a model that the relay alone reaches. */
export function itRelays(scene: () => Scene): void {
  it('gives an agent the answer of a model that only extraEgress opens', async () => {
    await useModelOfStranger();
    await scene().say('Hello again.');
    await expect(scene().hears(strangerAnswer)).resolves.toBeUndefined();
  });
}

/**
 * Installs the chart, with no more values than any cluster needs, in a cluster with this DNS and
 * this view of policies, and tests the connections. `more` are tests of the same installation.
 */
export function describeWorld(
  name: string,
  { dns, rangesMatchCluster, prepare, values }: WorldOptions,
  connections: readonly Connection[],
  more: (scene: () => Scene) => void = () => undefined,
): void {
  describe(name, () => {
    const ends: (() => Promise<void>)[] = [];
    let scene: Scene;
    beforeAll(async () => {
      ends.push(await startDns(dns));
      ends.push(await enforcePolicies({ rangesMatchCluster }));
      await startStranger();
      if (prepare !== undefined) ends.push(await prepare());
      ends.push(uninstall);
      await install(values);
      scene = await Scene.begin();
    });
    afterAll(async () => {
      for (const end of ends.toReversed()) await end();
    });

    it('starts conversations, one of them with a repository', () => {
      expect(scene.starts.map(({ status, detail }) => ({ status, detail }))).toEqual(
        Array(2).fill({ status: 'READY', detail: null }),
      );
    });

    it('gives an agent the answer of its model', async () => {
      await expect(scene.hears(modelAnswer)).resolves.toBeUndefined();
    });

    itPermits(connections, () => scene);
    more(() => scene);
  });
}
