import { HttpKubeClient } from '../src/http-client.ts';
import { ResponseTooLargeError, TransportError } from '../src/errors.ts';
import { PageSize } from '../src/page-size.ts';
import { aTransport, json, stall, status, type Answering } from './api-stub.ts';
import { aThing, things } from './things.ts';

const mebibyte = 1_048_576;

let cleanUp: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of cleanUp) await close();
  cleanUp = [];
});

/** An API server with things of these sizes in MiB, which limits its pages as its caller asks. */
async function serverOf(sizes: readonly number[], before: Answering[] = [], deadlineMs = 30_000) {
  const answer: Answering = (response, request) => {
    const { limit = String(sizes.length), continue: next = '0' } = request.query;
    const end = Math.min(Number(next) + Number(limit), sizes.length);
    const items = sizes
      .slice(Number(next), end)
      .map((size, index) =>
        aThing({ name: `thing-${Number(next) + index}`, colors: ['x'.repeat(size * mebibyte)] }),
      );
    json({
      metadata: { resourceVersion: '7', ...(end < sizes.length ? { continue: String(end) } : {}) },
      items,
    })(response, request);
  };
  const made = await aTransport([...before, answer], { deadlineMs });
  cleanUp.push(made.close);
  const asked = () =>
    made.stub.requests.map(
      ({ query }) => `${query['limit'] ?? 'all'} from ${query['continue'] ?? 'the first'}`,
    );
  return { client: new HttpKubeClient({ transport: made.transport }), asked };
}

const namesOf = (sizes: readonly number[]) => sizes.map((_size, index) => `thing-${index}`);

describe('a list whose answer is too large', () => {
  it('continues from the same place with smaller pages', async () => {
    const sizes = Array.from({ length: 40 }, () => 1);
    const { client, asked } = await serverOf(sizes);
    const { items } = await client.listMapped(things, ({ metadata }) => metadata.name);
    expect(items).toEqual(namesOf(sizes));
    expect(asked().slice(0, 4)).toEqual([
      '100 from the first',
      '25 from the first',
      '6 from the first',
      '7 from 6',
    ]);
  });

  it('takes larger pages again behind the large objects', async () => {
    const sizes = [...Array.from({ length: 20 }, () => 1), ...Array.from({ length: 900 }, () => 0)];
    const { client, asked } = await serverOf(sizes);
    expect((await client.list(things)).items).toHaveLength(920);
    expect(asked().at(-1)).toMatch(/^500 from /);
  });

  it('takes an object that is larger than a page may be', async () => {
    const sizes = [0.1, 20, 0.1];
    const { client, asked } = await serverOf(sizes);
    expect((await client.list(things)).items).toHaveLength(3);
    expect(asked()).toContain('1 from the first');
  });

  it('begins the next list as it has ended the last one', async () => {
    const sizes = Array.from({ length: 20 }, () => 1);
    const { client, asked } = await serverOf(sizes);
    await client.list(things);
    const before = asked().length;
    await client.list(things);
    expect(asked()[before]).toMatch(/^7 from the first/);
  });

  it('is asked for with less by the next list, where the answer does not come in time', async () => {
    const { client, asked } = await serverOf([0, 0], [stall], 3_000);
    await expect(client.list(things)).rejects.toThrow(TransportError);
    expect((await client.list(things)).items).toHaveLength(2);
    expect(asked()).toEqual(['100 from the first', '25 from the first']);
  });

  it('fails where it has expired in pages, and is too large for one answer', async () => {
    const sizes = Array.from({ length: 20 }, () => 1);
    const expired = status(410, 'Expired');
    const { client, asked } = await serverOf(sizes, [expired, expired]);
    await expect(client.list(things)).rejects.toThrow(ResponseTooLargeError);
    expect(asked()).toEqual(['100 from the first', '100 from the first', 'all from the first']);
  });

  it('hands on each page before it asks for the next one', async () => {
    const order: string[] = [];
    const { client } = await serverOf([0, 0, 0], []);
    await client.listMapped(things, ({ metadata }) => order.push(metadata.name));
    expect(order).toEqual(['thing-0', 'thing-1', 'thing-2']);
  });

  it('leaves out what is mapped to nothing', async () => {
    const { client } = await serverOf([0, 0, 0]);
    const { items } = await client.listMapped(things, ({ metadata: { name } }) =>
      name === 'thing-1' ? undefined : name,
    );
    expect(items).toEqual(['thing-0', 'thing-2']);
  });
});

describe('the size of a page', () => {
  it.each<[string, readonly (readonly [number, number])[], number]>([
    ['begins small', [], 100],
    ['grows with small objects', [[100, 100_000]], 500],
    ['fits 8 MiB', [[100, 100 * 262_144]], 32],
    ['is at least one object', [[1, 100 * mebibyte]], 1],
    [
      'grows step by step, since what follows may be larger',
      [
        [1, 100 * mebibyte],
        [1, 1000],
      ],
      5,
    ],
    ['stays where a page was empty', [[0, 100]], 100],
  ])('%s', (_case, pages, limit) => {
    const size = new PageSize();
    for (const [objects, bytes] of pages) size.record(objects, bytes);
    expect(size.limit).toBe(limit);
  });

  it('shrinks down to one object, and says when that is as small as can be', () => {
    const size = new PageSize();
    const steps = Array.from({ length: 5 }, () => [size.shrink(), size.limit]);
    expect(steps).toEqual([
      [true, 25],
      [true, 6],
      [true, 1],
      [false, 1],
      [false, 1],
    ]);
  });
});
