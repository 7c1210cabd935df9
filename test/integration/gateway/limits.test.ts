import { once } from 'node:events';
import { generateKey } from '../../../src/gateway/auth/key.ts';
import { openRaw } from '../../support/gateway/raw-http.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { TestGateway, type Answer } from '../../support/gateway/test-gateway.ts';

const me = '/api/v1/users/me';
const statuses = (answers: readonly Answer[]) => answers.map(({ status }) => status);
const many = (count: number, send: () => Promise<Answer>) =>
  Promise.all(Array.from({ length: count }, send));

describe('rate limits', () => {
  const clock = new VirtualClock();
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start({
      clock,
      rateLimits: { readsPerSecond: 20, writesPerSecond: 5, failedKeysPerMinute: 120 },
      trustedProxies: ['loopback'],
    });
  });
  afterEach(() => clock.advance(3_600_000));
  afterAll(async () => {
    const stopped = gateway.stop();
    await clock.advance(10_000);
    await stopped;
  });

  const at = (address: string) => ({ 'x-forwarded-for': address });

  describe('of an owner', () => {
    it('let a page open, and a client poll 20 times a second for ever', async () => {
      expect(new Set(statuses(await many(32, () => gateway.get(me))))).toEqual(new Set([200]));
      for (let second = 0; second < 20; second++) {
        expect(new Set(statuses(await many(20, () => gateway.get(me))))).toEqual(new Set([200]));
        await clock.advance(1000);
      }
    });

    it('say on each answer what is left, and on a refusal when to come again', async () => {
      const first = await gateway.get(me);
      expect(first.headers).toMatchObject({
        'ratelimit-policy': '"reads";q=64;w=4',
        ratelimit: '"reads";r=63;t=1',
      });
      const answers = await many(70, () => gateway.get(me));
      expect(statuses(answers).filter((status) => status === 429)).toHaveLength(7);
      expect(answers.at(-1)).toMatchObject({
        status: 429,
        json: { code: 'rate-limited' },
        headers: {
          'retry-after': '1',
          'ratelimit-policy': '"reads";q=64;w=4',
          ratelimit: '"reads";r=0;t=4',
        },
      });
      await clock.advance(1000);
      expect(await gateway.get(me)).toMatchObject({ status: 200 });
    });

    it('are shared by all its keys', async () => {
      const keys = await Promise.all(Array.from({ length: 10 }, () => gateway.issueKey('alice')));
      const answers = await Promise.all(
        keys.flatMap((key) => Array.from({ length: 7 }, () => gateway.get(me, { key }))),
      );
      expect(statuses(answers).filter((status) => status === 429)).toHaveLength(6);
      expect(await gateway.get(me, { key: gateway.bob })).toMatchObject({ status: 200 });
    });

    it('are tighter for writes, and apart from those of reads and of other owners', async () => {
      const write = (key: string) => gateway.send('DELETE', '/api/keys/none', { key });
      expect(
        statuses(await many(20, () => write(gateway.alice))).filter((status) => status === 429),
      ).toHaveLength(4);
      expect(await gateway.get(me)).toMatchObject({ status: 200 });
      expect(await write(gateway.bob)).toMatchObject({ status: 404 });
    });

    it('refuse a large body before it has come', async () => {
      await many(16, () => gateway.send('DELETE', '/api/keys/none'));
      const socket = await openRaw(gateway.port);
      // The rest of the body never comes.
      socket.write(
        `POST /api/v1/app-conversations HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.alice}\r\nContent-Type: application/json\r\nContent-Length: 983040\r\n\r\n{`,
      );
      const [text] = (await once(socket, 'data')) as [Buffer];
      socket.destroy();
      expect(text.toString()).toMatch(/^HTTP\/1\.1 429 .*\r\nretry-after: 1\r\n/is);
    });

    it('are for the owner, wherever it asks from', async () => {
      let address = 0;
      const answers = await many(70, () =>
        gateway.get(me, { headers: at(`198.51.100.${(address += 1)}`) }),
      );
      expect(statuses(answers)).toContain(429);
    });
  });

  describe('of addresses without a valid key', () => {
    const guess = (address: string, key: string | null = generateKey()) =>
      gateway.get(me, { key, headers: at(address) });

    it('let a page of the web UI open with a wrong key, try again, and see 401 each time', async () => {
      expect(new Set(statuses(await many(32, () => guess('198.51.100.1'))))).toEqual(
        new Set([401]),
      );
      for (let attempt = 0; attempt < 29; attempt++) {
        expect(await guess('198.51.100.1')).toMatchObject({ status: 401 });
        await clock.advance(7000 / 29);
      }
    });

    it('refuse a client that keeps guessing, and no other client', async () => {
      const answers = await many(200, () => guess('198.51.100.2'));
      expect(statuses(answers).filter((status) => status === 401)).toHaveLength(120);
      expect(answers.at(-1)).toMatchObject({
        status: 429,
        json: { code: 'too-many-attempts' },
        headers: {
          'retry-after': '1',
          'ratelimit-policy': '"failed-keys";q=120;w=60',
          ratelimit: '"failed-keys";r=0;t=60',
        },
      });
      expect(await guess('198.51.100.3')).toMatchObject({ status: 401 });
      expect(await guess('198.51.100.2', gateway.alice)).toMatchObject({ status: 200 });
      expect(
        gateway.log.filter(({ message }) => message === 'Too many requests without a valid key'),
      ).toHaveLength(1);
      await clock.advance(1000);
      expect(statuses(await many(3, () => guess('198.51.100.2')))).toEqual([401, 401, 429]);
    });

    it('count a missing key as a failed one, but not what needs none', async () => {
      expect(statuses(await many(121, () => guess('198.51.100.4', null)))).toContain(429);
      expect(await gateway.get('/alive', { key: null, headers: at('198.51.100.4') })).toMatchObject(
        { status: 200 },
      );
    });

    it('take the addresses of one subscriber for one', async () => {
      let host = 0;
      const answers = await many(121, () => guess(`2001:db8::${(host += 1).toString(16)}`));
      expect(statuses(answers).filter((status) => status === 429)).toHaveLength(1);
    });
  });

  it('are counted', async () => {
    const { values } = await gateway.metrics.rateLimited.get();
    expect(values.map(({ labels }) => labels['limit']).sort()).toEqual([
      'failed-keys',
      'reads',
      'writes',
    ]);
  });
});

describe('overload', () => {
  it('is answered with 503 and Retry-After, writes first, while health checks continue', async () => {
    const gateway = await TestGateway.start({
      load: { maxUnderWay: 4 },
      corsOrigins: ['https://ui.example.com'],
    });
    const open = Promise.withResolvers<undefined>();
    const get = gateway.client.get.bind(gateway.client);
    Object.assign(gateway.client, {
      get: async (...parameters: Parameters<typeof get>) => {
        await open.promise;
        return get(...parameters);
      },
    });
    const keys = await Promise.all(
      ['carol', 'dora', 'erik'].map((owner) => gateway.issueKey(owner)),
    );
    const write = (key: string | undefined = '') =>
      gateway.send('DELETE', '/api/keys/none', { key });
    try {
      const waiting = [gateway.alice, gateway.bob, keys[0]].map(write);
      const refused = await write(keys[1]);
      // Which of the four came last is up to the network.
      const answer = refused.status === 503 ? refused : await Promise.race(waiting);
      expect(answer).toMatchObject({
        status: 503,
        json: { code: 'overloaded' },
        headers: { 'retry-after': '2' },
      });
      expect(await gateway.get(me, { key: keys[2] ?? '' })).toMatchObject({ status: 200 });
      expect(await gateway.get('/ready', { key: null })).toMatchObject({ status: 200 });
      // The refusal costs nothing, not even a check of a key; a page of another origin may read it.
      const headers = { Origin: 'https://ui.example.com', 'X-Request-ID': 'r-1' };
      const strange = await gateway.send('DELETE', '/api/keys/none', {
        key: 'co_strange',
        headers,
      });
      expect(strange).toMatchObject({
        status: 503,
        json: { code: 'overloaded', request_id: 'r-1' },
      });
      expect(strange.headers['access-control-allow-origin']).toBe('https://ui.example.com');
      open.resolve(undefined);
      expect(
        statuses(await Promise.all(waiting)).filter((status) => status === 404).length,
      ).toBeGreaterThanOrEqual(2);
      expect(await write(gateway.alice)).toMatchObject({ status: 404 });
    } finally {
      open.resolve(undefined);
      await gateway.stop();
    }
  });

  it('is refused to the owner that causes it long before others notice', async () => {
    const gateway = await TestGateway.start({ load: { maxUnderWay: 8 } });
    const open = Promise.withResolvers<undefined>();
    const get = gateway.client.get.bind(gateway.client);
    Object.assign(gateway.client, {
      get: async (...parameters: Parameters<typeof get>) => {
        await open.promise;
        return get(...parameters);
      },
    });
    try {
      const other = await gateway.issueKey('alice');
      const slow = [gateway.alice, other].map((key) =>
        gateway.get(`/api/v1/conversation/${'0'.repeat(32)}/events/count`, { key }),
      );
      await gateway.get(me, { key: gateway.bob });
      expect(await gateway.get(me)).toMatchObject({
        status: 429,
        json: { code: 'share-exceeded' },
        headers: { 'retry-after': '1' },
      });
      expect(await gateway.get(me, { key: gateway.bob })).toMatchObject({ status: 200 });
      open.resolve(undefined);
      expect(statuses(await Promise.all(slow))).toEqual([404, 404]);
      expect(await gateway.get(me)).toMatchObject({ status: 200 });
    } finally {
      open.resolve(undefined);
      await gateway.stop();
    }
  });

  it('is not what an open stream is', async () => {
    const gateway = await TestGateway.start({ load: { maxUnderWay: 8 } });
    try {
      const body = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };
      const streams = [];
      for (let count = 0; count < 4; count++)
        streams.push(
          await gateway.open('POST', '/api/v1/app-conversations/stream-start', { body }),
        );
      expect(streams.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200]);
      for (const stream of streams) stream.destroy();
    } finally {
      await gateway.stop();
    }
  });
});
