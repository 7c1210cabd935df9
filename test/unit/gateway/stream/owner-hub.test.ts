import { setImmediate as turn } from 'node:timers/promises';
import type { Clock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { OwnerHub, type Follower } from '../../../../src/gateway/stream/owner-hub.ts';

/** A clock whose timers fire at once when the test says so, in no turn of the event loop. */
class ManualClock implements Clock {
  readonly #timers = new Set<() => void>();
  #ms = 0;

  now = () => this.#ms;
  monotonic = () => this.#ms;

  after(_delayMs: number, callback: () => void) {
    this.#timers.add(callback);
    return { cancel: () => void this.#timers.delete(callback) };
  }

  pass(): void {
    this.#ms += 250;
    const due = [...this.#timers];
    this.#timers.clear();
    for (const callback of due) callback();
  }
}

it('passes each stream the batches in order, also where a stream leaves meanwhile', async () => {
  const clock = new ManualClock();
  const hub = new OwnerHub({
    records: {
      owner: 'alice',
      recordOf: ({ name }) => ({ id: name, json: `{"at":${clock.now()}}`, isOver: false }),
      quotaJson: () => 'null',
      subjects: function* () {},
    },
    recordsPerTurn: 200,
    hubs: () => 1,
    clock,
    logger: silentLogger,
    charge: (_owner, work) => work(),
  });
  const streams = Array.from({ length: 60 }, () => {
    const sequences: number[] = [];
    const follower: Follower = { send: ({ sequence }) => sequences.push(sequence) };
    hub.join(follower);
    return { follower, sequences };
  });
  for (let change = 0; change < 3; change++) {
    hub.mark('conversation', 'c');
    clock.pass();
    const left = streams.shift();
    if (left !== undefined) hub.leave(left.follower);
  }
  for (let turns = 0; turns < 20; turns++) await turn();
  for (const { sequences } of streams) expect(sequences).toEqual([1, 2, 3]);
  for (const { follower } of streams) hub.leave(follower);
  hub.close();
});
