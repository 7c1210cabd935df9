import * as fc from 'fast-check';
import type { WatchEvent } from '../src/client.ts';
import { HttpKubeClient } from '../src/http-client.ts';
import { namespaces, pods } from '../src/core.ts';
import type { KubeObject } from '../src/object.ts';
import {
  aTransport,
  json,
  reset,
  status,
  truncated,
  type Answering,
  type ApiStub,
} from './api-stub.ts';
import { aThing, things, type Thing } from './things.ts';

let cleanUp: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of cleanUp.splice(0)) await close();
  cleanUp = [];
});

async function clientTo(
  ...answers: Answering[]
): Promise<{ stub: ApiStub; client: HttpKubeClient }> {
  const made = await aTransport(answers);
  cleanUp.push(made.close);
  return made;
}

const page = (items: readonly unknown[], next?: string) =>
  json({
    kind: 'ThingList',
    metadata: { resourceVersion: '7', ...(next === undefined ? {} : { continue: next }) },
    items,
  });

/** Writes the pieces one after the other, each in a chunk of its own, and ends. */
const pieces =
  (...parts: readonly (string | Uint8Array)[]): Answering =>
  (response) => {
    const rest = [...parts];
    const next = (): void => {
      const part = rest.shift();
      if (part === undefined) response.end();
      else response.write(part, () => setTimeout(next, 5));
    };
    next();
  };

async function watched(
  client: HttpKubeClient,
): Promise<{ events: WatchEvent<Thing>[]; error: unknown }> {
  const events: WatchEvent<Thing>[] = [];
  const signal = new AbortController().signal;
  try {
    for await (const event of client.watch(things, {
      resourceVersion: '7',
      timeoutSeconds: 400,
      signal,
    }))
      events.push(event);
    return { events, error: undefined };
  } catch (error) {
    return { events, error };
  }
}

const added = (thing: KubeObject) => `${JSON.stringify({ type: 'ADDED', object: thing })}\n`;

describe('HttpKubeClient', () => {
  const one = aThing();
  const calls: [string, (client: HttpKubeClient) => Promise<unknown>, object][] = [
    [
      'get',
      (client) => client.get(things, 'default', 'one'),
      { method: 'GET', path: '/apis/example.com/v1/namespaces/default/things/one' },
    ],
    [
      'get of a core kind',
      (client) => client.get(pods, 'default', 'one'),
      { method: 'GET', path: '/api/v1/namespaces/default/pods/one' },
    ],
    [
      'get of a kind without namespaces',
      (client) => client.get(namespaces, '', 'one'),
      { method: 'GET', path: '/api/v1/namespaces/one' },
    ],
    [
      'create',
      (client) => client.create(things, one),
      {
        method: 'POST',
        path: '/apis/example.com/v1/namespaces/default/things',
        query: {},
        body: one,
      },
    ],
    [
      'create as a dry run',
      (client) => client.create(things, one, { dryRun: true }),
      { method: 'POST', query: { dryRun: 'All' } },
    ],
    [
      'update',
      (client) => client.update(things, one),
      { method: 'PUT', path: '/apis/example.com/v1/namespaces/default/things/one', body: one },
    ],
    [
      'update of the status',
      (client) => client.updateStatus(things, one),
      {
        method: 'PATCH',
        path: '/apis/example.com/v1/namespaces/default/things/one/status',
        body: [
          { op: 'replace', path: '/metadata/resourceVersion', value: one.metadata.resourceVersion },
          { op: 'add', path: '/status', value: {} },
        ],
      },
    ],
    [
      'patch',
      (client) =>
        client.mergePatch(things, 'default', 'one', { spec: null }, { subresource: 'scale' }),
      {
        method: 'PATCH',
        path: '/apis/example.com/v1/namespaces/default/things/one/scale',
        body: { spec: null },
      },
    ],
    [
      'delete',
      (client) =>
        client.delete(things, 'default', 'one', {
          uid: 'u',
          resourceVersion: '7',
          gracePeriodSeconds: 0,
          propagationPolicy: 'Orphan',
        }),
      {
        method: 'DELETE',
        path: '/apis/example.com/v1/namespaces/default/things/one',
        body: {
          apiVersion: 'v1',
          kind: 'DeleteOptions',
          preconditions: { uid: 'u', resourceVersion: '7' },
          gracePeriodSeconds: 0,
          propagationPolicy: 'Orphan',
        },
      },
    ],
    [
      'binding',
      (client) =>
        client.createSubresource(pods, 'default', 'one', 'binding', { target: { name: 'node' } }),
      {
        method: 'POST',
        path: '/api/v1/namespaces/default/pods/one/binding',
        body: { target: { name: 'node' } },
      },
    ],
  ];
  it.each(calls)('sends a %s as the API wants it', async (_name, call, expected) => {
    const { stub, client } = await clientTo(json(one));
    await call(client);
    expect(stub.requests).toMatchObject([expected]);
  });

  it('says what kind of patch it sends', async () => {
    const { stub, client } = await clientTo(json(one));
    await client.mergePatch(things, 'default', 'one', {});
    expect(stub.requests[0]?.headers['content-type']).toBe('application/merge-patch+json');
  });

  it.each(['', '.', '..', 'a/b', 'a%2fb'])(
    'refuses %p as a name, before anything is sent',
    async (name) => {
      const { stub, client } = await clientTo(json(one));
      await expect(client.delete(things, 'default', name)).rejects.toThrow(RangeError);
      await expect(client.get(things, '', 'one')).rejects.toThrow('Thing one needs a namespace');
      expect(stub.requests).toHaveLength(0);
    },
  );

  it('leaves managedFields out', async () => {
    const { client } = await clientTo(
      json({ ...one, metadata: { ...one.metadata, managedFields: [{ manager: 'kubectl' }] } }),
    );
    expect(await client.get(things, 'default', 'one')).toEqual(one);
  });

  it('creates a large object for its metadata alone, and returns them with what was sent', async () => {
    const { apiVersion, kind, spec } = one;
    const metadata = { ...one.metadata, managedFields: [{ manager: 'kubectl' }] };
    const { stub, client } = await clientTo(
      json({ kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata }),
      json(one),
    );
    const sent = { apiVersion, kind, metadata: { namespace: 'default', name: 'one' }, spec };
    expect(await client.create(things, sent, { metadataOnly: true })).toEqual(one);
    expect(stub.requests[0]?.headers.accept).toBe(
      'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json',
    );
    // From a server that knows objects alone.
    expect(await client.create(things, sent, { metadataOnly: true })).toEqual(one);
  });

  it('lists metadata alone, also from a server that knows objects alone', async () => {
    const { apiVersion, kind, metadata } = one;
    const partial = { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata };
    const { stub, client } = await clientTo(page([partial], 'next'), page([one]));
    const { items } = await client.listMapped(things, (object) => object, { metadataOnly: true });
    expect(items).toEqual([
      { apiVersion, kind, metadata },
      { apiVersion, kind, metadata },
    ]);
    expect(stub.requests.map(({ headers, query }) => [headers.accept, query['limit']])).toEqual(
      Array.from({ length: 2 }, () => [
        'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json',
        '500',
      ]),
    );
  });

  it('lists page by page, and gives every item its kind', async () => {
    const { kind: _kind, apiVersion: _apiVersion, ...bare } = one;
    const { stub, client } = await clientTo(page([bare], 'next'), page([bare]));
    const list = await client.list(things, {
      namespace: 'default',
      labelSelector: 'a=b',
      fieldSelector: 'c=d',
    });
    expect(list).toEqual({ items: [one, one], resourceVersion: '7' });
    const query = { limit: '100', labelSelector: 'a=b', fieldSelector: 'c=d' };
    expect(stub.requests.map((request) => request.query)).toEqual([
      query,
      { ...query, limit: '500', continue: 'next' },
    ]);
  });

  it('takes a list without items for an empty one', async () => {
    const { client } = await clientTo(json({ metadata: { resourceVersion: '1' }, items: null }));
    expect(await client.list(things)).toEqual({ items: [], resourceVersion: '1' });
  });

  it('starts a list over when it expires between pages, and asks for all at once the third time', async () => {
    const expired = status(410, 'Expired');
    const { stub, client } = await clientTo(
      page([one], 'a'),
      expired,
      page([one], 'b'),
      expired,
      page([one, one, one]),
    );
    expect((await client.list(things)).items).toHaveLength(3);
    expect(stub.requests.map(({ query }) => [query['limit'], query['continue']])).toEqual([
      ['100', undefined],
      ['500', 'a'],
      ['500', undefined],
      ['500', 'b'],
      [undefined, undefined],
    ]);
  });

  it('watches from a version, with bookmarks', async () => {
    const bookmark = { type: 'BOOKMARK', object: { metadata: { resourceVersion: '9' } } };
    const { stub, client } = await clientTo(pieces(added(one), `${JSON.stringify(bookmark)}\n`));
    expect(await watched(client)).toEqual({
      events: [
        { type: 'ADDED', object: one },
        { type: 'BOOKMARK', resourceVersion: '9' },
      ],
      error: undefined,
    });
    expect(stub.requests[0]?.query).toEqual({
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: '7',
      timeoutSeconds: '400',
    });
  });

  it('understands events however they are split into chunks', async () => {
    const thing = aThing({ colors: ['grün', '青', '🟥'] });
    const bytes = Buffer.from(added(thing) + added(thing));
    // Three bytes each: no character of more than one byte stays whole.
    const chunks = Array.from({ length: Math.ceil(bytes.length / 3) }, (_, index) =>
      bytes.subarray(index * 3, index * 3 + 3),
    );
    const { client } = await clientTo((response) => {
      for (const chunk of chunks) response.write(chunk);
      response.end();
    });
    expect(await watched(client)).toEqual({
      events: Array(2).fill({ type: 'ADDED', object: thing }),
      error: undefined,
    });
  });

  it('gives the same events however their bytes are split, and ends in the same way', async () => {
    const managedFields = [
      { manager: 'kubectl', fieldsV1: { 'f:spec': { 'k:{"name":"]"}': {} } } },
    ];
    const event = fc.record({
      colors: fc.array(fc.string({ unit: 'grapheme' }), { maxLength: 2 }),
      managed: fc.boolean(),
    });
    const ending = fc.constantFrom(
      '',
      '\n\n',
      '{"type":"MODI',
      '{"type":"ERROR","object":{"code":410,"reason":"Expired"}}\n',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(event, { maxLength: 4 }),
        ending,
        fc.array(fc.nat(), { maxLength: 8 }),
        async (written, end, splits) => {
          const expected = written.map(({ colors }) => aThing({ colors }));
          const sent = expected.map((thing, index) =>
            added(
              written[index]?.managed === true
                ? { ...thing, metadata: { managedFields, ...thing.metadata } }
                : thing,
            ),
          );
          const bytes = Buffer.from(sent.join('') + end);
          const places = [
            0,
            ...splits.map((split) => split % (bytes.length + 1)),
            bytes.length,
          ].sort((one, other) => one - other);
          async function* chunks() {
            for (const [index, place] of places.entries())
              yield await Promise.resolve(bytes.subarray(places[index - 1] ?? 0, place));
          }
          const client = new HttpKubeClient({
            transport: {
              call: () => Promise.reject(new Error('no call')),
              stream: () => Promise.resolve(chunks()),
            },
          });
          const { events, error } = await watched(client);
          expect(events).toEqual(expected.map((object) => ({ type: 'ADDED', object })));
          const errorName = end.includes('ERROR') ? 'ApiError' : 'TransportError';
          if (end.startsWith('{')) expect(error).toMatchObject({ name: errorName });
          else expect(error).toBeUndefined();
        },
      ),
    );
  });

  it('ends the stream when the reader of a watch stops', async () => {
    let ended = false;
    async function* chunks() {
      try {
        yield await Promise.resolve(Buffer.from(added(one) + added(one)));
      } finally {
        ended = true;
      }
    }
    const client = new HttpKubeClient({
      transport: {
        call: () => Promise.reject(new Error('no call')),
        stream: () => Promise.resolve(chunks()),
      },
    });
    const { signal } = new AbortController();
    for await (const _event of client.watch(things, {
      resourceVersion: '7',
      timeoutSeconds: 400,
      signal,
    }))
      break;
    expect(ended).toBe(true);
  });

  it.each([
    [
      'is reset in the middle of an event',
      truncated(`${added(one)}{"type":"MODI`),
      'TransportError',
    ],
    ['ends in the middle of an event', pieces(added(one), '{"type":"MODI'), 'TransportError'],
    [
      'sends what is no event',
      pieces(added(one), '{"type":"SURPRISE","object":{}}\n'),
      'TransportError',
    ],
    [
      'reports an error',
      pieces(
        added(one),
        '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}\n',
      ),
      'ApiError',
    ],
  ])('gives what came before and then throws when a watch %s', async (_what, answer, name) => {
    const { client } = await clientTo(answer);
    const { events, error } = await watched(client);
    expect(events).toHaveLength(1);
    expect(error).toMatchObject({ name });
  });

  it('repeats the start of a watch, and throws when it is refused', async () => {
    const { stub, client } = await clientTo(
      reset,
      status(429, 'TooManyRequests'),
      status(410, 'Expired'),
    );
    expect((await watched(client)).error).toMatchObject({ status: 410, reason: 'Expired' });
    expect(stub.requests).toHaveLength(3);
  });

  it('refuses an event without an end', async () => {
    const { client } = await clientTo((response) => {
      const chunk = Buffer.alloc(1_048_576, 'x');
      for (let index = 0; index < 10; index++) response.write(chunk);
    });
    expect((await watched(client)).error).toMatchObject({
      message: 'the server sent a line longer than 8388608 bytes',
    });
  });
});
