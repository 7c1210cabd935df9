import * as fc from 'fast-check';
import { Flattened } from '../src/watch-stream.ts';

/** Ends as an async generator does; says whether it has. */
function source(batches: readonly Iterable<number>[], end?: Error) {
  const state = { ended: false };
  async function* give() {
    try {
      for (const batch of batches) yield await Promise.resolve(batch);
      if (end !== undefined) throw end;
    } finally {
      state.ended = true;
    }
  }
  return { state, flattened: new Flattened(give()) };
}

async function read(numbers: AsyncIterable<number>) {
  const taken: number[] = [];
  try {
    for await (const number of numbers) taken.push(number);
    return { taken, error: undefined };
  } catch (error) {
    return { taken, error };
  }
}

const broken = new Error('broken');
function* breaking(...numbers: readonly number[]) {
  yield* numbers;
  throw broken;
}

describe('Flattened', () => {
  it('gives every element in order, whatever the batches are', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(fc.integer())), async (batches) => {
        const { state, flattened } = source(batches);
        expect(await read(flattened)).toEqual({ taken: batches.flat(), error: undefined });
        expect(state.ended).toBe(true);
      }),
    );
  });

  it('throws what the batches throw, after their elements', async () => {
    const { flattened } = source([[1, 2], [3]], broken);
    expect(await read(flattened)).toEqual({ taken: [1, 2, 3], error: broken });
  });

  it('throws what a batch throws, after its elements, and ends the batches', async () => {
    const { state, flattened } = source([[1], breaking(2), [3]]);
    expect(await read(flattened)).toEqual({ taken: [1, 2], error: broken });
    expect(state.ended).toBe(true);
    expect(await flattened.next()).toEqual({ done: true, value: undefined });
  });

  it('throws what the first element of a batch throws', async () => {
    const { state, flattened } = source([breaking()]);
    expect(await read(flattened)).toEqual({ taken: [], error: broken });
    expect(state.ended).toBe(true);
  });

  it('ends the batches when the reader stops in the middle of one', async () => {
    const { state, flattened } = source([[1, 2, 3]]);
    for await (const _number of flattened) break;
    expect(state.ended).toBe(true);
    expect(await flattened.next()).toEqual({ done: true, value: undefined });
  });
});
