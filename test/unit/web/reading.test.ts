import { Refresher } from '../../../src/web/reading.ts';

describe('Refresher', () => {
  it('reads once at a time, and once more for all calls during a read', async () => {
    const ends: (() => void)[] = [];
    const refresher = new Refresher(() => new Promise<void>((resolve) => void ends.push(resolve)));
    const first = refresher.run();
    void refresher.run();
    void refresher.run();
    expect(ends).toHaveLength(1);
    ends[0]?.();
    await first;
    await Promise.resolve();
    expect(ends).toHaveLength(2);
    const second = refresher.run();
    ends[1]?.();
    await second;
    await Promise.resolve();
    expect(ends).toHaveLength(3);
    ends[2]?.();
    await new Promise(setImmediate);
    expect(ends).toHaveLength(3);
  });
});
