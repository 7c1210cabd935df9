import { TwoOwners } from '../support/gateway/two-owners.ts';
import { fuzz } from './fuzz.ts';
import { LeakWatch } from './leak-watch.ts';

const requests = Number(process.env['REQUESTS'] ?? 20_000);
const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e9));

process.stdout.write(`${requests} requests with seed ${seed}\n`);
const warnings = new Set<string>();
// Warnings of the runtime: of listeners that pile up, for example.
process.on('warning', ({ message }) => warnings.add(message));
const world = await TwoOwners.start();
try {
  const leaks = new LeakWatch(world);
  const {
    failures: faults,
    statuses,
    seen,
    seconds,
    requests: sent,
  } = await fuzz(world, { requests, seed, watch: leaks.watch });
  await leaks.finish();
  const failures = [...faults, ...leaks.leaks, ...warnings];
  for (const failure of failures) process.stdout.write(`\n${failure}\n`);
  const byStatus = [...statuses]
    .sort(([left], [right]) => left - right)
    .map(([status, count]) => `${status}: ${count}`);
  process.stdout.write(
    `\n${sent} requests to ${seen.size} operations in ${seconds.toFixed(0)} s, ${failures.length} failures\n${byStatus.join(', ')}\n`,
  );
  process.exitCode = failures.length > 0 ? 1 : 0;
} finally {
  await world.stop();
}
