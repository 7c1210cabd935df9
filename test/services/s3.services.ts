import { createHash, randomBytes } from 'node:crypto';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import type { Credentials } from '@conversation-operator/object-store/s3-credentials';
import {
  codeOf,
  describeStoreContract,
  keysOf,
  listAll,
} from '../../packages/object-store/test/store-contract.ts';
import { eventually } from '../support/eventually.ts';
import { startS3Server, type S3Server } from './support/s3-server.ts';

let server: S3Server;
let places = 0;
beforeAll(async () => {
  server = await startS3Server();
  await server.newBucket('a-bucket');
});
afterAll(() => server[Symbol.asyncDispose]());

describeStoreContract('a bucket of a real server', {
  newPlace: () => {
    const prefix = `places/${++places}`;
    return Promise.resolve({
      open: () => server.store({ bucket: 'a-bucket', prefix }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    });
  },
  maxObjects: 12,
  numRuns: 25,
});

describe('a store in a bucket of a real server', () => {
  const opened: ObjectStore[] = [];
  const open = (...options: Parameters<S3Server['store']>) => {
    const store = server.store(...options);
    opened.push(store);
    return store;
  };
  afterEach(() => Promise.all(opened.splice(0).map((store) => store.close())));
  const body = Buffer.from('a body');

  it('lists more objects than one page has', async () => {
    const store = open({ bucket: 'a-bucket', prefix: 'many' });
    const keys = Array.from({ length: 1203 }, (_, index) => `k/${String(index).padStart(5, '0')}`);
    for (let start = 0; start < keys.length; start += 100)
      await Promise.all(keys.slice(start, start + 100).map((key) => store.put(key, body)));
    expect(keysOf(await listAll(store, { prefix: 'k/' }))).toEqual(keys);
    const page = await store.list({ prefix: '' });
    expect(page).toMatchObject({ next: 'k/00999' });
    expect(page.names).toHaveLength(1000);
    await store.delete(keys);
    expect((await store.list({ prefix: '' })).names).toEqual([]);
  });

  it('reports a bucket that does not exist', async () => {
    const store = open({ bucket: 'no-bucket' });
    expect(await codeOf(store.put('a', body))).toBe('missing');
    expect(await codeOf(store.get('a'))).toBe('missing');
    expect(await codeOf(store.list({ prefix: '' }))).toBe('missing');
    expect(await codeOf(store.delete(['a']))).toBe('missing');
  });

  it.each<[string, Partial<Credentials>]>([
    ['an unknown key', { accessKeyId: 'unknown' }],
    ['another secret', { secretAccessKey: 'another' }],
  ])('is denied for %s', async (_name, other) => {
    const credentials = { ...server.credentials, ...other };
    const store = open({ bucket: 'a-bucket', credentials: () => Promise.resolve(credentials) });
    expect(await codeOf(store.put('a', body))).toBe('denied');
  });

  it('corrects a clock that is an hour slow', async () => {
    const { now } = Date;
    Date.now = () => now() - 3_600_000;
    try {
      const store = open({ bucket: 'a-bucket' });
      await store.put('clock', body);
      expect(await store.get('clock')).toEqual(body);
    } finally {
      Date.now = now;
    }
  });

  it('names the region of a bucket of another one', async () => {
    const store = open({ bucket: 'a-bucket', region: 'eu-north-9' });
    const error: unknown = await store.get('a').catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      code: 'invalid',
      message: expect.stringContaining('us-east-1') as string,
    });
  });

  it('loses and tears nothing that was acknowledged when the server is killed', async () => {
    for (let round = 0; round < 3; round += 1) {
      const store = open({ bucket: 'a-bucket', prefix: `kills/${round}`, timeoutMs: 5000 });
      const writers = Array.from({ length: 16 }, (_, index) => writer(store, `w${index}`));
      await eventually('the server is under load', () =>
        writers.every(({ acknowledged }) => acknowledged.size >= 3),
      );
      await server.kill();
      const records = await Promise.all(writers.map((each) => each.stop()));
      await server.restart();
      const sent = new Map(records.flatMap((record) => [...record.sent]));
      const acknowledged = new Set(records.flatMap((record) => [...record.acknowledged]));
      const found = keysOf(await listAll(store, { prefix: '' }));
      expect([...acknowledged].filter((key) => !found.includes(key))).toEqual([]);
      expect(found.filter((key) => !sent.has(key))).toEqual([]);
      for (const key of found)
        expect(`${key} ${sumOf((await store.get(key)) ?? body)}`).toBe(
          `${key} ${sent.get(key) ?? ''}`,
        );
      expect(acknowledged.size).toBeGreaterThanOrEqual(48);
    }
  });

  it('is unavailable while the server is, and continues once it is there again', async () => {
    const store = open({ bucket: 'a-bucket', prefix: 'restart' });
    await store.put('before', body);
    await server.kill();
    expect(await codeOf(store.get('before'))).toBe('unavailable');
    await server.restart();
    expect(await store.get('before')).toEqual(body);
    await store.put('after', body);
    expect(await store.get('after')).toEqual(body);
  });
});

const sumOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** Stores one object after the other, until it is stopped or a put fails. */
function writer(store: ObjectStore, name: string) {
  const sent = new Map<string, string>();
  const acknowledged = new Set<string>();
  const stopped = new AbortController();
  const work = (async () => {
    for (let index = 0; !stopped.signal.aborted; index += 1) {
      const [key, bytes] = [`${name}/${index}`, randomBytes(65_536)];
      sent.set(key, sumOf(bytes));
      await store.put(key, bytes);
      acknowledged.add(key);
    }
  })().catch(() => undefined);
  return {
    acknowledged,
    async stop() {
      stopped.abort();
      await work;
      return { sent, acknowledged };
    },
  };
}
