import { cleanUp } from './clean-up.ts';
import { readFigures } from './installation.ts';

/** Maximum time of the process for tasks that a failed test has left behind. */
const maxExitMs = 10_000;

export default async function teardown(): Promise<void> {
  const seconds = Math.round(Date.now() / 1000 - Number(process.env['E2E_STARTED']));
  const lines = Object.entries({ ...readFigures(), 'from nothing to here': `${seconds} s` }).map(
    ([name, value]) => `  ${name.padEnd(32)} ${value}\n`,
  );
  process.stdout.write(`\nMeasured:\n${lines.join('')}`);
  await cleanUp();
  // The process does not wait for this timer, which matters only where something else never ends.
  setTimeout(() => process.exit(), maxExitMs).unref();
}
