import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { eventually } from '../../support/eventually.ts';
import { HeldClock } from '../../support/held-clock.ts';
import { untilTaken, type Behaviour } from '../../support/models/charging-provider.ts';
import {
  apiNames,
  askModel,
  maxOf,
  openModel,
  read,
  type Access,
  type AgentAnswer,
  type ApiName,
} from '../../support/models/agent-call.ts';
import { RelayScene } from '../../support/models/relay-scene.ts';

const [idleMs, totalMs] = [600_000, 3_600_000];
let clock: HeldClock;
let scene: RelayScene;
let alice: Access;
beforeEach(async () => {
  clock = new HeldClock(idleMs, totalMs);
  scene = await RelayScene.start({ clock });
  scene.budget(1);
  alice = scene.conversation();
});
afterEach(async () => {
  // Whatever a test has done: its calls have left no timer, and the provider serves nobody.
  expect(clock.held).toBe(0);
  await scene[Symbol.asyncDispose]();
  expect(scene.provider.underWay).toBe(0);
});

/** All calls are settled once, nothing is held, and the provider has charged no more than was counted. */
async function expectSettled(): Promise<number> {
  const spent = await scene.spentInAll();
  expect(spent).toBeGreaterThanOrEqual(scene.provider.chargedNanos);
  expect(scene.excesses).toEqual([]);
  return spent;
}
const stream = (api: ApiName, fields = {}): Promise<AgentAnswer> =>
  askModel(alice, api, { isStream: true, fields });
const behave = (behaviour: Behaviour): void => {
  scene.provider.behave = () => behaviour;
};
const events = (response: ServerResponse): ServerResponse =>
  response.writeHead(200, { 'content-type': 'text/event-stream' });

/** Usages with counts that cannot be, under the names of all four APIs. */
const usages: readonly object[] = [
  {},
  ...[0, -10, 1e308, 0.5, '1', true, [1], { tokens: 1 }].map((count) => ({
    prompt_tokens: count,
    completion_tokens: count,
    input_tokens: count,
    output_tokens: count,
    promptTokenCount: count,
    candidatesTokenCount: count,
  })),
  {
    prompt_tokens: 1,
    prompt_tokens_details: { cached_tokens: 5 },
    completion_tokens: 1,
    input_tokens: 1,
    input_tokens_details: { cached_tokens: 5 },
    cache_read_input_tokens: -5,
    output_tokens: 1,
    promptTokenCount: 1,
    cachedContentTokenCount: 5,
  },
];
/** Bytes before the connection breaks, and whether another event can follow them. */
const breaks: readonly (readonly [text: string, isTold: boolean])[] = [
  ['data: {"a":1}\n\n', true],
  ['', true],
  ['data: {"a":1}\n\ndata: {"cho', false],
  ['event: ping\n', false],
  ['data: {"a":"\u00c3', false],
];

describe.each(apiNames)('a stream of %s', (api) => {
  it('costs what the provider charges', async () => {
    for (const behaviour of [
      { inputTokens: 1_000, outputTokens: 40 },
      { inputTokens: 1_000, cachedTokens: 900, outputTokens: 40 },
      { inputTokens: 5, outputTokens: 0 },
      { inputTokens: 5, outputTokens: 50, parts: 2_000 },
    ]) {
      behave(behaviour);
      const got = await stream(api, maxOf(api, 50));
      expect(got).toMatchObject({ status: 200, isWhole: true });
    }
    expect(await expectSettled()).toBe(scene.provider.chargedNanos);
  });

  it('costs all that was reserved where it does not say what it has used, or lies', async () => {
    const lies = [...usages, null];
    for (const usage of lies)
      for (const isStream of [true, false]) {
        behave({ usage, inputTokens: 10, outputTokens: 50 });
        const got = await askModel(alice, api, { isStream, fields: maxOf(api, 50) });
        expect(got).toMatchObject({ status: 200, isWhole: true });
      }
    // The worst case is far above the 510,000 nanos of each call, but within reason.
    const each = (await expectSettled()) / (2 * lies.length);
    expect(each).toBeGreaterThan(4_000_000);
    expect(each).toBeLessThan(6_000_000);
  });

  it('ends at the provider within a second when the agent leaves', async () => {
    behave({ parts: 100_000, partMs: 5, outputTokens: 50 });
    const incoming = await openModel(alice, api, { isStream: true, fields: maxOf(api, 50) });
    await once(incoming, 'data');
    incoming.destroy();
    const leftMs = performance.now();
    await eventually('the end of the call', () => scene.provider.left.length === 1, 5_000);
    expect(performance.now() - leftMs).toBeLessThan(1_000);
    await eventually('the end of the work', () => scene.provider.underWay === 0, 5_000);
    await expectSettled();
  });

  it('ends at the provider when the agent leaves before the first byte', async () => {
    behave({ fault: 'hang' });
    const leaving = new AbortController();
    const call = openModel(alice, api, { isStream: true, signal: leaving.signal });
    await eventually('the call', () => scene.provider.calls.length === 1, 5_000);
    leaving.abort();
    await expect(call).rejects.toThrow('aborted');
    await eventually('the end of the call', () => scene.provider.left.length === 1, 1_000);
    await expectSettled();
  });

  it('that breaks off says so where an event can follow, and breaks off elsewhere', async () => {
    for (const [text, isTold] of breaks) {
      behave({
        respond: async (response) => {
          events(response).flushHeaders();
          if (text !== '') response.write(Buffer.from(text, 'latin1'));
          await wait(20);
          response.destroy();
        },
      });
      const got = await stream(api);
      expect([text, got.isWhole]).toEqual([text, isTold]);
      expect(got.bytes.subarray(0, text.length).toString('latin1')).toBe(text);
      const rest = got.bytes.toString('latin1').slice(text.length);
      if (isTold) expect(rest).toContain('The answer of the model has broken off.');
      else expect(rest).toBe('');
    }
    await expectSettled();
  });

  it('that never ends is ended by the limit of its time, with a reason', async () => {
    behave({ fault: 'endless', partMs: 2, outputTokens: 50 });
    const incoming = await openModel(alice, api, { isStream: true, fields: maxOf(api, 50) });
    const answer = read(incoming);
    await once(incoming, 'data');
    clock.pass();
    const { text, isWhole } = await answer;
    const told = text.includes('The answer of the model has taken too long.');
    // A part of an event may be the last that came. Then a reason would be unreadable.
    expect(told).toBe(isWhole);
    await eventually('the end of the call', () => scene.provider.left.length === 1, 1_000);
    await expectSettled();
  });

  it('of which nothing comes after the headers is ended by the limit of idle time', async () => {
    behave({
      respond: async (response) => {
        events(response).flushHeaders();
        await once(response, 'close');
      },
    });
    const incoming = await openModel(alice, api, { isStream: true });
    const answer = read(incoming);
    clock.pass();
    expect(await answer).toMatchObject({
      status: 200,
      isWhole: true,
      text: expect.stringContaining('The answer of the model has taken too long.') as string,
    });
    await expectSettled();
  });

  it('that begins with an error costs nothing, and all that was reserved after a part', async () => {
    const error = 'event: error\ndata: {"type":"error","error":{"message":"overloaded"}}\n\n';
    behave({ inputTokens: 0, respond: (response) => void events(response).end(error) });
    expect((await stream(api)).text).toBe(error);
    const part = 'event: x\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n';
    behave({ inputTokens: 0, respond: (response) => void events(response).end(part + error) });
    const first = scene.reservations.length;
    await stream(api, maxOf(api, 50));
    expect([first, scene.reservations.length]).toEqual([1, 2]);
    const spent = await expectSettled();
    expect(spent).toBeGreaterThan(4_000_000);
    expect(spent).toBeLessThan(6_000_000);
  });
});

it('counts nothing where the price is zero, and every token', async () => {
  await using free = await RelayScene.start({
    prices: { inputPerMillion: 0, outputPerMillion: 0 },
  });
  free.budget(0.000_001);
  const access = free.conversation();
  for (let index = 0; index < 3; index++)
    expect((await askModel(access, 'chat', { isStream: true })).status).toBe(200);
  expect(await free.spentInAll()).toBe(0);
  const [record] = await free.records();
  expect(record?.status?.totals).toMatchObject({ calls: 3, inputTokens: 30 });
});

it('passes the calls of tools as they are, whatever their arguments', async () => {
  const part = `data: ${JSON.stringify({
    choices: [
      {
        delta: {
          tool_calls: [
            { index: 0, function: { name: 'run', arguments: '{"a": "\u0000\u{1F600}"' } },
          ],
        },
      },
    ],
  })}\r\n\r\n`;
  const last =
    'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2}}\n\ndata: [DONE]\n\n';
  behave({ respond: (response) => void events(response).end(part + last) });
  const tools = [{ type: 'function', function: { name: 'run', parameters: {} } }];
  expect((await stream('chat', { tools })).text).toBe(part + last);
  expect(await expectSettled()).toBe(10 * 1_000 + 2 * 10_000);
});

it('reads no more than its agent does: the rest of a fast answer stays with the provider', async () => {
  let written = 0;
  const part = Buffer.from(
    `data: ${JSON.stringify({ choices: [{ delta: { content: 'x'.repeat(65_000) } }] })}\n\n`,
  );
  behave({
    respond: async (response) => {
      events(response);
      while (!response.destroyed) {
        const isTaken = response.write(part);
        written += part.length;
        if (!isTaken) await untilTaken(response);
      }
    },
  });
  const incoming = await openModel(alice, 'chat', { isStream: true });
  incoming.pause();
  const settled = async (): Promise<number> => {
    for (let before = -1; before !== written;) {
      before = written;
      await wait(300);
    }
    return written;
  };
  const first = await settled();
  // Buffers of four sockets in the kernel, and of three streams.
  expect(first).toBeLessThan(32 * 1_048_576);
  await wait(500);
  expect(await settled()).toBe(first);
  incoming.resume();
  await eventually('more', () => written > first + 10_000_000, 10_000);
  incoming.destroy();
  await eventually('the end of the call', () => scene.provider.left.length === 1, 1_000);
  await expectSettled();
});

it('is over when the sandbox is paused, and the next call is refused', async () => {
  behave({ parts: 10_000, partMs: 5, outputTokens: 50 });
  const { sandbox, ...access } = scene.conversation(2);
  const incoming = await openModel(access, 'chat', { isStream: true, fields: { max_tokens: 50 } });
  await once(incoming, 'data');
  scene.sandboxes.set({ ...sandbox, spec: { ...sandbox.spec, replicas: 0 } });
  // The processes of the sandbox die, and their connections with them.
  incoming.socket.resetAndDestroy();
  await eventually('the end of the call', () => scene.provider.left.length === 1, 1_000);
  expect((await askModel(access, 'chat')).status).toBe(401);
  await expectSettled();
});
