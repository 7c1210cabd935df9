// Runs each test that has to notice a mistake with the product that has the mistake.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { availableParallelism, constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { FormattedTestResults } from '@jest/test-result';
import config from '../../jest.config.ts';
import { partOf } from '../support/part.ts';
import { mutationVariable } from './mutation.ts';
import type { TestedMutant } from './tested-mutant.ts';
import { testedMutants } from './tested-mutants.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const [pattern = '', transformer] = Object.entries(config.transform ?? {})[0] ?? [];
const mutatingConfig = JSON.stringify({
  ...config,
  rootDir: root,
  reporters: [],
  transform: { [pattern]: ['<rootDir>/test/mutants/mutating-transformer.ts', transformer?.[1]] },
});
const escaped = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** Maximum time from the start of a test with a mistake until its processes are ended. */
const maxRunMs = 400_000;
/** Failures that show no more than a busy machine, or a mutant that is no program. */
const proofless = /Exceeded timeout|^ReferenceError:/m;

/** The outcome as a sentence, and whether the test noticed the mistake. */
interface Outcome {
  readonly isKilled: boolean;
  readonly text: string;
}

function outcomeOf(results: FormattedTestResults, { test, name }: TestedMutant): Outcome {
  if (results.numRuntimeErrorTestSuites > 0) {
    const [suite] = results.testResults;
    return { isKilled: false, text: `${test} cannot be loaded: ${suite?.message ?? ''}` };
  }
  const failed = results.testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .filter(({ status }) => status === 'failed');
  const messagesOf = ({ failureMessages }: (typeof failed)[number]) => failureMessages ?? [];
  const killer = failed.find((one) => messagesOf(one).some((text) => !proofless.test(text)));
  if (killer !== undefined) return { isKilled: true, text: `killed by ‘${killer.fullName}’` };
  const [proof] = failed.flatMap(messagesOf);
  if (proof !== undefined)
    return { isKilled: false, text: `${test} fails without noticing the mistake: ${proof}` };
  return results.numPassedTests > 0
    ? { isKilled: false, text: `SURVIVES ${results.numPassedTests} tests of ${test}` }
    : { isKilled: false, text: `${test} has no test with the name ‘${name}’` };
}

async function run(mutant: TestedMutant): Promise<Outcome> {
  const { file, from, to, test, name } = mutant;
  const folder = await mkdtemp(join(tmpdir(), 'tested-mutant-'));
  const [results, log] = [join(folder, 'results.json'), join(folder, 'log')];
  const output = await open(log, 'w');
  try {
    // A group of its own, because processes of a test that a mistake leaves behind go with it.
    const jest = spawn(
      process.execPath,
      [
        '--experimental-vm-modules',
        '--disable-warning=ExperimentalWarning',
        'node_modules/jest/bin/jest.js',
        ...['--config', mutatingConfig, '--runInBand', '--forceExit'],
        ...['--json', '--outputFile', results],
        ...['--testNamePattern', escaped(name), '--runTestsByPath', test],
      ],
      {
        cwd: root,
        detached: true,
        stdio: ['ignore', output.fd, output.fd],
        env: {
          ...process.env,
          [mutationVariable]: JSON.stringify({ file, from, to }),
          // Jest itself is loaded once for each mutant.
          NODE_COMPILE_CACHE: join(root, '.cache/compiled'),
          NODE_OPTIONS: `--import=${new URL('preload.ts', import.meta.url).href}`,
        },
      },
    );
    const exited = once(jest, 'exit');
    const end = () => endGroup(jest.pid);
    const timer = setTimeout(end, maxRunMs);
    process.once('exit', end);
    await exited;
    process.off('exit', end);
    clearTimeout(timer);
    end();
    return outcomeOf(JSON.parse(await readFile(results, 'utf8')) as FormattedTestResults, mutant);
  } catch (error) {
    const text = `${String(error)}\n${await readFile(log, 'utf8')}`;
    return { isKilled: false, text: `${test} has no outcome: ${text}` };
  } finally {
    await output.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Ends a process and what it has started, as far as it is there. */
function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The group has ended.
  }
}

for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => process.exit(128 + constants.signals[signal]));

async function main(): Promise<boolean> {
  const { values } = parseArgs({ options: { only: { type: 'string', default: '' } } });
  const only = new RegExp(values.only);
  const chosen = partOf(testedMutants.filter(([name]) => only.test(name)));
  if (chosen.length === 0) throw new Error(`no mutant has a name that matches: ${values.only}`);
  const waiting = chosen.values();
  let killed = 0;
  const lane = async () => {
    for (const [name, mutant] of waiting) {
      const { isKilled, text } = await run(mutant);
      if (isKilled) killed++;
      process.stdout.write(`${name}: ${text}\n`);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
  process.stdout.write(`${killed} passed, ${chosen.length - killed} failed\n`);
  return killed === chosen.length;
}

process.exitCode = (await main()) ? 0 : 1;
