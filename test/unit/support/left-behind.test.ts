import { EventEmitter } from 'node:events';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { sleep } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { Shares } from '@conversation-operator/base/shares';
import { BoundedClient, Deadline } from '@conversation-operator/http/client/bounded-client';
import { CircuitBreakers } from '@conversation-operator/http/limits/circuit-breakers';
import { directly } from '@conversation-operator/outward/outward';
import type { Response } from 'express';
import { Pool } from 'undici';
import { roundTrip } from '../../../packages/kube/src/round-trip.ts';
import { Transport } from '@conversation-operator/kube/transport';
import { withDeadline } from '../../../packages/object-store/src/calls.ts';
import { createS3Store } from '@conversation-operator/object-store/s3-store';
import { Transfer } from '../../../src/gateway/callback-server/transfer.ts';
import { newPool } from '../../../src/gateway/limits/pools.ts';
import { AgentReads, untilLeft } from '../../../src/gateway/history/agent-reads.ts';
import { HistoryReads } from '../../../src/gateway/history/history-reads.ts';
import { aConversation, noon } from '../../support/builders.ts';
import { startJsonHost, type JsonHost } from '../../support/json-host.ts';
import { nothing, outliving, type Outliving } from '../../support/left-behind.ts';

let server: JsonHost;
beforeAll(async () => {
  server = await startJsonHost(() => ({ body: {} }));
});
afterAll(() => server.close());

/** Work that throws where `fails` is true. */
const finish = (fails: boolean): void => {
  if (fails) throw new Error('the work fails');
};

/** The same, later. */
const finishLater = (fails: boolean): Promise<void> => Promise.resolve().then(() => finish(fails));

/** Work with a clock or a signal that outlive it. */
const works: Readonly<Record<string, (given: Outliving, fails: boolean) => Promise<unknown>>> = {
  'a delay': async ({ clock, signal }, fails) => {
    const slept = sleep(clock, 1_000, signal);
    await clock.advance(1_000);
    await slept;
    finish(fails);
  },
  'a wait for a share': async ({ clock, signal }, fails) => {
    const waiting = { clock, total: 1, perOwner: 1, maxMs: fails ? 1_000 : 60_000 };
    const refuse = () => new Error('no room');
    const shares = new Shares({ total: 1, perOwner: 1, waiting, refuse });
    const first = shares.take({ owner: 'alice' });
    const second = shares.wait({ owner: 'bob' }, { signal });
    if (fails) await Promise.all([second, clock.advance(1_000)]);
    first();
    (await second)();
    expect([shares.inUse, shares.waiting, shares.size]).toEqual([0, 0, 0]);
  },
  'a call within a deadline': ({ clock, signal }, fails) =>
    withDeadline({ clock, signal, timeoutMs: 1_000, subject: 'The store' }, () =>
      finishLater(fails),
    ),
  'a deadline of a call': ({ signal }, fails) => {
    const deadline = new Deadline(1_000, signal);
    deadline.end();
    return finishLater(fails);
  },
  'a round trip to the API server': async ({ signal }, fails) => {
    const dispatcher = new Pool(server.url);
    try {
      const trip = { dispatcher, method: 'GET', path: '/', headers: {}, signal } as const;
      for await (const _chunk of (await roundTrip(trip)).body) finish(fails);
    } finally {
      await dispatcher.close();
    }
  },
  'a bounded call': async ({ signal }, fails) => {
    const client = new BoundedClient({
      connectTimeoutMs: 1_000,
      keepAlive: { readsMs: 4_500, writesMs: 3_000 },
    });
    const url = new URL(server.url);
    try {
      await client.send({ method: 'GET', url, timeoutMs: 60_000, signal }, fails ? 1 : 1_000);
    } finally {
      await client.close();
    }
  },
  'a call of the API server': async ({ clock, signal }, fails) => {
    const transport = new Transport({
      connection: { server: server.url },
      clock,
      random: Math.random,
      logger: silentLogger,
    });
    const call = { verb: 'get', resource: 'pods', method: 'GET', path: '/', signal } as const;
    try {
      await transport.call({ ...call, ...(fails ? { maxResponseBytes: 1 } : {}) });
    } finally {
      await transport.close();
    }
  },
  'a watch of the API server': async ({ clock, signal }, fails) => {
    const transport = new Transport({
      connection: { server: server.url },
      clock,
      random: Math.random,
      logger: silentLogger,
    });
    const call = { verb: 'watch', resource: 'pods', method: 'GET', path: '/', signal } as const;
    try {
      for await (const _chunk of await transport.stream(call)) finish(fails);
    } finally {
      await transport.close();
    }
  },
  'a call of the object store': async ({ clock, signal }, fails) => {
    const store = createS3Store({
      outward: directly,
      endpoint: server.url,
      region: 'eu-test-1',
      bucket: 'bucket',
      clock,
      credentials: () => Promise.resolve({ accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 's3cret' }),
    });
    try {
      if (fails) await store.list({ prefix: 'a/', signal });
      else await store.put('a/b', Buffer.from('{}'), { signal });
    } finally {
      await store.close();
    }
  },
  'a transfer of git': async ({ clock, signal }, fails) => {
    const transfer = new Transfer({ idleMs: 1_000, totalMs: 2_000 }, { clock, signal });
    const request = new IncomingMessage(new Socket());
    request.push('x');
    request.push(null);
    for await (const _piece of transfer.arriving(request)) if (fails) break;
    transfer.end();
    await clock.advance(10_000);
    expect(transfer.signal.aborted).toBe(false);
    finish(fails);
  },
  'a read of an agent': async ({ clock, signal }, fails) => {
    const eventReads = newPool('eventReads', clock);
    const reads = new AgentReads({
      clock,
      places: eventReads,
      silentAgents: new CircuitBreakers({ clock }),
      firstByteMs: 10_000,
    } as unknown as ConstructorParameters<typeof AgentReads>[0]);
    const agent = {
      endpoint: { baseUrl: server.url, sessionKey: '' },
      id: 'c-1',
      owner: 'alice',
      sandbox: 'sbx-1',
      container: 'container-1',
    };
    try {
      await reads.ask(
        agent,
        signal,
        () => finishLater(fails),
        () => undefined,
      );
    } finally {
      expect([eventReads.inUse, eventReads.size]).toEqual([0, 0]);
    }
  },
  'a read of an archive': async ({ clock, signal }, fails) => {
    const historyReads = newPool('historyReads', clock);
    const reads = new HistoryReads({
      clock,
      places: historyReads,
      archives: {},
    } as unknown as ConstructorParameters<typeof HistoryReads>[0]);
    const archive = { head: 'head-1', events: 1, bytes: 1, time: noon };
    const conversation = aConversation({ status: { archive } });
    try {
      await reads.archive(conversation, signal, () => finishLater(fails));
    } finally {
      expect([historyReads.inUse, historyReads.size]).toEqual([0, 0]);
    }
  },
  'work until a client leaves': async (_given, fails) => {
    const response = Object.assign(new EventEmitter(), { destroyed: false });
    try {
      await untilLeft(response as unknown as Response, () => finishLater(fails));
    } finally {
      expect(response.listenerCount('close')).toBe(0);
    }
  },
};

describe.each(Object.entries(works))('%s', (_name, work) => {
  it('leaves nothing behind that has ended well', async () => {
    const given = outliving();
    await work(given, false);
    expect(given.left()).toEqual(nothing);
  });

  it('leaves nothing behind that has failed', async () => {
    const given = outliving();
    await expect(work(given, true)).rejects.toThrow();
    expect(given.left()).toEqual(nothing);
  });
});
