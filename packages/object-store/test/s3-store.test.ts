import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { MockAgent } from 'undici';
import { directly } from '@conversation-operator/outward/outward';
import { type ObjectStore, StoreError } from '../src/object-store.ts';
import { createS3Store, type S3StoreOptions } from '../src/s3-store.ts';
import type { Credentials } from '../src/s3-credentials.ts';
import { startFakeS3, type FakeS3, type Fault } from './fake-s3.ts';
import { codeOf, describeStoreContract, keysOf, listAll } from './store-contract.ts';

const credentials: Credentials = {
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'the-secret+of/tests',
};
const storeOf = (fake: FakeS3, options: Partial<S3StoreOptions> = {}): ObjectStore =>
  createS3Store({
    endpoint: fake.url,
    region: 'eu-test-1',
    bucket: fake.bucket,
    outward: directly,
    credentials: () => Promise.resolve(credentials),
    ...options,
  });

describeStoreContract('a bucket', {
  newPlace: async () => {
    const fake = await startFakeS3();
    // Keys of others: beside the prefix, and below it some that no store has.
    for (const key of ['a', 'z', 'of/a', 'of/z', 'of/this', 'of/this!', 'of/this/'])
      fake.objects.set(key, Buffer.from('foreign'));
    for (const key of ['a b', 'ä', '<&>', '\u0001'])
      fake.objects.set(`of/this/${key}`, Buffer.from('foreign'));
    fake.maxKeys = 3;
    return {
      open: () => storeOf(fake, { prefix: 'of/this' }),
      [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose](),
    };
  },
  maxObjects: 20,
  numRuns: 60,
});

/** Back-offs of the client of AWS have no length. */
const { random } = Math;
beforeAll(() => {
  Math.random = () => 0;
});
afterAll(() => {
  Math.random = random;
});

describe('a store in a bucket', () => {
  let fake: FakeS3;
  let store: ObjectStore;
  beforeEach(async () => {
    fake = await startFakeS3();
    store = storeOf(fake);
  });
  afterEach(async () => {
    await store.close();
    await fake[Symbol.asyncDispose]();
  });
  const body = Buffer.from('a body');
  const put = () => store.put('a/b', body);

  it.each<[string, Fault]>([
    ['500', { status: 500, code: 'InternalError' }],
    ['500 after the effect', { status: 500, code: 'InternalError', afterEffect: true }],
    ['502 without a body', { status: 502 }],
    ['503 with a page of a proxy', { status: 503, body: '<html><p>no</html>' }],
    ['504', { status: 504 }],
    ['429', { status: 429 }],
    ['SlowDown', { status: 503, code: 'SlowDown' }],
    ['RequestTimeout', { status: 400, code: 'RequestTimeout' }],
    ['a connection that ends', 'drop'],
    ['a connection that ends after the effect', 'drop-after-effect'],
    ['a response that ends early', 'truncate'],
  ])('repeats what may be repeated: %s', async (_name, fault) => {
    fake.faults.push(fault, fault);
    await put();
    expect(fake.seen).toHaveLength(3);
    fake.faults.push(fault, fault);
    expect(await store.get('a/b')).toEqual(body);
    fake.faults.push(fault, fault);
    expect(keysOf(await listAll(store, { prefix: '' }))).toEqual(['a/b']);
    fake.faults.push(fault, fault);
    await store.delete(['a/b']);
    expect(fake.objects.size).toBe(0);
    expect(fake.faults).toEqual([]);
  });

  it('deletes an object once, though a proxy does so twice', async () => {
    fake.faults.push('repeat', 'repeat');
    await put();
    await store.delete(['a/b']);
    expect(await store.get('a/b')).toBeUndefined();
  });

  it('rejects a body in very small chunks', async () => {
    const server = createServer((_request, response) => {
      let left = 5000;
      const write = () => {
        left -= 1;
        if (left === 0) response.end();
        else if (!response.destroyed) response.write('x', () => setImmediate(write));
      };
      write();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const slow = storeOf(fake, { endpoint: `http://127.0.0.1:${port}` });
    expect(await codeOf(slow.get('a'))).toBe('invalid');
    await slow.close();
    server.closeAllConnections();
    server.close();
  });

  it.each<[Fault, string, string]>([
    [{ status: 500 }, 'unavailable', 'The object store answers 500'],
    [
      { status: 503, code: 'ServiceUnavailable', message: 'Wait\n please' },
      'unavailable',
      'The object store answers 503 ServiceUnavailable: Wait please',
    ],
    [
      { status: 503, code: 'SlowDown' },
      'throttled',
      'The object store answers 503 SlowDown: SlowDown',
    ],
    [{ status: 429 }, 'throttled', 'The object store answers 429'],
    ['drop', 'unavailable', 'The object store can not be reached: UND_ERR_SOCKET'],
  ])('gives up after three attempts: %j', async (fault, code, message) => {
    fake.faults.push(fault, fault, fault);
    const error: unknown = await put().catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(StoreError);
    expect(error).toMatchObject({ code, message });
    expect(fake.seen).toHaveLength(3);
  });

  it.each<[Fault, string, string]>([
    [{ status: 403, code: 'AccessDenied' }, 'denied', '403 AccessDenied'],
    [{ status: 403 }, 'denied', '403'],
    [{ status: 401 }, 'denied', '401'],
    [{ status: 404, code: 'NoSuchBucket' }, 'missing', '404 NoSuchBucket'],
    [{ status: 404, body: 'not found' }, 'missing', '404'],
    [{ status: 400, code: 'InvalidArgument' }, 'invalid', '400 InvalidArgument'],
    [{ status: 501, code: 'NotImplemented' }, 'invalid', '501 NotImplemented'],
    [{ status: 507, code: 'XMinioStorageFull' }, 'unavailable', '507 XMinioStorageFull'],
    [
      {
        status: 301,
        code: 'PermanentRedirect',
        headers: { 'x-amz-bucket-region': 'eu-west-9', location: 'http://127.0.0.1:1/' },
      },
      'invalid',
      'the bucket is in the region eu-west-9',
    ],
    [
      {
        status: 400,
        body: '<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-9</Region></Error>',
      },
      'invalid',
      'the bucket is in the region eu-west-9',
    ],
    [{ status: 307, headers: { location: 'http://127.0.0.1:1/' } }, 'invalid', '307'],
  ])('does not repeat what would fail again: %j', async (fault, code, message) => {
    for (const call of [put, () => store.get('a/b'), () => store.list({ prefix: '' })]) {
      fake.seen.length = 0;
      fake.faults.push(fault);
      const error: unknown = await call().catch((caught: unknown) => caught);
      expect(error).toMatchObject({ code, message: expect.stringContaining(message) as string });
      expect(fake.seen).toHaveLength(1);
    }
  });

  it('shows neither credentials nor much text of a server that repeats them', async () => {
    const message = `${'x'.repeat(190)} the-secret+of/tests AKIDEXAMPLE ${'y'.repeat(5000)}`;
    fake.faults.push({ status: 403, code: 'AccessDenied', message });
    const error = (await put().catch((caught: unknown) => caught)) as Error;
    expect(error.message).not.toMatch(/the-sec|AKID/);
    expect(error.message.length).toBeLessThan(300);
  });

  it('does not read an error that is as large as an object', async () => {
    const message = 'x'.repeat(100_000);
    fake.objects.set('a', Buffer.alloc(200_000));
    fake.faults.push({ status: 403, code: 'AccessDenied', message });
    await expect(store.get('a')).rejects.toThrow(/^The object store answers 403$/);
    expect(await store.get('a')).toHaveLength(200_000);
  });

  it('gets other credentials once when the store rejects those in use', async () => {
    const known = [1, 2].map((index) => ({
      accessKeyId: `KEY${index}`,
      secretAccessKey: `secret${index}`,
      sessionToken: `token${index}`,
    }));
    for (const { accessKeyId, secretAccessKey, sessionToken } of known)
      fake.credentials.set(accessKeyId, { secretAccessKey, sessionToken });
    let calls = 0;
    await store.close();
    store = storeOf(fake, {
      credentials: () => Promise.resolve(known[Math.min(calls++, 1)] ?? credentials),
    });
    await put();
    await put();
    expect(calls).toBe(1);
    fake.expired.add('KEY1');
    await put();
    expect(calls).toBe(2);
    fake.expired.add('KEY2');
    expect(await codeOf(put())).toBe('denied');
    expect(calls).toBe(3);
  });

  it.each([-3_600_000, 3_600_000])('corrects its clock by the server: %d ms', async (skewMs) => {
    fake.skewMs = skewMs;
    await put();
    expect(fake.seen).toHaveLength(2);
    await put();
    expect(fake.seen).toHaveLength(3);
  });

  it('does not correct its clock for ever', async () => {
    const fault = { status: 403, code: 'RequestTimeTooSkewed' };
    fake.faults.push(fault, fault, fault);
    expect(await codeOf(put())).toBe('denied');
    expect(fake.seen).toHaveLength(1);
  });

  it('sends checksums to a bucket that requires them', async () => {
    fake.requiresChecksums = true;
    await put();
    await put();
    expect(fake.seen.map(({ headers }) => headers['content-md5'] !== undefined)).toEqual([
      ...[false, true, true],
    ]);
    expect(await store.get('a/b')).toEqual(body);
  });

  it('asks for the encryption of its settings', async () => {
    await store.close();
    store = storeOf(fake, { serverSideEncryption: 'aws:kms', kmsKeyId: 'arn:aws:kms:x:1:key/y' });
    await put();
    expect(fake.seen[0]?.headers).toMatchObject({
      'x-amz-server-side-encryption': 'aws:kms',
      'x-amz-server-side-encryption-aws-kms-key-id': 'arn:aws:kms:x:1:key/y',
    });
  });

  it('reads ranges of a server that ignores them', async () => {
    fake.ignoresRanges = true;
    await store.put('a', Buffer.from('0123456789'));
    const read = async (offset: number, length: number) =>
      String(await store.get('a', { range: { offset, length } }));
    expect(await read(3, 4)).toBe('3456');
    expect(await read(8, 100)).toBe('89');
    expect(await read(10, 1)).toBe('');
  });

  it.each([
    ['another range', { 'content-range': 'bytes 1-2/6' }],
    ['no range', {}],
  ])('rejects %s in an answer', async (_name, headers) => {
    await put();
    fake.faults.push({ status: 206, headers, body: 'xx' });
    expect(await codeOf(store.get('a/b', { range: { offset: 0, length: 2 } }))).toBe('invalid');
  });

  it.each([
    ['another document', '<html></html>'],
    ['a document with a type', '<!DOCTYPE x [<!ENTITY a "b">]><ListBucketResult/>'],
    ['half a document', '<ListBucketResult><Contents>'],
    [
      'an object without a size',
      '<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key></Contents></ListBucketResult>',
    ],
    [
      'keys in another order',
      '<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>b</Key><Size>1</Size></Contents><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>',
    ],
    [
      'a page without an end',
      '<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>',
    ],
    ['too many bytes', `<ListBucketResult>${' '.repeat(5_000_000)}</ListBucketResult>`],
  ])('rejects a list that is %s', async (_name, text) => {
    fake.faults.push({ status: 200, body: text });
    expect(await codeOf(store.list({ prefix: '' }))).toBe('invalid');
  });

  it('truncates a page that is longer than allowed', async () => {
    const keys = ['a', 'b', 'c'].map(
      (key) => `<Contents><Key>${key}</Key><Size>1</Size></Contents>`,
    );
    fake.faults.push({
      status: 200,
      body: `<ListBucketResult><IsTruncated>false</IsTruncated>${keys.join('')}</ListBucketResult>`,
    });
    const { names, next } = await store.list({ prefix: '', limit: 2 });
    expect(keysOf(names)).toEqual(['a', 'b']);
    expect(next).toBe('b');
  });

  it('rejects an object that is too large for its memory', async () => {
    fake.objects.set('a', Buffer.alloc(64 * 1024 * 1024 + 1));
    expect(await codeOf(store.get('a'))).toBe('invalid');
    const range = { offset: 10, length: 5 };
    expect(await store.get('a', { range })).toEqual(Buffer.alloc(5));
  });

  it('ends a call at the deadline, and for a signal', async () => {
    await store.close();
    store = storeOf(fake, { timeoutMs: 100 });
    fake.faults.push('silence', 'silence');
    await expect(put()).rejects.toThrow('The object store has not answered within 100 ms');
    const controller = new AbortController();
    const reading = store.get('a/b', { signal: controller.signal });
    const reason = new Error('no longer wanted');
    controller.abort(reason);
    await expect(reading).rejects.toBe(reason);
  });

  it('is unavailable while no server listens', async () => {
    await using gone = await startFakeS3();
    await gone[Symbol.asyncDispose]();
    const unreachable = storeOf(gone);
    const error: unknown = await unreachable.get('a').catch((caught: unknown) => caught);
    expect(error).toMatchObject({
      code: 'unavailable',
      message: 'The object store can not be reached: ECONNREFUSED',
    });
    await unreachable.close();
  });

  it('fails as the source of its credentials does', async () => {
    const error = new StoreError('denied', 'there are none');
    await store.close();
    store = storeOf(fake, { credentials: () => Promise.reject(error) });
    await expect(put()).rejects.toBe(error);
    expect(fake.seen).toEqual([]);
  });

  it('stores many objects at once, each of them once it is acknowledged', async () => {
    let index = 0;
    const faults: readonly Fault[] = [
      ...['none', 'none', 'drop', 'none', 'drop-after-effect', 'none'],
      ...[{ status: 500, afterEffect: true }, 'none', { status: 503, code: 'SlowDown' }],
    ] as readonly Fault[];
    fake.faults.push(
      ...Array.from({ length: 300 }, () => faults[index++ % faults.length] ?? 'none'),
    );
    const bodies = new Map(Array.from({ length: 200 }, (_, i) => [`k/${i}`, randomBytes(1000)]));
    const results = await Promise.allSettled(
      [...bodies].map(async ([key, bytes]) => {
        await store.put(key, bytes);
        return key;
      }),
    );
    const stored = results.flatMap((result) =>
      result.status === 'fulfilled' ? [result.value] : [],
    );
    expect(stored.length).toBeGreaterThan(150);
    for (const key of stored)
      expect(fake.objects.get(key)?.equals(bodies.get(key) ?? Buffer.alloc(0))).toBe(true);
  });
});

describe('the settings of a store in a bucket', () => {
  const fine = {
    region: 'eu-test-1',
    bucket: 'a-bucket',
    outward: directly,
    credentials: () => Promise.resolve(credentials),
  };

  it.each<[string, Partial<S3StoreOptions>]>([
    ['a region with other characters', { region: 'x.evil.example/' }],
    ['an empty bucket', { bucket: '' }],
    ['a bucket with a path', { bucket: 'a/../b' }],
    ['an endpoint that is no URL', { endpoint: 'localhost' }],
    ['an endpoint of another protocol', { endpoint: 'ftp://host' }],
    ['an endpoint with a password', { endpoint: 'http://user:password@host' }],
    ['an address with the bucket before it', { endpoint: 'http://127.0.0.1:1', pathStyle: false }],
    ['a prefix that leaves the bucket', { prefix: '../x' }],
    ['a prefix that is too long', { prefix: `${'a'.repeat(150)}/${'b'.repeat(150)}` }],
    ['a key without its encryption', { kmsKeyId: 'x' }],
    ['a key with a line', { serverSideEncryption: 'aws:kms', kmsKeyId: 'x\ny' }],
  ])('reject %s', (_name, options) => {
    expect(() => createS3Store({ ...fine, ...options })).toThrow(StoreError);
    expect(() => createS3Store({ ...fine, ...options })).toThrow('Settings of the object store: ');
  });

  it.each<[Partial<S3StoreOptions>, string, string]>([
    [{}, 'https://a-bucket.s3.eu-test-1.amazonaws.com', '/k/1'],
    [
      { region: 'cn-north-1', bucket: 'with.dot' },
      'https://s3.cn-north-1.amazonaws.com.cn',
      '/with.dot/k/1',
    ],
    [{ endpoint: 'http://127.0.0.1:9000/' }, 'http://127.0.0.1:9000', '/a-bucket/k/1'],
    [{ endpoint: 'http://host/s3/', prefix: 'p/q/' }, 'http://host', '/s3/a-bucket/p/q/k/1'],
    [
      { endpoint: 'https://host:1', pathStyle: false, prefix: 'p' },
      'https://a-bucket.host:1',
      '/p/k/1',
    ],
  ])('%j have the URL %s%s', async (options, origin, path) => {
    const agent = new MockAgent();
    agent.disableNetConnect();
    agent.destroy = () => agent.close();
    const asked = (sent: string) => sent.split('?')[0] === path;
    agent.get(origin).intercept({ method: 'GET', path: asked }).reply(200, 'found');
    const store = createS3Store({ ...fine, ...options, outward: { pool: () => agent } });
    expect(String(await store.get('k/1'))).toBe('found');
    await store.close();
  });
});
