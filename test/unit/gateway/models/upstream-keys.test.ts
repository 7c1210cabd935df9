import { silentLogger } from '@conversation-operator/base/logger';
import {
  UpstreamKeys,
  type UpstreamRequest,
} from '../../../../src/gateway/models/upstream-keys.ts';
import type { ExpectedWait } from '../../../../src/gateway/models/upstream-key.ts';
import type { KeyLimits } from '../../../../src/models/key-limits.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { aConversation } from '../../../support/builders.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

class Bench {
  readonly clock = new VirtualClock();
  readonly told: ExpectedWait[] = [];
  readonly keys: UpstreamKeys;

  constructor(...limits: readonly KeyLimits[]) {
    this.keys = new UpstreamKeys({
      limits,
      clock: this.clock,
      random: () => 0,
      logger: silentLogger,
      metrics: createMetrics(),
      waits: { tell: (_conversation, expected) => void this.told.push(expected) },
    });
  }

  /** A call of which at most one may be under way, and whether it is. */
  async call(request: Partial<UpstreamRequest> = {}) {
    const call = this.keys.call({
      conversation: aConversation(),
      credential: 'team',
      key: 'sk-1',
      host: 'api.example',
      model: 'large',
      bodyBytes: 400,
      maxOutputTokens: 100,
      signal: new AbortController().signal,
      ...request,
    });
    const state = { call, isUnderWay: false, error: undefined as unknown };
    call.begin().then(
      () => {
        state.isUnderWay = true;
      },
      (error: unknown) => {
        state.error = error;
      },
    );
    await this.clock.settle();
    return state;
  }
}

const one: KeyLimits = { credential: 'team', calls: 1 };

it.each<[string, Partial<UpstreamRequest>, boolean]>([
  ['the same key', {}, false],
  ["an owner's own key of that name", { key: 'sk-of-alice' }, true],
  ['the same credential at another host', { host: 'eu.api.example' }, true],
  ['another credential', { credential: 'other' }, true],
  ['no credential', { credential: undefined, key: undefined }, true],
])('the limits of one call at once hold up a call with %s: %o', async (_what, request, goes) => {
  const bench = new Bench(one);
  await bench.call();
  expect((await bench.call(request)).isUnderWay).toBe(goes);
});

it('calls without a credential share a rest at their host', async () => {
  const bench = new Bench();
  const none = { credential: undefined, key: undefined };
  const { call } = await bench.call(none);
  void call.refused({ restMs: 9_000 });
  expect((await bench.call(none)).isUnderWay).toBe(false);
  expect((await bench.call({ ...none, host: 'b.example' })).isUnderWay).toBe(true);
});

it('a model without room holds up no calls of other models, also under limits of the key', async () => {
  for (const limits of [[], [one]]) {
    const bench = new Bench(...limits);
    const { call } = await bench.call();
    void call.refused({ restMs: 60_000 });
    expect((await bench.call()).isUnderWay).toBe(false);
    const other = await bench.call({ model: 'small' });
    expect(other.isUnderWay).toBe(true);
    other.call.end();
    await bench.clock.advance(60_000);
    expect((await bench.call({ model: 'small' })).isUnderWay).toBe(limits.length === 0);
  }
});

it('a call whose agent leaves while it waits for the limits of the key stops to be one of its model', async () => {
  const bench = new Bench(one);
  const first = await bench.call();
  const leaving = new AbortController();
  const second = await bench.call({ model: 'small', signal: leaving.signal });
  leaving.abort();
  await bench.clock.settle();
  expect(second.error).toBe(leaving.signal.reason);
  second.call.end();
  first.call.end();
  await bench.clock.advance(121_000);
  await bench.call({ model: 'third' });
  expect(bench.keys.size).toBe(2);
});

it('calls that wait take half of the room for calls, and an owner half of that', async () => {
  const bench = new Bench();
  const { call } = await bench.call();
  void call.refused({ restMs: 60_000 });
  const mebibyte = 1_048_576;
  const ask = (owner: string, bodyBytes: number, signal = new AbortController().signal) =>
    bench.call({ conversation: aConversation({ spec: { owner } }), bodyBytes, signal });
  const leaving = new AbortController();
  const waits = await ask('alice', 31 * mebibyte, leaving.signal);
  expect(waits.error).toBeUndefined();
  expect((await ask('alice', 2 * mebibyte)).error).toMatchObject({
    kind: 'busy',
    retryAfterSeconds: 60,
  });
  expect((await ask('bob', 31 * mebibyte)).error).toBeUndefined();
  expect((await ask('carol', 3 * mebibyte)).error).toMatchObject({ kind: 'busy' });
  leaving.abort();
  await bench.clock.settle();
  expect((await ask('carol', 3 * mebibyte)).error).toBeUndefined();
});

it('small calls that wait are at most half of all', async () => {
  const bench = new Bench();
  const { call } = await bench.call();
  void call.refused({ restMs: 60_000 });
  const states = [];
  for (let number = 0; number < 1_200; number++)
    states.push(
      await bench.call({ conversation: aConversation({ spec: { owner: `o-${number % 4}` } }) }),
    );
  expect(states.filter(({ error }) => error === undefined).length).toBe(998);
});

it('many names of models take a bounded part of the memory, and lift no limit', async () => {
  const bench = new Bench({ credential: 'team', calls: 2_000 });
  for (let number = 0; number < 2_000; number++) await bench.call({ model: `m-${number}` });
  expect(bench.keys.size).toBeLessThanOrEqual(1_001);
  expect((await bench.call({ model: 'm-0' })).isUnderWay).toBe(false);
});

it('a wait that is too long is refused with a time, in words of its reason', async () => {
  const bench = new Bench(one);
  await bench.call();
  const second = await bench.call();
  await bench.clock.advance(120_000);
  expect(second.error).toMatchObject({
    kind: 'busy',
    retryAfterSeconds: 10,
    message: expect.stringContaining('The limits of the key') as string,
  });
});

it('the waits of one call end together after two minutes, with the time to try again', async () => {
  const bench = new Bench();
  const { call } = await bench.call();
  let after: number | undefined = undefined;
  for (let rests = 0; after === undefined; rests++) {
    expect(rests).toBeLessThan(3);
    after = await bench.clock.run(call.refused({ restMs: 50_000 }));
  }
  expect([bench.clock.monotonic(), after]).toEqual([120_000, 30]);
  expect(bench.told[0]).toEqual({ reason: 'RateLimit', ms: 50_000 });
});

it.each<[string, Parameters<Awaited<ReturnType<Bench['call']>>['call']['settle']>[0], number]>([
  ['was not made', { kind: 'not-made' }, 0],
  ['has failed', { kind: 'failed' }, 0],
  ['broke off', { kind: 'broken' }, 20],
  [
    'was answered',
    {
      kind: 'answered',
      usage: { inputTokens: 40, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 20 },
    },
    6,
  ],
])('a call that %s counts with the tokens that it has used', async (_what, outcome, seconds) => {
  const bench = new Bench({ credential: 'team', tokensPerMinute: 600 });
  const { call } = await bench.call();
  call.settle(outcome);
  call.settle({ kind: 'broken' });
  call.end();
  const second = await bench.call({ bodyBytes: 2_400, maxOutputTokens: 0 });
  if (seconds > 0) await bench.clock.runUntil(() => second.isUnderWay);
  expect([second.isUnderWay, bench.clock.monotonic() / 1_000]).toEqual([
    true,
    expect.closeTo(seconds, 1) as number,
  ]);
});

it('forgets keys whose calls are over, and no other', async () => {
  const bench = new Bench();
  const kept = await bench.call({ key: 'kept' });
  for (let number = 0; number < 100; number++) {
    const { call } = await bench.call({ key: `sk-${number}` });
    call.end();
    await bench.clock.advance(60_000);
  }
  expect(bench.keys.size).toBeLessThanOrEqual(4);
  kept.call.end();
});
