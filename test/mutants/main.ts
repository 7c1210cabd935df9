// Runs each test that has to notice a mistake with the product that has the mistake.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { FormattedTestResults } from '@jest/test-result';
import config from '../../jest.config.ts';
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
  if (results.numFailedTests > 0) {
    const failed = results.testResults
      .flatMap(({ assertionResults }) => assertionResults)
      .find(({ status }) => status === 'failed');
    return { isKilled: true, text: `killed by ‘${failed?.fullName ?? name}’` };
  }
  return results.numPassedTests > 0
    ? { isKilled: false, text: `SURVIVES ${results.numPassedTests} tests of ${test}` }
    : { isKilled: false, text: `${test} has no test with the name ‘${name}’` };
}

async function run(mutant: TestedMutant): Promise<Outcome> {
  const { file, from, to, test, name } = mutant;
  const folder = await mkdtemp(join(tmpdir(), 'tested-mutant-'));
  const output = join(folder, 'results.json');
  try {
    await new Promise<void>((resolve) => {
      execFile(
        process.execPath,
        [
          '--experimental-vm-modules',
          '--disable-warning=ExperimentalWarning',
          'node_modules/jest/bin/jest.js',
          ...['--config', mutatingConfig, '--runInBand', '--json', '--outputFile', output],
          ...['--testNamePattern', escaped(name), '--runTestsByPath', test],
        ],
        {
          cwd: root,
          maxBuffer: Infinity,
          env: {
            ...process.env,
            [mutationVariable]: JSON.stringify({ file, from, to }),
            NODE_OPTIONS: `--import=${new URL('preload.ts', import.meta.url).href}`,
          },
        },
        // The exit code of a run whose tests fail is no error here.
        () => resolve(),
      );
    });
    return outcomeOf(JSON.parse(await readFile(output, 'utf8')) as FormattedTestResults, mutant);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function main(): Promise<boolean> {
  const { values } = parseArgs({ options: { only: { type: 'string', default: '' } } });
  const only = new RegExp(values.only);
  const chosen = Object.entries(testedMutants).filter(([name]) => only.test(name));
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
