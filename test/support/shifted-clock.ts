import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Installation } from './installation.ts';

const file = 'clock-shift-ms';
const preload = `
import { readFileSync } from 'node:fs';
const now = Date.now;
let shiftMs = 0;
Date.now = () => now() + shiftMs;
process.on('SIGUSR2', () => {
  shiftMs = Number(readFileSync(process.env.HOME + '/${file}', 'utf8'));
});`;

/** Environment of an installation whose wall clock a test can set. Its timers do not notice. */
export const shiftableClock = {
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}`,
};

/** Sets the wall clock of the installation: `shiftMs` after the clock of the machine. */
export function shiftClock({ dataDir, pid }: Installation, shiftMs: number): void {
  writeFileSync(join(dataDir, file), String(shiftMs));
  process.kill(pid, 'SIGUSR2');
}
