// Installs the real agent where the tests expect it, and prints its Python.
import { fileURLToPath } from 'node:url';
import { installOpenHands } from '../../src/commands/openhands.ts';

const root = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => ended.abort(new Error('interrupted')));

const python = await installOpenHands({
  folder: root('.cache/agents'),
  constraints: root('images/openhands-constraints.txt'),
  environment: process.env,
  signal: ended.signal,
});
process.stdout.write(`${python}\n`);
