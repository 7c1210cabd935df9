import type { Window } from './browser.ts';

/**
 * Steps of one story, each a test: without its predecessors a step has no meaning, hence the first
 * failure fails all that follow. Each step ends with a picture, and without a fault that no
 * exception allows.
 */
export function steps(window: () => Window): (name: string, body: () => Promise<void>) => void {
  let broken = false;
  return (name, body) => {
    it(name, async () => {
      if (broken) throw new Error('an earlier step has failed');
      try {
        await body();
        await window().picture(name);
        expect(window().faults()).toEqual([]);
      } catch (error) {
        broken = true;
        await window().picture(`${name} FAILED`);
        throw error;
      }
    });
  };
}
