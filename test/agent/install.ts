// Installs the real agent where the tests expect it, and prints its Python.
import { fileURLToPath } from 'node:url';
import { installOpenHands } from '../../src/commands/openhands.ts';
import { agentsFolder } from '../support/agents-folder.ts';

const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => ended.abort(new Error('interrupted')));

const python = await installOpenHands({
  folder: agentsFolder,
  constraints: fileURLToPath(new URL('../../images/openhands-constraints.txt', import.meta.url)),
  environment: process.env,
  signal: ended.signal,
});
process.stdout.write(`${python}\n`);
