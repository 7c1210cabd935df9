import { OneAtATime } from '../../../src/controllers/one-at-a-time.ts';

const uid = 'uid-a';

describe('controllers that share a kind', () => {
  it('work on an object one after the other: the second is called once the first has ended, however that ends', async () => {
    const shared = new OneAtATime();
    const calls: string[] = [];
    const { promise, reject } = Promise.withResolvers<undefined>();
    const first = shared.run(
      uid,
      () => promise,
      () => calls.push('never'),
    );
    const second = await shared.run(
      uid,
      () => {
        throw new Error('at the same time');
      },
      () => calls.push('again'),
    );
    expect([second, calls]).toEqual([undefined, []]);
    await expect(
      shared.run(
        'uid-b',
        () => Promise.resolve({ requeueAfterMs: 5 }),
        () => undefined,
      ),
    ).resolves.toEqual({
      requeueAfterMs: 5,
    });
    reject(new Error('refused'));
    await expect(first).rejects.toThrow('refused');
    expect(calls).toEqual(['again']);
    await expect(
      shared.run(
        uid,
        () => Promise.resolve({ requeueAfterMs: 7 }),
        () => undefined,
      ),
    ).resolves.toEqual({ requeueAfterMs: 7 });
    expect(calls).toEqual(['again']);
  });
});
