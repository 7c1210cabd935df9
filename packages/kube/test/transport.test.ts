import { sleep, systemClock } from '@conversation-operator/base/clock';
import { ApiError, TransportError } from '../src/errors.ts';
import { Transport, type TransportRequest } from '../src/transport.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { eventually } from '../../../test/support/eventually.ts';
import { HeldClock } from '../../../test/support/held-clock.ts';
import {
  aTransport,
  truncated,
  json,
  reset,
  stall,
  startApiStub,
  status,
  type Answering,
} from './api-stub.ts';
import { recordedMetrics } from './recorded-metrics.ts';

const read: TransportRequest = {
  verb: 'get',
  resource: 'things',
  method: 'GET',
  path: '/things/one',
};
const write: TransportRequest = {
  verb: 'create',
  resource: 'things',
  method: 'POST',
  path: '/things',
  body: { name: 'one' },
};
const fine = json({ fine: true });

const failureOf = async (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

let cleanUp: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of cleanUp.splice(0)) await close();
  cleanUp = [];
});

async function transportTo(
  answers: readonly Answering[],
  options: Parameters<typeof aTransport>[1] = {},
) {
  const made = await aTransport(answers, options);
  cleanUp.push(made.close);
  return made;
}

describe('Transport', () => {
  it.each([
    ['a lost connection', reset],
    ['a truncated answer', truncated('{"fine":')],
    ['an answer that is not JSON', ((response) => response.end('<html>')) satisfies Answering],
    ['500', status(500, 'InternalError')],
    ['503', status(503, 'ServiceUnavailable')],
    ['429', status(429, 'TooManyRequests')],
  ])('repeats a read after %s', async (_failure, answer) => {
    const { stub, transport } = await transportTo([answer, answer, fine]);
    expect(await transport.call(read)).toEqual({ fine: true });
    expect(stub.requests).toHaveLength(3);
  });

  it.each([
    ['404', status(404, 'NotFound')],
    ['409', status(409, 'Conflict')],
    ['410', status(410, 'Expired')],
  ])('does not repeat a read after %s', async (_failure, answer) => {
    const { stub, transport } = await transportTo([answer, fine]);
    expect(await failureOf(transport.call(read))).toBeInstanceOf(ApiError);
    expect(stub.requests).toHaveLength(1);
  });

  it.each([
    ['a lost connection', reset],
    ['a truncated answer', truncated('{"fine":')],
  ])(
    'does not repeat a write after %s, and says that its outcome is unknown',
    async (_failure, answer) => {
      const { stub, transport } = await transportTo([answer, fine]);
      const error = await failureOf(transport.call(write));
      expect(error).toBeInstanceOf(TransportError);
      expect(error).toMatchObject({ sent: true });
      expect(stub.requests).toHaveLength(1);
    },
  );

  it.each(['POST', 'PUT', 'PATCH', 'DELETE'] as const)(
    'does not repeat a %s after 500',
    async (method) => {
      const { stub, transport } = await transportTo([status(500, 'InternalError'), fine]);
      expect(await failureOf(transport.call({ ...write, method }))).toMatchObject({
        status: 500,
        reason: 'InternalError',
      });
      expect(stub.requests).toHaveLength(1);
    },
  );

  it('repeats a write after 429, not before the server wants it', async () => {
    const { stub, transport } = await transportTo([
      status(429, 'TooManyRequests', { 'retry-after': '1' }),
      fine,
    ]);
    const began = performance.now();
    expect(await transport.call(write)).toEqual({ fine: true });
    expect(performance.now() - began).toBeGreaterThan(950);
    expect(stub.requests.map(({ body }) => body)).toEqual([{ name: 'one' }, { name: 'one' }]);
  });

  it.each<[string | undefined, number | undefined]>([
    ['2', 2_000],
    ['0', 0],
    [undefined, undefined],
    ['Wed, 21 Oct 2026 07:28:00 GMT', undefined],
    ['1.5', undefined],
    ['-1', undefined],
  ])('reads the Retry-After %j as %j ms', async (value, expected) => {
    const headers: Record<string, string> = value === undefined ? {} : { 'retry-after': value };
    const { transport } = await transportTo([status(400, 'BadRequest', headers)]);
    const error = await failureOf(transport.call(write));
    expect((error as ApiError).retryAfterMs).toBe(expected);
  });

  it.each<[object, number | undefined, number | undefined]>([
    [{ details: { retryAfterSeconds: 3 } }, undefined, 3_000],
    [{ details: { retryAfterSeconds: 3 } }, 5_000, 5_000],
    [{ details: {} }, undefined, undefined],
    [{}, 0, 0],
  ])('takes a Status %j with a header of %j ms as %j ms', (body, retryAfterMs, expected) => {
    expect(new ApiError(429, body, { retryAfterMs }).retryAfterMs).toBe(expected);
  });

  it('does not wait for longer than the deadline allows', async () => {
    const { stub, transport } = await transportTo([
      status(429, 'TooManyRequests', { 'retry-after': '60' }),
      fine,
    ]);
    expect(await failureOf(transport.call(write))).toMatchObject({
      status: 429,
      retryAfterMs: 60_000,
    });
    expect(stub.requests).toHaveLength(1);
  });

  it('gives up after five attempts', async () => {
    const { stub, transport } = await transportTo([reset]);
    expect(await failureOf(transport.call(read))).toBeInstanceOf(TransportError);
    expect(stub.requests).toHaveLength(5);
  });

  it('repeats a write that found no server, until there is one', async () => {
    const gone = await startApiStub([fine]);
    await gone.close();
    const transport = new Transport({
      connection: { server: gone.url },
      clock: systemClock,
      random: () => 0,
      logger: silentLogger,
    });
    cleanUp.push(() => transport.close());
    const call = transport.call(write);
    await sleep(systemClock, 60);
    const stub = await startApiStub([fine], gone.port);
    cleanUp.push(() => stub.close());
    expect(await call).toEqual({ fine: true });
    expect(stub.requests).toHaveLength(1);
  });

  it('says that nothing was sent where there is no server', async () => {
    const stub = await startApiStub([fine]);
    await stub.close();
    const transport = new Transport({
      connection: { server: stub.url },
      clock: systemClock,
      random: () => 0,
      logger: silentLogger,
      deadlineMs: 100,
    });
    cleanUp.push(() => transport.close());
    expect(await failureOf(transport.call(write))).toMatchObject({
      name: 'TransportError',
      sent: false,
    });
  });

  it.each([
    ['says nothing', stall],
    [
      'stops in the middle of its answer',
      ((response) => response.write('{"fine":')) satisfies Answering,
    ],
  ])('ends a call at its deadline when the server %s', async (_what, answer) => {
    const clock = new HeldClock(120);
    const { stub, transport } = await transportTo([answer], { clock });
    const failure = failureOf(transport.call({ ...read, deadlineMs: 120 }));
    await eventually('the request arrives', () => stub.requests.length === 1);
    clock.pass();
    expect(await failure).toMatchObject({
      name: 'TransportError',
      sent: true,
      cause: { message: 'no response within 120 ms' },
    });
  });

  it('takes an answer that comes slowly, as long as it comes in time', async () => {
    const { transport } = await transportTo([
      (response) => {
        const pieces = ['{"fi', 'ne"', ':tru', 'e}'];
        const next = (): void => {
          const piece = pieces.shift();
          if (piece === undefined) response.end();
          else response.write(piece, () => setTimeout(next, 20));
        };
        next();
      },
    ]);
    expect(await transport.call(read)).toEqual({ fine: true });
  });

  it('ends a call when its caller does', async () => {
    const { stub, transport } = await transportTo([stall]);
    const abort = new AbortController();
    const failure = failureOf(transport.call({ ...write, signal: abort.signal }));
    await eventually('the request arrives', () => stub.requests.length === 1);
    abort.abort(new Error('no more interest'));
    expect(await failure).toMatchObject({
      name: 'TransportError',
      sent: true,
      cause: { message: 'no more interest' },
    });
    expect(await failureOf(transport.call({ ...write, signal: abort.signal }))).toMatchObject({
      name: 'TransportError',
      sent: false,
    });
  });

  it('asks the gate when a request leaves the queue for a connection, not when it is called', async () => {
    let first: (() => void) | undefined;
    const { stub, transport } = await transportTo(
      [(response, request) => (first = () => fine(response, request)), fine],
      { connections: 1 },
    );
    const order: string[] = [];
    const calls = ['one', 'two'].map((name) =>
      transport.call({ ...write, beforeSend: () => order.push(name) }),
    );
    await eventually('the first request arrives', () => first !== undefined);
    await sleep(systemClock, 50);
    expect(order).toEqual(['one']);
    first?.();
    await Promise.all(calls);
    expect(order).toEqual(['one', 'two']);
    expect(stub.requests).toHaveLength(2);
  });

  it('sends nothing when the gate refuses, throws what it threw, and harms no other call', async () => {
    const { stub, transport } = await transportTo([fine]);
    const refusal = new Error('not leading');
    const beforeSend = () => {
      throw refusal;
    };
    expect(await failureOf(transport.call({ ...write, beforeSend }))).toBe(refusal);
    expect(stub.requests).toHaveLength(0);
    expect(await transport.call(read)).toEqual({ fine: true });
  });

  it('never sends a request whose call ended while it was queued', async () => {
    let first: (() => void) | undefined;
    const { stub, transport } = await transportTo(
      [(response, request) => (first = () => fine(response, request)), fine],
      { connections: 1 },
    );
    const busy = transport.call(read);
    await eventually('the first request arrives', () => first !== undefined);
    expect(await failureOf(transport.call({ ...write, deadlineMs: 50 }))).toMatchObject({
      sent: false,
    });
    first?.();
    await busy;
    await transport.call(read);
    expect(stub.requests.map(({ method }) => method)).toEqual(['GET', 'GET']);
  });

  it('keeps connections and bounds how many there are', async () => {
    const { stub, transport } = await transportTo(
      [(response, request) => setTimeout(() => fine(response, request), 5)],
      { connections: 2 },
    );
    await Promise.all(Array.from({ length: 20 }, () => transport.call(read)));
    await transport.call(read);
    expect(stub.requests).toHaveLength(21);
    expect(stub.connections).toBe(2);
  });

  it('takes the text of an answer that is no Status for its message', async () => {
    const { transport } = await transportTo([(response) => response.writeHead(403).end('go away')]);
    expect(await failureOf(transport.call(read))).toMatchObject({
      status: 403,
      reason: '',
      message: 'API server answered 403: go away',
    });
  });

  it('refuses an answer that is too large', async () => {
    const { transport } = await transportTo([json('x'.repeat(2000))], { maxResponseBytes: 1000 });
    expect(await failureOf(transport.call(write))).toMatchObject({
      message: 'the response is larger than 1000 bytes',
    });
  });

  it('asks for the token before every request, and keeps the path in front of /api', async () => {
    const stub = await startApiStub([status(500, 'InternalError'), fine]);
    let asked = 0;
    const transport = new Transport({
      connection: {
        server: `${stub.url}/clusters/one/`,
        token: () => Promise.resolve(`token-${++asked}`),
      },
      clock: systemClock,
      random: () => 0,
      logger: silentLogger,
    });
    cleanUp.push(
      () => transport.close(),
      () => stub.close(),
    );
    await transport.call(read);
    expect(stub.requests.map(({ path, headers }) => [path, headers.authorization])).toEqual([
      ['/clusters/one/things/one', 'Bearer token-1'],
      ['/clusters/one/things/one', 'Bearer token-2'],
    ]);
  });

  it('sends nothing without credentials', async () => {
    const stub = await startApiStub([fine]);
    const connection = {
      server: stub.url,
      token: () => Promise.reject(new Error('plugin failed')),
    };
    const transport = new Transport({
      connection,
      clock: systemClock,
      random: () => 0,
      logger: silentLogger,
      deadlineMs: 100,
    });
    cleanUp.push(
      () => transport.close(),
      () => stub.close(),
    );
    expect(await failureOf(transport.call(write))).toMatchObject({
      name: 'TransportError',
      sent: false,
      cause: { message: 'plugin failed' },
    });
    expect(stub.requests).toHaveLength(0);
  });

  it('counts attempts by verb, kind and status', async () => {
    const metrics = recordedMetrics();
    const { transport } = await transportTo([reset, status(500, 'InternalError'), fine], {
      metrics,
    });
    await transport.call(read);
    const counts = (await metrics.apiCalls.get()).values.map(
      ({ labels, value }) => [labels.verb, labels.resource, labels.status, value] as unknown[],
    );
    expect(counts).toEqual([
      ['get', 'things', '0', 1],
      ['get', 'things', '500', 1],
      ['get', 'things', '200', 1],
    ]);
  });

  it('streams past the deadline, until its caller has enough', async () => {
    let ended = 0;
    let sayLate = () => undefined as unknown;
    const clock = new HeldClock(1_000);
    const answer: Answering = (response) => {
      response.on('close', () => ended++);
      response.writeHead(200);
      response.flushHeaders();
      sayLate = () => response.write('late');
    };
    const { transport } = await transportTo([answer], { clock });
    const abort = new AbortController();
    const stream = await transport.stream({ ...read, deadlineMs: 1_000, signal: abort.signal });
    clock.pass();
    sayLate();
    const heard: string[] = [];
    const failure = failureOf(
      (async () => {
        for await (const chunk of stream) {
          heard.push(Buffer.from(chunk).toString());
          abort.abort(new Error('enough'));
        }
      })(),
    );
    expect(await failure).toMatchObject({ name: 'TransportError', cause: { message: 'enough' } });
    await eventually('the connection ends', () => ended === 1);
    expect(heard).toEqual(['late']);
  });

  it('ends the connection of a stream that is not read to its end', async () => {
    let ended = 0;
    const { transport } = await transportTo([
      (response) => {
        response.on('close', () => ended++);
        response.write('first');
      },
    ]);
    for await (const _chunk of await transport.stream({
      ...read,
      signal: new AbortController().signal,
    }))
      break;
    await eventually('the connection ends', () => ended === 1);
  });

  it('keeps no connection of a watch that has ended, so that watches never have more than one each', async () => {
    let open = 0;
    const { stub, transport } = await transportTo([
      (response) => {
        open++;
        response.socket?.once('close', () => open--);
        response.end('{}\n');
      },
    ]);
    for (let round = 0; round < 5; round++) {
      const watch = await transport.stream({
        ...read,
        verb: 'watch',
        signal: new AbortController().signal,
      });
      for await (const _chunk of watch) continue;
    }
    await eventually('every connection is closed', () => open === 0);
    expect(stub.connections).toBe(5);
  });

  it('holds a fast sender back when its stream is read slowly', async () => {
    let unsent = 0;
    const chunk = Buffer.alloc(262_144);
    const { transport } = await transportTo([
      (response) => {
        for (let index = 0; index < 400; index++) response.write(chunk);
        setTimeout(() => {
          unsent = response.writableLength;
          response.end();
        }, 150);
      },
    ]);
    let bytes = 0;
    for await (const part of await transport.stream({
      ...read,
      signal: new AbortController().signal,
    })) {
      if (bytes === 0) await sleep(systemClock, 200);
      bytes += part.byteLength;
    }
    expect(bytes).toBe(400 * chunk.byteLength);
    expect(unsent).toBeGreaterThan(50_000_000);
  });
});
