import { basename } from 'node:path';
import type { Test } from '@jest/test-result';

/** Order of the files: those that end the installation come last. */
const order = [
  'install',
  'story',
  'talk',
  'page',
  'quota',
  'causes',
  'pools',
  'loss',
  'rights',
  'policies',
  'tenants',
  'network',
  // Leaves the relay as a Deployment of its own.
  'relay',
  'openhands',
  'upgrade',
  // Change the settings of the chart, and give back those of the others.
  'service-account',
  'people',
  'chaos',
  // Leaves another chart with other settings.
  'push',
  // Leaves the chart with the settings of the others.
  'history',
  'uninstall',
];

const position = ({ path }: Test): number => order.indexOf(basename(path, '.e2e.ts'));

export default class InOrder {
  sort(tests: readonly Test[]): Test[] {
    const unknown = tests.filter((test) => position(test) === -1).map(({ path }) => path);
    if (unknown.length > 0)
      throw new Error(`support/sequencer.ts does not say when to run ${unknown.join(', ')}`);
    return tests.toSorted((one, other) => position(one) - position(other));
  }

  /** Durations of a run are not used by the next run. */
  cacheResults(): void {
    // Nothing to keep.
  }
}
