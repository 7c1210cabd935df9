import type { Access } from '../support/models/agent-call.ts';
import { call, keptAlive } from './model-calls.ts';

/**
 * An owner that floods the relay from several sandboxes, each with more calls at once than it may
 * have, small ones and some of a few MiB. Prints a line when the flood has begun.
 */
const accesses = JSON.parse(process.argv[2] ?? '') as readonly Access[];
const perSandbox = 80;
const [waitMs, large] = [50, 'x'.repeat(2 * 1_048_576)];
const agent = keptAlive();
let answers = 0;
const worker = async (access: Access, index: number): Promise<void> => {
  for (let turn = 0; ; turn++) {
    const isLarge = index === 0 && turn % 20 === 0;
    const fields = isLarge ? { messages: [{ role: 'user', content: large }] } : {};
    try {
      await call(access, { seed: waitMs, ...fields }, { agent });
    } catch {
      // The relay may close the connections of a flood.
    }
    answers += 1;
    if (answers === 1_000) process.stdout.write('flooding\n');
  }
};
for (const access of accesses)
  for (let index = 0; index < perSandbox; index++) void worker(access, index);
