import { cleanUp } from './clean-up.ts';
import { readFigures } from './installation.ts';

/** How long the process may go on for what a test that has failed half-way has left behind. */
const lastWordsMs = 10_000;

/** Prints what was measured, and tidies up. */
export default async function teardown(): Promise<void> {
  const seconds = Math.round(Date.now() / 1000 - Number(process.env['E2E_STARTED']));
  const lines = Object.entries({ ...readFigures(), 'from nothing to here': `${seconds} s` }).map(
    ([name, value]) => `  ${name.padEnd(32)} ${value}\n`,
  );
  process.stdout.write(`\nMeasured:\n${lines.join('')}`);
  await cleanUp();
  // Nobody waits for this timer: it matters only where something else never ends.
  setTimeout(() => process.exit(), lastWordsMs).unref();
}
