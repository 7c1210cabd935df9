import { apiKeyScopes } from '../../../../src/resources/api-key.ts';
import { OpenSessions } from '../../../../src/gateway/proxy/agent-access.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import { Listeners } from '../../../../src/gateway/lookup/object-feed.ts';
import { apiKeys, type ApiKey } from '../../../../src/resources/api-key.ts';
import { apiVersion } from '../../../../src/resources/group.ts';
import { KeyRing, type KeyChain } from '../../../../src/gateway/auth/key-ring.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import { aSandbox } from '../../../support/builders.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const anApiKey = (uid: string): ApiKey => ({
  apiVersion,
  kind: apiKeys.kind,
  metadata: {
    namespace: 'default',
    name: uid,
    uid,
    resourceVersion: '1',
    generation: 1,
    creationTimestamp: '2026-01-01T00:00:00Z',
  },
  spec: { owner: 'alice', role: 'user', sha256: '' },
});

/** Keys that open what the test says. */
class Bench {
  readonly clock = new VirtualClock();
  readonly openings = new Map<string, KeyChain>();
  readonly asked: string[] = [];
  readonly ended: string[] = [];
  readonly listeners = new Listeners<Sandbox | undefined>();
  /** Says that an API key has changed or gone. */
  apiKeyChanged: (uid: string) => void = () => undefined;
  readonly ring = new KeyRing({
    cache: {
      store: new IndexedStore<ApiKey>({}),
      hasSynced: true,
      addHandler: (handler) => {
        this.apiKeyChanged = (uid) => handler.deleted?.(anApiKey(uid), 'observed');
        return () => undefined;
      },
    },
    namespace: 'default',
    clock: this.clock,
  });
  readonly sandbox = aSandbox();
  readonly sessions = new OpenSessions({
    keys: {
      opening: (_sandbox, key) => {
        this.asked.push(key);
        const chain = this.openings.get(key);
        return chain !== undefined && chain.expiresAtMs > this.clock.now() ? chain : undefined;
      },
    },
    ring: this.ring,
    feed: { on: (name, listener) => this.listeners.on(name, listener) },
    find: () => this.sandbox,
  });

  constructor() {
    this.ring.open();
  }

  opens(key: string, apiKeyUids: readonly string[] = [], expiresAtMs = Infinity): this {
    this.openings.set(key, {
      role: 'user',
      scopes: new Set(apiKeyScopes),
      templates: undefined,
      uids: apiKeyUids,
      expiresAtMs,
      validUntilMs: expiresAtMs,
      hasSession: false,
      holder: { key: 'key-1' },
    });
    return this;
  }

  begin(...keys: string[]) {
    return this.sessions.begin(this.sandbox, keys, () => this.ended.push(keys.join()));
  }
}

let bench: Bench;
beforeEach(() => (bench = new Bench()));
afterEach(() => bench.sessions.close());

it('leaves nothing of what is over, and begins nothing with a key that is wrong', () => {
  bench.opens('a').opens('b', ['x'], Infinity);
  const [one, two, both] = [bench.begin('a'), bench.begin('a'), bench.begin('a', 'b')];
  expect(bench.sessions.size).toBe(2);
  expect(bench.begin('a', 'wrong')).toBeUndefined();
  expect(bench.begin('wrong')).toBeUndefined();
  for (const over of [one, two, both, one]) over?.();
  expect([bench.sessions.size, bench.listeners.size, bench.ended]).toEqual([0, 0, []]);
});

it('ends all that a key has opened once it opens nothing more, and no other', () => {
  bench.opens('a', ['x', 'maker']).opens('b', ['y']);
  bench.begin('a');
  bench.begin('a');
  const other = bench.begin('b');
  bench.openings.delete('a');
  bench.apiKeyChanged('maker');
  expect(bench.ended).toEqual(['a', 'a']);
  bench.openings.delete('b');
  bench.apiKeyChanged('maker');
  bench.apiKeyChanged('z');
  expect(bench.ended).toEqual(['a', 'a']);
  bench.listeners.call(bench.sandbox.metadata.name, bench.sandbox);
  expect([bench.ended, bench.sessions.size]).toEqual([['a', 'a', 'b'], 0]);
  other?.();
});

it('asks nothing about the keys of others when a key changes', () => {
  for (let index = 0; index < 1000; index++)
    bench.opens(`k${index}`, [`u${index}`]).begin(`k${index}`);
  bench.asked.length = 0;
  bench.apiKeyChanged('u7');
  expect(bench.asked).toEqual(['k7']);
});

it('ends what is open within a second of the first expiry in a chain, and keeps no timer without one', async () => {
  const now = bench.clock.now();
  bench.opens('soon', ['x'], now + 5000).opens('never', ['y']);
  bench.begin('soon');
  bench.begin('never');
  await bench.clock.advance(4900);
  expect(bench.ended).toEqual([]);
  await bench.clock.advance(1100);
  expect(bench.ended).toEqual(['soon']);
  bench.opens('later', ['z'], now + 60_000);
  bench.begin('later');
  // With kubectl.
  bench.opens('later', ['z'], now + 8000);
  bench.apiKeyChanged('z');
  await bench.clock.advance(3100);
  expect(bench.ended).toEqual(['soon', 'later']);
});

it('ends what is open at a sandbox that is deleted', () => {
  bench.opens('a').begin('a');
  bench.listeners.call(bench.sandbox.metadata.name, undefined);
  expect([bench.ended, bench.sessions.size]).toEqual([['a'], 0]);
});

it('keeps no timer once everything is over that an expiring key has opened', async () => {
  bench.opens('a', ['x'], bench.clock.now() + 3_600_000);
  const over = bench.begin('a');
  await bench.clock.advance(5_000);
  expect(bench.clock.timers).toBe(1);
  over?.();
  await bench.clock.advance(2_000);
  expect({ timers: bench.clock.timers, ended: bench.ended }).toEqual({ timers: 0, ended: [] });
});
