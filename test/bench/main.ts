import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { join } from 'node:path';
import type { Figure } from './figure.ts';

/**
 * Runs every *.bench.ts of this folder (ONLY=name: that one), each in a process of its own, and
 * prints what they have measured.
 */
const suffix = '.bench.ts';
const only = process.env['ONLY'] ?? '';
const folder = import.meta.dirname;
const names = readdirSync(folder)
  .filter((file) => file.endsWith(suffix))
  .map((file) => file.slice(0, -suffix.length))
  .filter((name) => only === '' || name === only)
  .sort();
if (names.length === 0) throw new Error(`there is no bench '${only}'`);

function run(name: string): Promise<readonly Figure[]> {
  return new Promise((resolve, reject) => {
    const flags = [
      '--expose-gc',
      '--max-old-space-size=4096',
      '--disable-warning=ExperimentalWarning',
    ];
    const child = spawn(process.execPath, [...flags, join(folder, `${name}${suffix}`)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.once('error', reject);
    child.once('close', (code) => {
      const lines = output.split('\n').filter((line) => line !== '');
      if (code === 0) resolve(lines.map((line) => JSON.parse(line) as Figure));
      else reject(new Error(`${name} ended with ${String(code)}`));
    });
  });
}

const rounded = (value: number): string =>
  value.toLocaleString('en', {
    maximumSignificantDigits: value < 1000 ? 3 : 6,
    maximumFractionDigits: 3,
    roundingPriority: 'lessPrecision',
  });

const isMet = ({ value, target }: Figure): boolean =>
  target === undefined || ('atMost' in target ? value <= target.atMost : value >= target.atLeast);

function verdict(figure: Figure): string {
  const { target } = figure;
  if (target === undefined) return '';
  const words = 'atMost' in target ? `≤ ${rounded(target.atMost)}` : `≥ ${rounded(target.atLeast)}`;
  return `${words.padEnd(12)} ${isMet(figure) ? 'met' : 'MISSED'}`;
}

const began = performance.now();
const missed: string[] = [];
for (const name of names) {
  process.stdout.write(`${name}\n`);
  try {
    for (const figure of await run(name)) {
      process.stdout.write(
        `  ${figure.what.padEnd(68)} ${rounded(figure.value).padStart(11)} ${figure.unit.padEnd(9)} ${verdict(figure)}\n`,
      );
      if (!isMet(figure)) missed.push(`${name}: ${figure.what}`);
    }
  } catch (error) {
    // The others are still worth knowing.
    process.stdout.write(`  ${String(error)}\n`);
    process.exitCode = 1;
  }
}
const load = loadavg().map((value) => value.toFixed(1));
process.stdout.write(
  `${((performance.now() - began) / 1000).toFixed(0)} s on ${availableParallelism()} cores, load ${load.join(' ')} at the end; ${missed.length} targets missed\n`,
);
for (const what of missed) process.stdout.write(`  ${what}\n`);
