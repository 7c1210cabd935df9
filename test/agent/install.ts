// Installs the real agent where the tests expect it, and prints its Python. Exit code 3: no
// suitable Python exists.
import { fileURLToPath } from 'node:url';
import { installOpenHands } from '../../src/commands/openhands/install.ts';
import { showProgress } from '../../src/commands/openhands/progress.ts';
import { NoPythonError } from '../../src/commands/openhands/python.ts';

const root = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const ended = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => ended.abort(new Error('interrupted')));

try {
  const python = await installOpenHands({
    folder: root('.cache/agents'),
    constraints: root('images/openhands-constraints.txt'),
    environment: process.env,
    python: process.env['PYTHON'],
    // Published clients, which run in the same environment.
    extras: ['openhands-workspace'],
    progress: () => showProgress(process.stderr, 'agent'),
    signal: ended.signal,
  });
  process.stdout.write(`${python}\n`);
} catch (error) {
  process.stderr.write(`agent: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = error instanceof NoPythonError ? 3 : 1;
}
